"""What a policy collects in a finite number of steps.

With a horizon of H rewards the representation is a sum up to time H − 1,

    Φ_H(s, s') = E[ Σ_{t < H} γᵗ f(visits to s' before t) 1(s_t = s') | s₀ = s ].

The chain is a renewal process at every site. Let p_k(s) be the probability that the first visit comes at time k, and
q_k the probability that the first return takes k steps. What the site pays from a visit on, in the next m steps, is

    g_m = Σ_{t < m} γᵗ Σₙ f(n) q^(*n)(t),        Φ_H(s, s') = Σ_{k < H} γᵏ p_k(s) g_{H−k},

where q^(*n) is the n-fold convolution of q: the distribution of the time of the n-th return. Both p and q come from
products with the kernel, H of them, and the sum over k is computed from its last term to its first with H more. So the
cost grows with the horizon and the number of entries of the kernel, and no linear system is solved.

If the worth of a visit also depends on the time since the last one (`TimeElapsed`), q^(*n) is weighted by it in the
last of its n convolutions. If worth, visit and wait are affine functions of a real memory m, then so is the value, and
x(s, m) = a(s) + b(s) m is followed step by step. Every other memory is reduced to levels: a fixed policy is an MDP with
one action, and its optimum, for one site at a time, is the value (`wane.exact.planning`).
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy import fft as _fft
from scipy import sparse

from wane.depletion import Depletion, Diminishing, Memory
from wane.exact.levels import Levels, counted_levels, enclosing_levels, is_affine, memory_range
from wane.exact.memories import pick
from wane.exact.product import Product, require_product
from wane.exact.system import InaccurateSolve
from wane.kernels import Operator, require_matrix
from wane.limits import require_memory
from wane.mdp import MDP
from wane.regrowth import Elapsed, TimeElapsed
from wane.sums import check_bound

fft: Any = _fft  # SciPy dispatches its transforms, so type checkers do not see what they return.

ACCEPTED_ERROR = 1e-6
"""The largest accepted bound on the error of rewards that grow back, per unit of r̄."""
_LEVELS = 4096  # Levels of memory with which a site that grows back is followed.


def finite_representation(
    kernel: Operator,
    depletion: Depletion,
    discount: float,
    sites: Int[np.ndarray, " sites"],
    horizon: int,
    memory: Memory | None = None,
) -> Float[np.ndarray, "states sites"]:
    """Return Φ_H of a kernel that was checked, with the sites in `memory` (default: never visited).

    Raises a ValueError if a memory is given that is neither a count nor one that is affine, and InaccurateSolve if what
    rewards that grow back remember cannot be followed accurately.
    """
    n, k = kernel.shape[0], len(sites)
    cure = "name fewer `sites`, or give a shorter `horizon`"
    require_memory("the representation", (n, "states"), (k, "sites"), copies=4, cure=cure)
    if isinstance(depletion, TimeElapsed) and memory is not None:
        raise _unknown_memory(depletion)
    if not isinstance(depletion, Diminishing | TimeElapsed):
        begin = [None] * k if memory is None else [pick(memory, i) for i in range(k)]
        each = [(depletion.at_sites(i), int(site), begin[i]) for i, site in enumerate(sites)]
        return np.column_stack([np.zeros((n, 0)), *(_remembered(kernel, discount, horizon, *one) for one in each)])
    if horizon == 0:
        return np.zeros((n, k))
    require_memory("the returns to the sites", (horizon, "steps"), (k, "sites"), copies=8, cure=cure)
    paid = _paid(_return_times(kernel, sites, horizon), depletion, discount, 0 if memory is None else memory)
    own, phi = np.arange(k), np.zeros((n, k))
    for m in range(horizon):
        phi = discount * np.asarray(kernel @ phi)
        phi[sites, own] = paid[m]
    return phi


def _return_times(
    kernel: Operator, sites: Int[np.ndarray, " sites"], horizon: int
) -> Float[np.ndarray, "horizon sites"]:
    """Return q_k, the probability that the first return to each site takes k = 0, …, H − 1 steps."""
    own = np.arange(len(sites))
    first, returns = np.zeros((kernel.shape[0], len(sites))), np.zeros((horizon, len(sites)))
    first[sites, own] = 1
    for k in range(1, horizon):
        first = np.asarray(kernel @ first)
        returns[k] = first[sites, own]
        first[sites, own] = 0
    return returns


def _paid(
    returns: Float[np.ndarray, "horizon sites"], depletion: Depletion, discount: float, visits: Any
) -> Float[np.ndarray, "horizon sites"]:
    """Return g_m of each site for m = 1, …, H: what it pays from a visit on in m steps."""
    horizon, k = returns.shape
    size, gaps = (
        fft.next_fast_len(2 * horizon, real=True),
        np.maximum(np.arange(horizon), 1)[:, None] + np.zeros(k, int),
    )
    timed = isinstance(depletion, TimeElapsed)

    def convolved(before: Any, step: Any) -> Any:
        """Times beyond the horizon are dropped, and take no part in the next convolution."""
        return np.maximum(fft.irfft(before * step, size, axis=0)[:horizon], 0.0)

    def worth(n: int) -> Any:
        """What the n-th return pays, for all times since the last visit if these matter."""
        found = depletion.worth(Elapsed(np.full_like(gaps, n), gaps) if timed else visits + np.full(k, n))
        check_bound(depletion, found)
        return np.asarray(found, float)

    step, time = fft.rfft(returns, size, axis=0), np.eye(horizon, 1)  # No time has passed before the visit itself.
    total = time * (worth(0)[:1] if timed else worth(0))
    for n in range(1, horizon):
        before = fft.rfft(time, size, axis=0)
        time = convolved(before, step)
        if not time.any():
            break
        total = total + (convolved(before, fft.rfft(returns * worth(n), size, axis=0)) if timed else worth(n) * time)
    return np.cumsum(discount ** np.arange(horizon)[:, None] * total, axis=0)


def _remembered(
    kernel: Operator, discount: float, horizon: int, depletion: Depletion, site: int, memory: Memory | None
) -> Float[np.ndarray, " states"]:
    """Return Φ_H of one site with any other memory."""
    fresh = depletion.initial((1,))
    if isinstance(fresh, np.ndarray) and fresh.dtype.kind == "f":
        reached = memory_range(depletion, float(fresh[0]), horizon)
        if reached is not None and is_affine(depletion, np.linspace(*reached, 129)):
            begin = float(fresh[0] if memory is None else memory)
            return _affine(kernel, discount, horizon, depletion, site, begin)
    if memory is not None:
        raise _unknown_memory(depletion)
    return _by_levels(kernel, discount, horizon, depletion, np.array([site]))


def finite_patches(
    kernel: Operator,
    patches: Sequence[Int[np.ndarray, " _states"]],
    depletion: Depletion,
    discount: float,
    horizon: int,
    after: Literal["fresh", "visit", "wait"] = "fresh",
) -> Float[np.ndarray, "states patches"]:
    """Return Φ_H of sets of states, of which each is one site: fresh ones, or one step after a visit or elsewhere.

    For λⁿ the value is λⁿ times that of a fresh patch, so one column is followed step by step. For any other depletion
    the levels of its memory are, as for one site (see above); visit counts are levels without rounding.
    """
    columns = [np.zeros(kernel.shape[0]) for _ in patches]
    for i, states in enumerate(patches):
        own = depletion.at_sites(i)
        if horizon and own.common_ratio is not None:
            lam, inside = float(own.common_ratio), np.isin(np.arange(kernel.shape[0]), states)
            for _ in range(horizon):
                columns[i] = inside + discount * np.where(inside, lam, 1.0) * np.asarray(kernel @ columns[i])
            columns[i] = columns[i] * (lam if after == "visit" else 1.0)
        elif horizon:
            columns[i] = _by_levels(kernel, discount, horizon, own, states, after)
    return np.column_stack([np.zeros((kernel.shape[0], 0)), *columns])


def _by_levels(
    kernel: Operator,
    discount: float,
    horizon: int,
    depletion: Depletion,
    states: Int[np.ndarray, " states"],
    after: Literal["fresh", "visit", "wait"] = "fresh",
) -> Float[np.ndarray, " _all"]:
    """Return Φ_H of one site, by following the levels of its memory."""
    matrix = require_matrix(kernel, f"{type(depletion).__name__} until a horizon")
    mdp = MDP([matrix] if sparse.issparse(matrix) else matrix[:, None])
    if isinstance(depletion, Diminishing):
        worth = np.asarray(depletion.worth(np.arange(horizon + 2)), float) + np.zeros(horizon + 2)
        check_bound(depletion, worth)
        low = high = counted_levels(worth)
    else:
        low, high = enclosing_levels(depletion, _LEVELS, horizon + (after != "fresh"), fixed_policy=True)
    cure = "give a shorter `horizon`, or None for an endless one"

    def value(levels: Levels) -> Float[np.ndarray, " _all"]:
        require_product(mdp, [len(levels.worth)], horizon, cure)
        product = Product(mdp, (states,), np.ones(1), (levels,), discount, None)
        best, _, _ = product.value_iteration(horizon - 1, 0.0)
        fresh = levels.fresh
        begin = {"fresh": fresh, "visit": levels.visit[fresh], "wait": levels.wait[fresh]}[after]
        chance = float(levels.chance[fresh]) if after == "visit" else 0.0
        one, other = product.arrival_values(best, np.array([begin, levels.visit_else[fresh]])).T
        return (1 - chance) * one + chance * other

    least = value(low)
    most = least if high is low else value(high)
    if (error := float(np.abs(most - least).max()) / 2) > ACCEPTED_ERROR:
        raise InaccurateSolve(f"what {depletion!r} pays in {horizon} steps is known to {error:.1e} only: {cure}")
    return (least + most) / 2


def _affine(
    kernel: Operator, discount: float, horizon: int, depletion: Depletion, site: int, memory: float
) -> Float[np.ndarray, " states"]:
    """Return a(s) + b(s) m for the memory m of the site."""

    def line(function: Any) -> tuple[float, float]:
        zero, one = np.asarray(function(np.array([0.0, 1.0])), float)
        return zero, one - zero

    worth, visit, wait = (line(function) for function in (depletion.worth, depletion.visit, depletion.wait))
    value = np.zeros((kernel.shape[0], 2))
    for _ in range(horizon):
        after = discount * np.asarray(kernel @ value)
        value = np.column_stack([after[:, 0] + wait[0] * after[:, 1], wait[1] * after[:, 1]])
        value[site] = after[site, 0] + visit[0] * after[site, 1] + worth[0], visit[1] * after[site, 1] + worth[1]
    return value[:, 0] + value[:, 1] * memory


def _unknown_memory(depletion: Depletion) -> ValueError:
    return ValueError(
        f"after a visit, what {depletion!r} pays until a horizon is not known: take an endless episode (horizon=None)"
    )
