"""The value of a few states of a world of any size, with bounds that are proven.

Below discount 1, what is far away hardly matters. `evaluate_local` explores a kernel that is a function
(`wane.FunctionKernel`) from the states that are asked for and from the sites, solves on what it has explored, and
bounds from both sides what it has not (`wane.exact.enclosing` has the proof). A state is explored next if much
discounted mass arrives there. The mass starts where the bounds are sensitive to it, so that what arrives in a state is
its share in the width of the bounds. The cost depends on the discount and on the tolerance, and not on the size of the
world.

    >>> from wane import FirstVisits, FunctionKernel, evaluate_local
    >>> walk = FunctionKernel(lambda s: (np.stack([s - 1, s + 1], axis=1), np.full((len(s), 2), 0.5)))
    >>> found = evaluate_local(walk, {0: 1.0, 5: 10.0}, FirstVisits(2), discount=0.9, at=[1, 10**15], tolerance=1e-6)
    >>> found.values.round(4), bool(np.all(found.upper - found.lower <= 1e-6))
    (array([3.3945, 0.    ]), True)
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from wane.checks import check_tolerance, check_whole
from wane.depletion import Depletion
from wane.exact.enclosing import EPSILON, ROWS, Ball, Enclosure, Patch, single_sites
from wane.exact.exploring import Explored, find_payers
from wane.exact.representations import check_depletion
from wane.executors import Executor, compute
from wane.function_kernel import FunctionKernel
from wane.kernels import reachable
from wane.limits import memory_limit
from wane.mdp import check_discount
from wane.types import Integer, Scalar

BUDGET = 1_000_000
"""How many states are explored at most, unless the caller says otherwise."""
_FIRST = 256  # The first round may explore this many states; later ones double what there is.
_LEAST_GROWTH = 1.1
_BYTES = 2000  # of the factors, the edges and the keys of a state on a grid, with 32 columns at a time
_NEVER_CHECKED = 2**26
_STARTS_AT_ONCE = 64


@dataclass(frozen=True, eq=False, repr=False)
class LocalValues:
    """Values of some states, with proven bounds, and what they cost."""

    states: Any
    """The states that were asked for."""
    lower: Float[np.ndarray, " states"]
    upper: Float[np.ndarray, " states"]
    touched: int
    """The number of states that were explored."""
    seconds: float
    stopped: str
    """Why it ended: "tolerance", "budget", "memory" or "rounding"."""
    split: dict[str, float] = field(default_factory=dict)
    """How the width of the widest bounds splits: "unexplored" (mass that leaves and may come back to a site), "sites
    beyond" (which a function of rewards may have there) and "rounding"."""
    unreached: tuple[Any, ...] = ()
    """The sites that no path from any start has reached among the explored states."""

    @property
    def values(self) -> Float[np.ndarray, " states"]:
        """The middle of the bounds. It is off by at most half their width."""
        return (self.lower + self.upper) / 2

    @property
    def width(self) -> float:
        """The largest difference between the upper and the lower bound."""
        return float(np.max(self.upper - self.lower, initial=0.0))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {part:.1e}" for name, part in self.split.items())
        text = (
            f"LocalValues({len(self.lower)} states known to {self.width:.1e} ({parts}), {self.touched} states explored"
        )
        text += f" in {self.seconds:.2g} s, stopped by: {self.stopped}"
        if self.unreached:
            named = ", ".join(str(site) for site in self.unreached[:3])
            text += f", sites never reached: {named}" + (" and others" if len(self.unreached) > 3 else "")
        return text + ")"


def evaluate_local(
    kernel: Any,
    rewards: Mapping[Any, float] | Callable[[Any], Any],
    depletion: Depletion,
    *,
    discount: Scalar,
    at: Any,
    tolerance: Scalar = 1e-6,
    budget: Integer = BUDGET,
    policy: Any = None,
    largest_reward: Scalar | None = None,
    executor: Executor | None = None,
) -> LocalValues:
    """Return V of the states `at`, with bounds that are at most `tolerance` apart, whatever the size of the world.

    `kernel` is a `FunctionKernel` or whatever `FunctionKernel.of` makes one of, with a `policy` where that has actions.
    `rewards` is a dictionary from sites to r̄; a site is a state (a number, or a tuple if states are rows), or a
    frozenset of states that wear off together. It can also be a function of states that returns r̄ for each, 0 where
    nothing is paid; then `largest_reward` is a bound of |r̄|. `depletion` is any curve over visit counts, with one
    parameter for all sites or one for each.

    It stops earlier when `budget` states are explored, when memory ends (`wane.limits`), or when rounding alone makes
    the bounds wider than the tolerance; the bounds hold nevertheless, and `stopped` says what happened. States
    that are near each other share what is explored. With an `executor`, which has `submit` as in `concurrent.futures`,
    they do not: it gets 64 of the states at a time, and evaluates one after the other.

    Raises a ValueError for discount 1: mass that leaves what was explored then never becomes small. Raises a TypeError
    for rewards that grow back: what they pay depends on the times between visits, of which these bounds know nothing
    but the discounted sums.
    """
    starts, gamma = _as_states(at), _check(depletion, discount)
    check_tolerance(tolerance)
    options: dict[str, Any] = dict(discount=gamma, tolerance=float(tolerance), budget=check_whole("budget", budget, 1))
    source = FunctionKernel.of(kernel, policy)
    payers = find_payers(rewards, depletion, largest_reward, starts)
    if executor is not None and len(starts) > 1:
        options |= dict(policy=policy, largest_reward=largest_reward)
        return _divided(executor, starts, (kernel, rewards, depletion), options)
    return _Search(source, payers, starts, **options).run()


def _check(depletion: Any, discount: Any) -> float:
    if not check_depletion(depletion).counts_visits:
        raise TypeError(
            f"{depletion!r} grows back or changes while nobody visits, so what it pays depends on the times between "
            "visits, which local bounds do not enclose: use wane.evaluate, or a curve over visit counts"
        )
    gamma = float(check_discount(discount))
    if gamma * (1 + 2 * ROWS) >= 1:
        raise ValueError(
            "with discount 1 the mass that leaves the explored states never becomes small, so nothing local can be "
            "proven: use a discount below 1, or wane.evaluate on the whole kernel"
        )
    return gamma


def _as_states(states: Any) -> Any:
    """Return states as an array of whole numbers, or of rows of them."""
    array = np.atleast_1d(np.asarray(states))
    if array.dtype.kind not in "iu" or array.ndim > 2 or len(array) == 0:
        raise ValueError(f"give a list of states, which are whole numbers or rows of them, got {states!r}")
    return array.astype(np.int64)


def _divided(executor: Executor, starts: Any, given: tuple[Any, ...], options: dict[str, Any]) -> LocalValues:
    """Return the values of all starts, of which an executor evaluates some at a time."""
    began = time.perf_counter()
    parts = np.array_split(starts, -(-len(starts) // _STARTS_AT_ONCE))
    found = [each for part in compute(partial(_one_by_one, given, options), parts, executor) for each in part]
    widest = max(found, key=lambda each: each.width)
    return replace(
        widest,
        states=starts,
        lower=np.concatenate([each.lower for each in found]),
        upper=np.concatenate([each.upper for each in found]),
        touched=sum(each.touched for each in found),
        seconds=time.perf_counter() - began,
        unreached=tuple(set.intersection(*(set(each.unreached) for each in found))),
    )


def _one_by_one(given: tuple[Any, ...], options: dict[str, Any], starts: Any) -> list[LocalValues]:
    return [evaluate_local(*given, at=starts[i : i + 1], **options) for i in range(len(starts))]


class _Search:
    """Rounds of exploring, solving and bounding, until the bounds are close."""

    def __init__(
        self, kernel: FunctionKernel, payers: Any, starts: Any, *, discount: float, tolerance: float, budget: int
    ) -> None:
        self.began = time.perf_counter()
        self.payers, self.gamma, self.tolerance, self.budget = payers, discount, tolerance, budget
        self.asked, self.explored = starts, Explored(kernel, starts)
        first = np.unique(self.explored.number(payers.first(starts)))
        if len(first) > budget:
            raise ValueError(f"{len(first)} states and sites were named, and the budget is {budget} states: raise it")
        self.explored.explore(first)
        self.starts = self.explored.place[self.explored.number(starts)]
        self.lower, self.upper = np.full(len(starts), -np.inf), np.full(len(starts), np.inf)
        self.last = (np.inf, np.inf)

    def run(self) -> LocalValues:
        """Return the bounds when they are close, or when a limit is met."""
        while True:
            self._bound()
            if stopped := self._stopped():
                break
            self._grow()
        self.explored.check_predecessors()
        reached = reachable(self.explored.blocks().inside, self.starts)
        width = self.upper - self.lower
        widest = int(np.argmax(width))
        rounding, beyond = min(self.rounding[widest], width[widest]), 2 * self.beyond[widest]
        rest = max(width[widest] - rounding - beyond, 0.0)
        parts = {"unexplored": rest, "sites beyond": beyond, "rounding": rounding}
        return LocalValues(
            states=self.asked,
            lower=self.lower,
            upper=self.upper,
            touched=self.explored.size,
            seconds=time.perf_counter() - self.began,
            stopped=stopped,
            split={name: float(part) for name, part in parts.items()},
            unreached=self.payers.unreached([not reached[states].any() for states in self.places]),
        )

    def _stopped(self) -> str:
        wide = self.upper - self.lower > self.tolerance
        if not wide.any():
            return "tolerance"
        waiting = (self.arriving > 0) & (self.explored.place < 0)
        if not waiting.any() or np.all(self.rounding[wide] > self.tolerance):
            return "rounding"
        if self.explored.size >= self.budget:
            return "budget"
        return "memory" if self._most() <= self.explored.size else ""

    def _most(self) -> int:
        """Return how many states may be explored in all after the next round."""
        size, per_state = self.explored.size, _BYTES * (1 + self.columns / 16)
        doubled = min(max(2 * size, _FIRST), self.budget)
        return doubled if doubled * per_state <= _NEVER_CHECKED else min(doubled, int(memory_limit() / per_state))

    def _foreseen(self) -> float:
        """Return how many states will be enough, if the width goes on falling with a power of their number."""
        size, log_width = np.log(self.explored.size), np.log(np.max(self.upper - self.lower))
        before, self.last = self.last, (size, log_width)
        slope = (log_width - before[1]) / (size - before[0]) if size > before[0] else 0.0
        growth = (np.log(self.tolerance) - log_width) / slope if slope < 0 else 0.0
        return self.explored.size * np.exp(np.clip(growth, np.log(_LEAST_GROWTH), np.log(2)))

    def _bound(self) -> None:
        """Set the bounds, what rounding adds to their width, and the mass by which states are explored next."""
        places, rewards = self.payers.found(self.explored)
        self.places = places
        ball = Ball(self.explored.blocks(), self.gamma)
        self.columns = max((len(each) for each in places), default=1)
        found, tight = _enclose(ball, places, self.starts, self.payers.depletion)
        gains, losses, size = np.maximum(rewards, 0.0), np.maximum(-rewards, 0.0), np.abs(rewards)
        leaving = ball.leaving_most[self.starts]
        self.beyond = leaving * self.payers.beyond / (1 - ball.gamma) * (1 + ROWS)
        summing = (len(rewards) + 8) * EPSILON * (np.maximum(np.abs(found.low), np.abs(found.high)) @ size)
        self.lower = np.maximum(self.lower, found.low @ gains - found.high @ losses - summing - self.beyond)
        self.upper = np.minimum(self.upper, found.high @ gains - found.low @ losses + summing + self.beyond)
        self.rounding = tight @ size + 2 * summing
        shares = size * (found.high - found.low - tight - leaving[:, None] * found.outside)
        self._weigh(ball, leaving, size * found.outside, shares, found.first)

    def _weigh(self, ball: Ball, leaving: Any, outside: Any, shares: Any, first: Any) -> None:
        """Set the mass that arrives outside, if it starts where the bounds are sensitive: in starts and in sites."""
        wide, weights = self.upper - self.lower > self.tolerance, np.zeros(ball.size)
        np.add.at(weights, self.starts[wide], outside.sum() + 2 * self.payers.beyond / (1 - ball.gamma))
        for states, share in zip(self.places, shares[wide].sum(axis=0), strict=True):
            mass = ball.leaving_most[states].sum()
            weights[states] += max(share, 0.0) / mass if mass > 0 else 0.0
        self.arriving = ball.arriving(weights)
        if len(ball.entries):
            back = np.zeros(ball.size)
            back[ball.entries] = first @ (outside / np.maximum(first.sum(axis=0), EPSILON)) * leaving[wide].sum()
            entered, sources = self.explored.entering()
            np.add.at(self.arriving, sources, back[entered])

    def _grow(self) -> None:
        """Explore where most mass arrives, until what is left is negligible or there are twice as many states."""
        explored, arriving = self.explored, self.arriving
        begun, most, goal, enough = explored.size, self._most(), self.tolerance / 4, self._foreseen()
        if explored.kernel.predecessors is not None:
            # Less mass leaves, and less of it comes back: the width falls by both.
            goal = np.sqrt(goal * max(float(arriving[explored.place < 0].sum()), goal))
        while explored.size < most:
            waiting = np.flatnonzero((arriving > 0) & (explored.place < 0))
            order = waiting[np.argsort(-arriving[waiting], kind="stable")]
            needed = int(np.count_nonzero(np.cumsum(arriving[order][::-1]) > goal))
            if len(order) == 0 or (needed == 0 and explored.size >= enough):
                return
            needed = max(needed, -(-len(order) // 4))  # Fewer at a time take longer than they spare.
            explored.explore(order[: min(needed, most - explored.size)])
            # The mass of the states that are new in this round moves on. What falls back on older ones is left out.
            rows, after, chances = explored.edges(begun)
            mass = np.concatenate([arriving, np.zeros(explored.seen - len(arriving))])
            flow = np.bincount(after, self.gamma * chances * mass[explored.order[rows]], minlength=explored.seen)
            arriving = np.where(explored.place < 0, mass, 0.0) + np.where(
                (explored.place < 0) | (explored.place >= begun), flow, 0.0
            )


def _enclose(
    ball: Ball, places: list[Any], starts: Int[np.ndarray, " starts"], depletion: Any
) -> tuple[Enclosure, Float[np.ndarray, "starts sites"]]:
    """Return bounds for every site, and how wide rounding alone makes them."""
    count = len(starts), len(places)
    low, high, tight, outside = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count[1])
    first = np.zeros((len(ball.entries), count[1]))

    def put(sites: Any, found: Enclosure, closed: Enclosure) -> None:
        low[:, sites], high[:, sites], outside[sites], first[:, sites] = found
        tight[:, sites] = closed.high - closed.low

    single = np.array([i for i, states in enumerate(places) if len(states) == 1], int)
    if len(single):
        sites, curve = np.array([places[i][0] for i in single]), depletion.at_sites(single)
        visits = ball.visits(sites, starts)
        put(single, *(single_sites(ball, visits, sites, starts, curve, closed) for closed in (False, True)))
    for i in np.setdiff1d(np.arange(count[1]), single):
        patch, curve = Patch(ball, places[i], starts), depletion.at_sites(int(i))
        put([i], *(patch.enclose(curve, closed) for closed in (False, True)))
    return Enclosure(low, high, outside, first), tight
