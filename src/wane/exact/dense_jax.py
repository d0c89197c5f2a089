"""Systems (I − diag(weight) · P) X = B in JAX: differentiable, under `jit` and `vmap`, and never silently wrong.

In 64 bits these systems are solved by LU. In 32 bits LU would lose all but two digits at γ = 0.999, and near γ = 1 it
loses digits in 64 bits too. In these cases, and in small systems whose γ is traced, the chain is eliminated without
subtractions (`wane.exact.elimination`), which keeps all digits that the arrays can hold. If the error of a solution may
be too large, InaccurateSolve is raised. While JAX traces, nothing can be raised, and the solution is NaN instead.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.checks import is_traced
from wane.exact.elimination import eliminate
from wane.exact.system import ACCEPTED_ERROR, ACCEPTED_ERROR_32, NEAR_ONE, USE_64_BITS, InaccurateSolve
from wane.types import Numbers

_UNKNOWN = 512  # Up to this many states are eliminated if the discount is traced, as it may be close to 1.
_BLOCK = 256  # XLA compiles a separate loop for each block, so there are few and large ones.
Columns = Float[Array, "states columns"]


def solve_jax(
    kernel: Float[Array, "states states"], columns: Columns, weight: Numbers, leak: Numbers, may_grow: bool = False
) -> tuple[Columns, Float[Array, ""], str]:
    """Return X, its relative residual, and how it was found.

    `weight` is one number or one for each state, and `leak` is 1 − weight. Raises InaccurateSolve if the error may be
    too large; while JAX traces, the solution is NaN instead. With `may_grow` weights may exceed 1. Elimination cannot
    solve such systems, and 32 bits do not suffice where they are nearly singular.
    """
    near_one = len(kernel) <= _UNKNOWN if is_traced(leak) else bool(np.min(leak) < NEAR_ONE)
    # Numbers of 64 bits are rounded here and not before, so that 1 − weight keeps its digits in 32 bits too.
    weight, leak = (jnp.broadcast_to(jnp.asarray(a, kernel.dtype), kernel.shape[:1]) for a in (weight, leak))
    moves = weight[:, None] * kernel
    if not may_grow and (near_one or moves.dtype == jnp.float32):
        x, residual = _by_elimination(moves, leak + weight * _exits(kernel), columns)
        error, how = jnp.where(jnp.isfinite(x).all(), 0.0, jnp.inf), "elimination (JAX)"
    else:
        (x, residual, error), how = _by_lu(moves, columns), "dense LU (JAX)"
    single = moves.dtype != jnp.float64
    good = (residual <= (1e-4 if single else 1e-10)) & (error <= (ACCEPTED_ERROR_32 if single else ACCEPTED_ERROR))
    if not is_traced(good) and not bool(good):
        raise InaccurateSolve(
            f"the system in {moves.dtype} has a relative residual of {float(residual):.1e} and an error of up to "
            f"{float(error):.1e}: use a smaller discount, pass the kernel as a NumPy array, or {USE_64_BITS}"
        )
    return jnp.where(good, x, jnp.nan), residual, how


def solve_each_jax(
    kernel: Float[Array, "states states"], columns: Columns, weights: Array, leaks: Array, what: str
) -> tuple[Columns, Float[Array, " columns"]]:
    """Return X and the relative residuals if each column has a weight (or weights: states first) of its own.

    Raises InaccurateSolve if `what` is solved for cannot be found accurately; while JAX traces, it is NaN instead.
    """

    def one(column: Any, weight: Any, leak: Any) -> tuple[Any, Any]:
        x, residual, _ = solve_jax(kernel, column[:, None], weight, leak)
        return x[:, 0], residual

    x, residuals = jax.vmap(one, (1, -1, -1), (1, 0))(columns, weights, leaks)
    if not is_traced(x) and bool(jnp.isnan(x).any()):
        raise InaccurateSolve(
            f"{what} cannot be solved accurately in {x.dtype}: use a smaller discount, pass the kernel as a NumPy "
            f"array, or {USE_64_BITS}"
        )
    return x, residuals


def _exits(kernel: Float[Array, "states states"]) -> Float[Array, " states"]:
    """Return 1 minus the sum of each row, or 0 if that sum is 1 up to rounding."""
    missing = 1 - kernel.sum(1)
    return jnp.where(jnp.abs(missing) <= (1e-5 if kernel.dtype == jnp.float32 else 1e-8), 0.0, missing)


def _by_lu(moves: Float[Array, "states states"], columns: Columns) -> tuple[Columns, Any, Any]:
    """Return the solution, its relative residual, and a bound of its relative error.

    A backward-stable method solves even a singular system to a small residual. Rounding is amplified by ‖A⁻¹‖, which
    the solution for ones measures (`wane.exact.solve`).
    """
    system = jnp.eye(len(moves), dtype=moves.dtype) - moves
    x = jnp.linalg.solve(system, jnp.concatenate([columns, jnp.ones((len(moves), 1), moves.dtype)], axis=1))
    x, steps = x[:, :-1], jnp.abs(x[:, -1]).max()
    error = float(jnp.finfo(moves.dtype).eps) * (1 + moves.sum(1).max()) * steps
    return x, _residual(system, x, columns), jnp.where(jnp.isfinite(error), error, jnp.inf)


@jax.jit
def _by_elimination(
    moves: Float[Array, "states states"], excess: Float[Array, " states"], columns: Columns
) -> tuple[Columns, Any]:
    """Return the solution and its relative residual. LU is used only for derivatives with respect to the inputs."""
    system = jnp.eye(len(moves), dtype=moves.dtype) - moves
    block = max(_BLOCK, -(-len(moves) // 4))
    fixed_moves, fixed_excess = jax.lax.stop_gradient(moves), jax.lax.stop_gradient(excess)
    x = jax.lax.custom_linear_solve(
        lambda y: jnp.matmul(system, y, precision="highest"),
        columns,
        solve=lambda _, b: eliminate(fixed_moves, fixed_excess, b, block),
        transpose_solve=lambda _, b: jnp.linalg.solve(jax.lax.stop_gradient(system).T, b),
    )
    return x, _residual(system, x, columns)


def _residual(system: Float[Array, "states states"], x: Columns, columns: Columns) -> Float[Array, ""]:
    # On some GPUs the default precision rounds factors to ten bits, and every residual would look bad.
    product = jnp.matmul(system, x, precision="highest")
    size = jnp.abs(system).sum(1).max() * jnp.abs(x).max() + jnp.abs(columns).max()
    return jnp.abs(columns - product).max() / size
