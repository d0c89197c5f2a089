"""Elimination without subtractions: it solves systems of a Markov chain to full accuracy, even with γ very near to 1.

A state i moves to j ≠ i with weight a(i, j) and is lost with weight v(i). For I − γP these are γ P(i, j) and 1 − γ. The
system

    x(i) (v(i) + Σ_{j≠i} a(i, j)) − Σ_{j≠i} a(i, j) x(j) = b(i)

is (I − γP) x = b, written without its diagonal. The entry 1 − γ P(i, i) of the diagonal is rounded to 1e-16. Where
1 − γ is 1e-12, that rounding spoils all but four digits of the answer.

A state is eliminated by observing the chain only while it is elsewhere: the weights of the paths through the state are
added to the weights and leaks of the other states. Numbers of equal sign are never subtracted, so each entry of x
keeps its relative accuracy (Grassmann, Taksar and Heyman 1985; Alfa, Xue and Ye 2002). The states are eliminated in
halves, so nearly all of the work is products of matrices.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.types import AnyArray

_BLOCK = 32  # Up to this many states are eliminated one by one.


def eliminate(
    away: Float[AnyArray, "states states"],
    lost: Float[AnyArray, " states"],
    rhs: Float[AnyArray, "states columns"],
    block: int = _BLOCK,
) -> Float[AnyArray, "states columns"]:
    """Return x for the weights a, the leaks v and the right-hand sides b, which are not negative.

    The diagonal of `away` is ignored. States that are never lost (a closed class with v = 0) give infinite or undefined
    numbers. `block` is the number of states that are eliminated one by one.
    """
    n = len(lost)
    if n <= block:
        one_by_one: Any = _one_by_one_jax if isinstance(away, jax.Array) else _one_by_one
        return one_by_one(away, lost, rhs)
    xp = jnp if isinstance(away, jax.Array) else np
    former, latter, m = slice(0, n // 2), slice(n // 2, n), n - n // 2
    # From the former half the chain moves to the latter, or it is lost, or it meets b: three kinds of columns at once.
    ends = xp.concatenate([away[former, latter], lost[former, None], rhs[former]], axis=1)
    found = eliminate(away[former, former], lost[former] + away[former, latter].sum(1), ends, block)
    through = _product(away[latter, former], found)
    x = eliminate(
        away[latter, latter] + through[:, :m], lost[latter] + through[:, m], rhs[latter] + through[:, m + 1 :], block
    )
    return xp.concatenate([found[:, m + 1 :] + _product(found[:, :m], x), x])


def _product(a: Any, b: Any) -> Any:
    """Return a @ b. On some GPUs the default precision would round the factors to ten bits."""
    return jnp.matmul(a, b, precision="highest") if isinstance(a, jax.Array) else a @ b


def _one_by_one(
    away: Float[np.ndarray, "states states"],
    lost: Float[np.ndarray, " states"],
    rhs: Float[np.ndarray, "states columns"],
) -> Float[np.ndarray, "states columns"]:
    n = len(lost)
    table = np.concatenate([away, lost[:, None], rhs], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for k in range(n):
            table[k, k + 1 :] /= table[k, k + 1 : n + 1].sum()
            table[k + 1 :, k + 1 :] += table[k + 1 :, k, None] * table[k, k + 1 :]
    x = table[:, n + 1 :]
    for k in range(n - 2, -1, -1):
        x[k] += table[k, k + 1 : n] @ x[k + 1 :]
    return x


def _one_by_one_jax(
    away: Float[Array, "states states"], lost: Float[Array, " states"], rhs: Float[Array, "states columns"]
) -> Float[Array, "states columns"]:
    """Do the same as `_one_by_one` with arrays of fixed shapes, as JAX's loops need: masks replace the slices."""
    n = len(lost)
    rows, columns = np.arange(n), np.arange(n + 1 + rhs.shape[1])

    def forward(k: Any, table: Any) -> Any:
        row = jnp.where(columns > k, table[k], 0.0)
        row = row / jnp.where(columns <= n, row, 0.0).sum()
        table = table.at[k].set(jnp.where(columns > k, row, table[k]))
        return table + jnp.where(rows > k, table[:, k], 0.0)[:, None] * row

    def backward(step: Any, x: Any) -> Any:
        k = n - 1 - step
        later = jnp.where(rows > k, table[k, :n], 0.0)
        return x.at[k].add(_product(later, x))

    table = jax.lax.fori_loop(0, n, forward, jnp.concatenate([away, lost[:, None], rhs], axis=1))
    return jax.lax.fori_loop(1, n, backward, table[:, n + 1 :])
