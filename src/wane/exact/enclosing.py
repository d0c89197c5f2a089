"""Bounds on what sites pay, from what is known on the explored states of a kernel. Every bound is proven.

Let B be the explored states and X a site, a set of states of B. While the chain stays in B, it first visits X from s
with the discounted mass F_B(s, x) in x ∈ X, returns from one visit to the next with K_B(x, x'), and leaves B before
that with ℓ(s) and ℓ(x). All of these come from one linear system on B. The proof, in five lines:

1. Paths that stay in B are some of all paths, so F_B and K_B are lower bounds of the true F and K.
2. The missing paths leave B before they reach X. Their mass is ℓ when they leave, and at most uℓ when they reach X,
   if u bounds the mass with which X is reached from a state outside. So the missing parts of rows sum to at most uℓ.
3. u ≤ γ, because at least one step is needed. A path comes back into B through a state e with a predecessor outside, so
   also u ≤ γ maxₑ (F_B(e, X) + ℓ(e) u), which is solved for u. Without such a state, nothing comes back: u = 0.
4. Φ_f = F Σₙ f(n) Kⁿ 1 rises in F and in K if f ≥ 0, and any f is the difference f⁺ − f⁻ of two such curves.
5. Sites outside of B are visited after B was left: together they pay at most ℓ(s) max|r̄| max|f| / (1 − γ).

If X is one state x, everything follows from M = (I − γP_BB)⁻¹ and the mass h that leaves B at all: with d = M(x, x),
F_B = M(s, x)/d, K_B = R = 1 − 1/d, ℓ(s) = h(s) − F_B h(x), ℓ(x) = h(x)/d, and for the paper's λ the sum is
1 / (1 − λR). For a larger X the rows of X are taken out of the system. Negative rewards swap the two sides.

Rounding: for a computed x̃, the residual ρ = b − (I − γP)x̃ is computed too, and a bound on its own rounding is added.
Then |x − x̃| ≤ n max|ρ|, where n bounds the sums of the rows of (I − γP)⁻¹: 1 / (1 − γ), or max t / min (I − γP)t for a
t > 0 with (I − γP)t > 0. This holds for whatever method has found x̃ and t. Whatever is derived from x̃ is widened by a
multiple of the machine's precision.
"""

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse.linalg import splu

from wane.exact.exploring import Blocks
from wane.exact.krylov import bicgstab
from wane.exact.methods import Krylov, SparseLU
from wane.exact.system import System
from wane.sums import SERIES_LONGEST, check_bound, return_power

EPSILON = float(np.finfo(float).eps)
ROWS = 1e-12
"""How far the sum of a row may exceed 1 after the checks of `FunctionKernel`."""
_UNIT = 1.01 * EPSILON / 2  # The relative error of one operation, with room for those of higher order.
_WIDE = 16 * EPSILON
_SMALL = 400  # LU solves so few states at once, whatever their graph is.
_AT_ONCE = 32
_ENTRIES = 1 << 20


class Resolvent:
    """(I − γP)⁻¹ of a sparse kernel, with a bound on the error of every column."""

    def __init__(self, kernel: Any, discount: float) -> None:
        self.kernel, self.discount = kernel, discount
        self.upper_discount = discount * (1 + ROWS)
        """γ, with room for rows that sum to a little more than 1."""
        self.terms = int(np.diff(kernel.indptr).max(initial=0)) + 4
        self._matrix: Any = sp.eye_array(kernel.shape[0], format="csr") - discount * kernel
        self._factor: Any = None
        if self._is_direct():
            # Diagonal pivots are stable: γ < 1 makes the matrix diagonally dominant.
            self._factor = splu(
                self._matrix.tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )

    def _is_direct(self) -> bool:
        if self.kernel.shape[0] <= _SMALL:
            return True
        system = System(self.kernel, self.discount, None)
        return SparseLU().applies(system, 1) and SparseLU().cost(system, 8) <= Krylov().cost(system, 8)

    def solve(self, rhs: Float[np.ndarray, "n k"]) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, " k"]]:
        """Return (I − γP)⁻¹ rhs, and a bound on the largest error of each column."""
        x = self.apply(rhs)
        residual, rounding = self._residual(rhs, x)
        error = np.max(np.abs(residual) + rounding, axis=0, initial=0.0) * self.norm
        return x, np.where(np.isfinite(error), error, np.inf)

    def _residual(self, rhs: Any, x: Any) -> tuple[Any, Any]:
        """Return rhs − (I − γP)x, and a bound on its rounding."""
        size = np.abs(rhs) + np.abs(x) + self.discount * (self.kernel @ np.abs(x))
        return rhs - (x - self.discount * (self.kernel @ x)), _UNIT * self.terms * size

    @cached_property
    def norm(self) -> float:
        """A bound on the sums of the rows of (I − γP)⁻¹: the discounted time until the chain leaves."""
        ones = np.ones((self.kernel.shape[0], 1))
        time = np.maximum(self.apply(ones), 0.0)
        residual, rounding = self._residual(ones, time)
        least = 1 - float(np.max(residual + rounding, initial=0.0))  # Here (I − γP)t is 1 minus the residual.
        trivial = (1 + _WIDE) / (1 - self.upper_discount)
        return min(float(time.max(initial=1.0)) / least * (1 + _WIDE), trivial) if least > 0.5 else trivial

    def apply(self, rhs: Float[np.ndarray, "n k"], transposed: bool = False) -> Float[np.ndarray, "n k"]:
        """Return (I − γP)⁻¹ rhs, or the transposed inverse times rhs, as it was computed."""
        if self._factor is not None:
            return self._factor.solve(rhs, "T" if transposed else "N")
        matrix = sp.csr_array(self._matrix.T) if transposed else self._matrix
        x, goal = np.zeros_like(rhs), np.full(rhs.shape[1], 1e-7)
        with np.errstate(all="ignore"):
            for _ in range(3):  # Each start from the true residual gains seven digits.
                step = bicgstab(matrix, rhs - matrix @ x, goal, 2000)[0]
                x += np.where(np.isfinite(step), step, 0.0)
        return x


class Ball:
    """The explored states, and the discounted mass that leaves them."""

    def __init__(self, blocks: Blocks, discount: float) -> None:
        self.blocks, self.discount = blocks, discount
        self.resolvent = Resolvent(blocks.inside, discount)
        self.gamma = self.resolvent.upper_discount
        self.size: int = blocks.inside.shape[0]
        self.out = discount * np.ravel(blocks.leaving.sum(axis=1))
        """The discounted probability of leaving in the next step."""
        self.entries = np.zeros(0, np.int64) if blocks.entries is None else blocks.entries
        """The states that may be entered from outside, none if they are not known."""
        found, error = self.resolvent.solve(self.out[:, None])
        self.leaving_least, self.leaving_most = _around(found[:, 0], float(error[0]) + self.out_error, self.out)

    @property
    def out_error(self) -> float:
        """A bound on what rounding `out` does to a solution for it."""
        return EPSILON * self.resolvent.terms * float(self.out.max(initial=0.0)) * self.resolvent.norm

    def visits(self, sites: Int[np.ndarray, " k"], starts: Int[np.ndarray, " starts"]) -> "Visits":
        """Return how often some states are visited from the starts, from each other, and from the entries."""
        rows, errors = np.concatenate([starts, sites, self.entries]), np.empty(len(sites))
        found = np.empty((len(rows), len(sites)))
        for start in range(0, len(sites), _AT_ONCE):
            few = sites[start : start + _AT_ONCE]
            rhs = np.zeros((self.size, len(few)))
            rhs[few, np.arange(len(few))] = 1.0
            x, errors[start : start + _AT_ONCE] = self.resolvent.solve(rhs)
            found[:, start : start + _AT_ONCE] = x[rows]
        s, k = len(starts), len(sites)
        own = starts[:, None] == sites
        return Visits(found[:s], np.diag(found[s : s + k]), found[s + k :], errors, own)

    def arriving(self, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " seen"]:
        """Return the discounted mass that arrives in every state outside, if `weights` start in the explored ones."""
        inner = np.maximum(self.resolvent.apply(weights[:, None], transposed=True)[:, 0], 0.0)
        return self.discount * (self.blocks.leaving.T @ inner)

    def reached_again(
        self, first: Float[np.ndarray, "entries sites"], leaving: Float[np.ndarray, " entries"]
    ) -> Float[np.ndarray, " sites"]:
        """Return u: with how much discounted mass a site is reached from outside, at most."""
        if len(leaving) == 0:
            return np.full(first.shape[1], self.gamma if self.blocks.entries is None else 0.0)
        back = self.gamma * first.max(axis=0) / max(1 - self.gamma * float(leaving.max()), EPSILON)
        return np.minimum(back * (1 + _WIDE), self.gamma)


def _around(x: Any, error: Any, out: Any) -> tuple[Any, Any]:
    """Return bounds on the mass that leaves: it lies in [0, 1], and is exactly zero if no step leads out."""
    if not out.any():
        return np.zeros_like(x), np.zeros_like(x)
    return np.maximum(x - error, 0.0), np.clip(x + error, 0.0, 1.0)


class Visits(NamedTuple):
    """M_B(·, x) of some sites x of one state each."""

    at_starts: Float[np.ndarray, "starts k"]
    at_sites: Float[np.ndarray, " k"]
    """M_B(x, x)"""
    at_entries: Float[np.ndarray, "entries k"]
    errors: Float[np.ndarray, " k"]
    """a bound on the errors of each column"""
    own: Bool[np.ndarray, "starts k"]
    """whether a start is the state of the column"""


class Enclosure(NamedTuple):
    """What some sites pay from some starts, per unit of r̄."""

    low: Float[np.ndarray, "starts sites"]
    high: Float[np.ndarray, "starts sites"]
    outside: Float[np.ndarray, " sites"]
    """how much can be missing per unit of mass that leaves before the first visit: u times what the visits pay"""
    first: Float[np.ndarray, "entries sites"]
    """upper bounds of the first visits from the states through which mass comes back"""


def single_sites(
    ball: Ball,
    visits: Visits,
    sites: Int[np.ndarray, " k"],
    starts: Int[np.ndarray, " starts"],
    depletion: Any,
    closed: bool = False,
) -> Enclosure:
    """Return bounds for sites of one state each. With `closed`, as if nothing left: only rounding is bounded then."""
    h, least = (np.zeros(ball.size) if closed else each for each in (ball.leaving_most, ball.leaving_least))
    error, own = visits.errors, visits.own
    most, fewest = visits.at_sites + error, np.maximum(visits.at_sites - error, 1.0)
    first_low = np.where(own, 1.0, np.maximum(visits.at_starts - error, 0.0) / most * (1 - _WIDE))
    first_high = np.minimum(np.where(own, 1.0, (visits.at_starts + error) / fewest * (1 + _WIDE)), 1.0)
    entries = np.minimum((visits.at_entries + error) / fewest * (1 + _WIDE), 1.0)
    u = ball.reached_again(entries, h[ball.entries])
    lost = h[starts][:, None] * (1 + _WIDE) - first_low * least[sites]
    lost = np.where(own, 0.0, np.clip(lost, 0.0, 1.0))
    never_low = 1 / most * (1 - _WIDE) - h[sites] / fewest * u * (1 + _WIDE)
    never_low = np.clip(never_low, 1 - ball.gamma, 1.0)
    paid_low, paid_high = _paid(depletion, never_low, np.minimum(1 / fewest * (1 + _WIDE), 1.0))
    first_high = np.minimum(first_high + lost * u, 1.0)
    low = np.where(paid_low >= 0, first_low, first_high) * paid_low
    high = np.where(paid_high >= 0, first_high, first_low) * paid_high
    outside = u * np.maximum(np.abs(paid_low), np.abs(paid_high))
    return Enclosure(low - _WIDE * np.abs(low), high + _WIDE * np.abs(high), outside, entries)


def _paid(
    depletion: Any, never_low: Float[np.ndarray, " sites"], never_high: Float[np.ndarray, " sites"]
) -> tuple[Float[np.ndarray, " sites"], Float[np.ndarray, " sites"]]:
    """Return bounds on G_f(R) = Σₙ f(n) Rⁿ, where 1 − R lies between `never_low` and `never_high`."""
    lam = depletion.common_ratio
    if lam is not None:
        low, high = (1 / ((1 - lam) + lam * never) for never in (never_high, never_low))
        return low * (1 - _WIDE), high * (1 + _WIDE)
    terms, rest = _number_of_terms(depletion, never_low)
    rising, falling = np.zeros((2, len(never_low))), np.zeros((2, len(never_low)))
    never = np.stack([never_high, never_low])[:, None]
    width = max(_ENTRIES // max(len(never_low), 1), 1)
    for start in range(0, terms, width):
        n = np.arange(start, min(start + width, terms))[:, None]
        worth = _worths(depletion, n, len(never_low))
        powers = return_power(1 - never, never, n)
        rising += (np.maximum(worth, 0.0) * powers).sum(1)
        falling += (np.maximum(-worth, 0.0) * powers).sum(1)
    slack = 256 * EPSILON * (rising[1] + falling[1]) + rest
    return rising[0] - falling[1] - slack, rising[1] - falling[0] + slack


def _worths(depletion: Any, n: Int[np.ndarray, "n 1"], sites: int) -> Float[np.ndarray, "n sites"]:
    worth = np.broadcast_to(np.asarray(depletion.worth(n), float), (len(n), sites))
    check_bound(depletion, worth)
    return worth


def _number_of_terms(depletion: Any, never: Float[np.ndarray, " sites"]) -> tuple[int, Float[np.ndarray, " sites"]]:
    """Return how many terms of Σ f(n) Rⁿ are summed, and a bound on the rest for each site."""
    least, paying = float(never.min(initial=1.0)), float(np.max(depletion.paying_visits))
    needed = 1 if least >= 1 else math.ceil(math.log(1e-16 * least) / math.log1p(-least))
    terms = int(min(needed, paying))
    if terms > SERIES_LONGEST:
        name = type(depletion).__name__
        raise ValueError(f"bounding {name} takes {terms:.1e} terms: use Geometric, or a smaller discount")
    rest = 0.0 if terms >= paying else depletion.bound * return_power(1 - never, never, terms) / never
    return terms, np.broadcast_to(rest, never.shape)


class Patch:
    """One site of several states: first visits and returns, from the system without the rows of the site."""

    def __init__(self, ball: Ball, states: Int[np.ndarray, " k"], starts: Int[np.ndarray, " starts"]) -> None:
        self.ball, self.states, self.starts = ball, states, starts
        kernel, n, k = ball.blocks.inside, ball.size, len(states)
        others = np.setdiff1d(np.arange(n), states)
        rows = kernel[others]
        killed = Resolvent(sp.csr_array(rows[:, others]), ball.discount)
        into: Any = ball.discount * rows[:, states].toarray()
        x, error = killed.solve(np.column_stack([into, ball.out[others]]))
        error = error + EPSILON * killed.terms * killed.norm
        low, high = np.zeros((n, k + 1)), np.zeros((n, k + 1))
        low[others], high[others] = np.maximum(x - error, 0.0), np.clip(x + error, 0.0, 1.0)
        if not ball.out.any():
            high[:, -1] = 0.0
        low[states, np.arange(k)] = high[states, np.arange(k)] = 1.0
        self.low, self.high = low, high
        now = np.column_stack([np.zeros((k, k)), ball.out[states]])
        step = kernel[states]
        after = [now + ball.discount * (step @ each) for each in (low, high)]
        wide = EPSILON * ball.resolvent.terms
        self.return_low, self.return_high = np.maximum(after[0] - wide, 0.0), np.minimum(after[1] + wide, 1.0)
        if not ball.out.any():
            self.return_high[:, -1] = 0.0

    @cached_property
    def _arriving(self) -> Float[np.ndarray, " entries"]:
        return np.minimum(self.high[self.ball.entries, :-1].sum(1), 1.0)

    def enclose(self, depletion: Any, closed: bool = False) -> Enclosure:
        """Return bounds on what the site pays. With `closed`, as if nothing left: only rounding is bounded then."""
        ball, entries = self.ball, self._arriving[:, None]
        leaving = np.zeros(ball.size) if closed else self.high[:, -1]
        u = float(ball.reached_again(entries, leaving[ball.entries])[0])
        missing = self.return_high[:, -1] * u * (not closed)
        rising, falling = self._over_visits(depletion, missing)
        lost = leaving[self.starts] * u

        def pays(part: "_Sums", upper: bool) -> Any:
            if upper:
                return (self.high[self.starts, :-1] @ part.high + lost * part.most) * (1 + len(part.high) * _WIDE)
            return self.low[self.starts, :-1] @ part.low * (1 - len(part.low) * _WIDE)

        low = pays(rising, False) - pays(falling, True)
        high = pays(rising, True) - pays(falling, False)
        return Enclosure(low[:, None], high[:, None], np.array([u * (rising.most + falling.most)]), entries)

    def _over_visits(self, depletion: Any, missing: Float[np.ndarray, " k"]) -> tuple["_Sums", "_Sums"]:
        """Return bounds on Σₙ f⁺(n) Kⁿ 1 and Σₙ f⁻(n) Kⁿ 1."""
        below, above, k = self.return_low[:, :-1], self.return_high[:, :-1], len(self.states)
        if depletion.common_ratio is not None:
            return self._geometric(float(depletion.common_ratio), missing), _Sums(np.zeros(k), np.zeros(k), 0.0)
        stays = min(float((above.sum(1) + missing).max()), self.ball.gamma)
        terms, _ = _number_of_terms(depletion, np.array([1 - stays]))
        worths = _worths(depletion, np.arange(terms)[:, None], 1)[:, 0]
        least, most, wide = np.ones(k), np.ones(k), 1 + 4 * k * EPSILON
        low, high, top, largest = np.zeros((2, k)), np.zeros((2, k)), np.zeros(2), 1.0
        for worth in worths:
            part, size = int(worth < 0), abs(float(worth))
            low[part] += size * least
            high[part] += size * most
            top[part] += size * largest
            least = below @ least / wide
            most = np.minimum((above @ most + missing * largest) * wide, self.ball.gamma * largest)
            largest = float(most.max())
            if largest < 1e-17 * (1 - stays):
                break
        ends = terms >= np.max(depletion.paying_visits)
        rest = 0.0 if ends and largest >= 1e-17 * (1 - stays) else depletion.bound * largest / (1 - stays) * wide
        slack = 1 + 4 * EPSILON * len(worths)
        rising, falling = (_Sums(low[i] / slack, high[i] * slack + rest, float(top[i]) * slack + rest) for i in (0, 1))
        return rising, falling

    def _geometric(self, lam: float, missing: Float[np.ndarray, " k"]) -> "_Sums":
        """Return bounds on (I − λK)⁻¹ 1: with U = max of it, it is at most a + cU, so that U ≤ max a / (1 − max c)."""
        below, above, k = self.return_low[:, :-1], self.return_high[:, :-1], len(self.states)
        trivial = 1 / (1 - lam * self.ball.gamma)
        low, error = _inverted(lam * below, np.ones((k, 1)))
        low = np.maximum(low[:, 0] - error, 1.0)
        if lam * float(above.sum(1).max()) >= 1:
            return _Sums(low, np.full(k, trivial), trivial)
        found, error = _inverted(lam * above, np.column_stack([np.ones(k), lam * missing]))
        a, c = found[:, 0] + error, np.maximum(found[:, 1], 0.0) + error * bool(missing.any())
        most = min(float(a.max()) / (1 - float(c.max())), trivial) if c.max() < 1 else trivial
        return _Sums(low, np.minimum(a + c * most, trivial), most)


class _Sums(NamedTuple):
    """Bounds on Σₙ f(n) Kⁿ 1, and on the sum of the largest entries of its terms."""

    low: Float[np.ndarray, " k"]
    high: Float[np.ndarray, " k"]
    most: float


def _inverted(
    matrix: Float[np.ndarray, "k k"], rhs: Float[np.ndarray, "k columns"]
) -> tuple[Float[np.ndarray, "k columns"], float]:
    """Return (I − matrix)⁻¹ rhs and a bound on its error, for a matrix that is not negative and has small row sums."""
    k = len(matrix)
    x = np.linalg.solve(np.eye(k) - matrix, rhs)
    size = np.abs(rhs) + np.abs(x) + matrix @ np.abs(x)
    residual = np.abs(rhs - (x - matrix @ x)) + (k + 4) * EPSILON * size
    room = 1 - float(matrix.sum(1).max()) - k * EPSILON
    return x, float(residual.max()) / room if room > 0 else np.inf
