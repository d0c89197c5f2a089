"""The paper's Bellman operator (its definition 4.2), and dynamic programming with it.

    (G_λ Φ)(s, s) = 1 + γ λ(s) (PΦ)(s, s),        (G_λ Φ)(s, s') = γ (PΦ)(s, s')  for s' ≠ s.

Started at Φ⁰ = (1 − λ) I the iteration converges to the λR. The paper bounds the error after k steps by
γ^(k+1) / (1 − λγ). On the diagonal this bound is too small; γ^k / (1 − λγ) holds (`wane.exact.bounds.convergence`).
This module exists to study the iteration. To obtain the λR, `wane.lambda_representation` is exact and far faster.

With actions, E[Φ(s₁, a₁) | s, a] replaces PΦ, where the policy draws a₁ in s₁. All functions need
only products with the kernel (`wane.kernels.Operator`), and accept any selection of columns (sites).
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from wane.checks import check_range, check_tolerance, is_traced
from wane.depletion import Geometric
from wane.exact.bounds import convergence
from wane.exact.representations import check_parameters
from wane.kernels import KernelLike, Operator, check_operator
from wane.limits import require_memory
from wane.mdp import MDP, check_discount, check_policy, check_sites, probabilities
from wane.sums import namespace
from wane.texts import brief
from wane.types import AnyArray, ArrayLike, Integer, Numbers, Scalar


def bellman_target(phi_next: Numbers, visited: Any, lam: Numbers, discount: Numbers) -> Any:
    """Return G_λ Φ, given E Φ(s₁, ·) and `visited`, which is 1 where the state is the site of the column and else 0.

    Raises a ValueError if λ or γ lies outside of [0, 1].
    """
    check_range("lam", lam, 0, 1, "λ is the fraction of a reward that remains after a visit")
    check_range("discount", discount, 0, 1, "it is the γ of Σ γᵗ rₜ")
    return visited + discount * (1 - (1 - lam) * visited) * phi_next


def bellman_step(
    phi: Float[AnyArray, "states sites"],
    kernel: Operator,
    lam: Numbers,
    discount: Scalar,
    sites: ArrayLike | None = None,
) -> Float[AnyArray, "states sites"]:
    """Return G_λ Φ."""
    return bellman_target(kernel @ phi, _visited(phi, sites), lam, discount)


def bellman_action_step(
    phi: Float[AnyArray, "states actions sites"],
    mdp: MDP,
    policy: AnyArray,
    lam: Numbers,
    discount: Scalar,
    sites: ArrayLike | None = None,
) -> Float[AnyArray, "states actions sites"]:
    """Return G_λ Φ for a Φ with actions. `policy` holds actions (states,) or probabilities (states, actions)."""
    xp = namespace(phi, policy)
    phi_next = mdp.backup(xp.einsum("sa,sak->sk", probabilities(policy, mdp.n_actions), phi))
    return bellman_target(phi_next, _visited(phi[:, 0], sites)[:, None], lam, discount)


def _visited(phi: Float[AnyArray, "states sites"], sites: ArrayLike | None) -> Float[np.ndarray, "states sites"]:
    """Return 1 where the state is the site of the column, else 0."""
    columns = np.arange(phi.shape[1]) if sites is None else np.asarray(sites)
    return (np.arange(phi.shape[0])[:, None] == columns).astype(float)


class Iteration(NamedTuple):
    """What `iterate` returns."""

    matrix: Float[AnyArray, "states *actions sites"]
    """the last Φ"""
    errors: Float[np.ndarray, " steps"]
    """max |Φᵏ⁺¹ − Φᵏ|, the Bellman error, for k = 0, 1, …"""
    bound: float
    """a bound on the distance of the last Φ from the λR"""

    __repr__ = brief


def iterate(
    kernel: KernelLike,
    lam: ArrayLike,
    *,
    discount: Scalar,
    sites: ArrayLike | None = None,
    mdp: MDP | None = None,
    tolerance: Scalar = 1e-10,
    stop: str = "error",
    max_steps: Integer = 100_000,
) -> Iteration:
    """Apply G_λ, starting from (1 − λ) I, until the Bellman error is below `tolerance`.

    With stop="bound" it takes as many steps as the corrected bound demands, so that the answer is known to be within
    `tolerance`. If `mdp` is given, `kernel` is a policy, and Φ(s, a, s') is iterated. Raises a ValueError if
    `max_steps` do not suffice.
    """
    depletion, discount = Geometric(lam), check_discount(discount)
    if stop not in ("error", "bound"):
        raise ValueError(f'stop is "error" or "bound", got {stop!r}')
    if stop == "bound" and discount == 1:
        raise ValueError("with discount 1 the bound does not shrink: use stop='error', or wane.lambda_representation")
    given: Any = kernel
    checked: Any = check_policy(given, mdp.n_states, mdp.n_actions) if mdp else check_operator(given)
    n = checked.shape[0]
    sites = check_sites(sites, n)
    if is_traced(checked, discount, depletion.lam):
        raise TypeError("iterate looks at the Bellman error after each step: call it without jit, grad or vmap")
    check_parameters(depletion, len(sites))
    check_tolerance(tolerance)
    sizes = (n, "states"), (mdp.n_actions if mdp else 1, "actions"), (len(sites), "sites")
    require_memory("the iteration", *sizes, copies=4, cure="name fewer `sites`")
    phi: Any = (1 - depletion.lam) * (np.arange(n)[:, None] == sites).astype(float)
    if mdp:
        phi = np.repeat(phi[:, None], mdp.n_actions, axis=1)
    errors: list[float] = []
    while not _done(errors, depletion.lam, discount, tolerance, stop):
        _check_steps(errors, tolerance, max_steps)
        if mdp:
            phi_after = bellman_action_step(phi, mdp, checked, depletion.lam, discount, sites)
        else:
            phi_after = bellman_step(phi, checked, depletion.lam, discount, sites)
        errors.append(float(abs(phi_after - phi).max()))
        phi = phi_after
    return Iteration(phi, np.array(errors), float(np.max(convergence(len(errors), depletion.lam, discount))))


def _check_steps(errors: list[float], tolerance: Scalar, max_steps: Integer) -> None:
    if len(errors) >= max_steps:
        reached = errors[-1] if errors else np.inf
        raise ValueError(
            f"after {max_steps} steps the Bellman error is {reached:.1e}, above {tolerance:.1e}: raise max_steps or "
            "the tolerance, or use wane.lambda_representation, which needs no iteration"
        )


def _done(errors: list[float], lam: Numbers, discount: Scalar, tolerance: Scalar, stop: str) -> bool:
    if stop == "bound":
        return bool(np.max(convergence(len(errors), lam, discount)) <= tolerance)
    return bool(errors and errors[-1] <= tolerance)
