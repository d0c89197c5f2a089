"""What a site remembers, reduced to finitely many levels, so that control over (state × memories) is a finite MDP.

A level has a worth, a level that a visit leads to, and a level that a step elsewhere leads to. Visit counts up to a cap
are levels, and so are the memories of a reward that grows back, if they are few. If they are many, two sets of levels
enclose them. Write m ≤ m' if the memory m' is at least as good as m, and let ⌊m⌋ and ⌈m⌉ be the best level below m and
the worst level above it. If worth, visit and wait respect that order, then so does the best value V, and

    low levels,    visit ← ⌊visit⌋  and  wait ← ⌊wait⌋,    have a value of at most V,
    high levels,   visit ← ⌈visit⌉  and  wait ← ⌈wait⌉,    have a value of at least V,

by induction over the steps. The difference of the two values bounds the error. An agent that acts by the low levels
earns at least their value, because the true memory is never worse than the level.

If worth, visit and wait are affine functions of a real memory, as in two of the paper's schemes, then the return of a
fixed behaviour is an affine function of the memory, and V, the largest of these returns, is convex. Then an upper bound
of V needs no rounding if a visit leads to a memory between two levels: the visit leads to each of the two with a
probability such that the mean memory is right. By Jensen's inequality the value is at least V, for rewards and costs
alike, and its excess over V falls with the square of the distance between levels.

Rounding errors of single steps would accumulate: a reward that grows by less than a level in one step would never grow.
So the levels of a memory that is a real number are sequences m, wait(m), wait(wait(m)), … Then waiting needs no
rounding, and only visits do. c such sequences start between a memory and its successor after one step of waiting. Many
such sets of levels are tried, and the one whose largest difference in worth between neighbours is smallest is used.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from wane.depletion import Depletion, Memory
from wane.exact.memories import count, distinct, find, keys, pick
from wane.regrowth import Elapsed, TimeElapsed
from wane.sums import check_bound
from wane.texts import brief

LONGEST_SETTLING = 100_000
_SLOWEST = 1 - 27 / LONGEST_SETTLING  # A change that shrinks more slowly needs more steps to shrink to 10⁻¹².
_SAME = 1e-12  # Memories that differ by less, relative to their size, differ by rounding only.
_ENDLESS = 1e200  # This many visits or steps are as good as infinitely many, and arithmetic with them is safe.
_SEQUENCES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_VISITS_IN_A_ROW = (0, 1, 2, 3, 5, 8, 13, 21, 34)

Leaves = tuple[Float[np.ndarray, " levels"], ...]


class Levels(NamedTuple):
    """The levels of one site."""

    worth: Float[np.ndarray, " levels"]
    visit: Int[np.ndarray, " levels"]
    """The level one step after a visit."""
    wait: Int[np.ndarray, " levels"]
    """The level one step after a step that was spent elsewhere."""
    fresh: int
    """The level of a site that was never visited."""
    memories: Leaves
    """The memory of each level: one array for each number that a memory consists of."""
    order: tuple[int, ...]
    """For each of these numbers: 1 if more is better, −1 if less is better, 0 if only equal numbers can be compared."""
    visit_else: Int[np.ndarray, " levels"]
    """Another level that a visit may lead to."""
    chance: Float[np.ndarray, " levels"]
    """The probability that a visit leads to `visit_else` instead of `visit`."""

    __repr__ = brief

    def place(self, memory: Memory) -> int:
        """Return the best level that is no better than the memory. Raises a ValueError if there is none."""
        return _place(self.memories, self.order, memory)


def _place(levels: Leaves, order: tuple[int, ...], memory: Memory) -> int:
    numbers = [float(leaf) for leaf in jax.tree_util.tree_leaves(memory)]
    fits = np.full(len(levels[0]), len(numbers) == len(levels))
    for number, level, sign in zip(numbers, levels, order, strict=False):
        margin = _SAME * max(abs(number), 1.0)
        fits &= sign * level <= sign * number + margin if sign else np.abs(level - number) <= margin
        fits &= _possible(number, level, margin)
    found = np.flatnonzero(fits)
    if len(found) == 0:
        raise ValueError(
            f"no visits lead to a memory of {numbers}: counts are whole numbers from 0 on, other memories lie between "
            "the best and the worst one that can be reached"
        )
    ranks = [sign * level[found] for level, sign in zip(levels, order, strict=True)]
    return int(found[np.lexsort(ranks[::-1])[-1]])


def _possible(number: float, levels: Float[np.ndarray, " levels"], margin: float) -> bool:
    """Return whether a memory can have this number. Whole numbers count visits or steps and have no upper limit."""
    whole = np.array_equal(levels, np.floor(levels))
    least = np.min(levels, where=np.isfinite(levels), initial=np.inf)
    least, most = (0.0 if np.isinf(least) else least - margin), (np.inf if whole else levels.max() + margin)
    return bool(least <= number <= most and (not whole or number == np.floor(number)))


def counted_levels(worth: Float[np.ndarray, " counts"]) -> Levels:
    """Return visit counts as levels. The last level stands for all larger counts, and visits do not leave it."""
    last = len(worth) - 1
    counts = np.arange(last + 1)
    return _levels(worth, np.minimum(counts + 1, last), counts, 0, (np.append(counts[:-1], np.inf),), (-1,))


def _levels(worth: Any, visit: Any, wait: Any, fresh: int, memories: Leaves, order: tuple[int, ...]) -> Levels:
    """Return levels whose visits lead to one level with certainty."""
    return Levels(worth, visit, wait, fresh, memories, order, visit, np.zeros(len(worth)))


def enclosing_levels(
    depletion: Depletion, most: int, steps: int | None, cost: bool = False, fixed_policy: bool = False
) -> tuple[Levels, Levels]:
    """Return two sets of about `most` levels each, for a lower and for an upper bound of the best value.

    Both are the same object if the reward has at most `most` memories within `steps` steps (None: without end), because
    the levels are then exact. A `cost` (r̄ < 0) does the least harm where the memory is worst, so high levels give the
    lower bound. With `fixed_policy` the bounds are those of the value of a policy, not of the best value. Raises a
    ValueError if the memory is of a kind that cannot be enclosed.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        exact = _all_memories(depletion, most, steps)
    if exact is not None:
        return exact, exact
    if isinstance(depletion, TimeElapsed):
        return _elapsed_levels(depletion, most, optimistic=cost), _elapsed_levels(depletion, most, optimistic=not cost)
    fresh = depletion.initial((1,))
    if not isinstance(fresh, np.ndarray) or fresh.dtype.kind != "f":
        raise ValueError(
            f"{type(depletion).__name__} has more than {most} different memories, and a memory is not one real number: "
            "raise `grid`, give a shorter `horizon`, or let it forget (round or cap what it remembers)"
        )
    return _real_levels(depletion, most, steps, cost, fixed_policy)


def _all_memories(depletion: Depletion, most: int, steps: int | None) -> Levels | None:
    """Return one level for each memory within `steps` steps, or None if there are more than `most` memories."""
    found = new = depletion.initial((1,))
    taken = 0
    while count(new) and (steps is None or taken < steps):
        after = distinct(_joined(depletion.visit(new), depletion.wait(new)))
        new = pick(after, ~np.isin(keys(after), keys(found)))
        found, taken = _joined(found, new), taken + 1
        if count(found) > most:
            return None
    found = distinct(found)
    known = keys(found)
    # The successors of memories that only the last step reaches may be missing here. They are never paid.
    after_visit, after_wait = (
        np.where((after := find(known, keys(memories))) < 0, np.arange(len(known)), after)
        for memories in (depletion.visit(found), depletion.wait(found))
    )
    fresh = int(find(known, keys(depletion.initial((1,))))[0])
    leaves = _leaves(found)
    return _levels(_worth(depletion, found), after_visit, after_wait, fresh, leaves, (0,) * len(leaves))


def _joined(a: Memory, b: Memory) -> Memory:
    return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves), a, b)


def _leaves(memories: Memory) -> Leaves:
    return tuple(np.asarray(leaf, float) for leaf in jax.tree_util.tree_leaves(memories))


def _worth(depletion: Depletion, memories: Memory) -> Float[np.ndarray, " levels"]:
    with np.errstate(over="ignore", under="ignore"):
        worth = np.asarray(depletion.worth(memories), dtype=float) + np.zeros(count(memories))
    check_bound(depletion, worth)
    return worth


def _rounded(depletion: Depletion, memories: Memory, order: tuple[int, ...], optimistic: bool) -> Levels:
    """Return levels at the given memories. Their successors are rounded down, or up if `optimistic`."""
    levels = _leaves(memories)
    direction = tuple(-sign for sign in order) if optimistic else order

    def places(after: Memory) -> Int[np.ndarray, " levels"]:
        # The outermost levels are bounds of all memories. A memory lies beyond them only by rounding.
        inside = [np.clip(leaf, level.min(), level.max()) for leaf, level in zip(_leaves(after), levels, strict=True)]
        return np.array([_place(levels, direction, numbers) for numbers in zip(*inside, strict=True)])

    fresh = _place(levels, direction, pick(depletion.initial((1,)), 0))
    visit, wait = places(depletion.visit(memories)), places(depletion.wait(memories))
    return _levels(_worth(depletion, memories), visit, wait, fresh, levels, order)


def _elapsed_levels(depletion: TimeElapsed, most: int, optimistic: bool) -> Levels:
    """Return levels for n = 1, …, N visits, the last of them m = 1, …, M steps ago, and one for a fresh site.

    After more than M steps a low level grows no further, and a high level is as good as after infinitely many steps.
    After more than N visits a low level is as bad as after infinitely many visits, and a high level gets no worse.
    """
    # n visits are half forgotten after `half` · n steps. At about that time a site is worth a visit again.
    half = min(max(-np.log2(max(float(depletion.lam), 1e-300)) / float(depletion.rate), 0.1), float(most))
    n = max(int(np.sqrt(most / half)), 1)
    m = max(most // n, 1)
    visits, steps = (axis.ravel() for axis in np.meshgrid(np.arange(1.0, n + 1), np.arange(1.0, m + 1), indexing="ij"))
    ends = (np.arange(1.0, n + 1), np.full(n, _ENDLESS)) if optimistic else (np.array([_ENDLESS]), np.ones(1))
    memories = Elapsed(np.concatenate([[0.0], visits, ends[0]]), np.concatenate([[1.0], steps, ends[1]]))
    return _rounded(depletion, memories, (-1, 1), optimistic)


def _real_levels(
    depletion: Depletion, most: int, steps: int | None, cost: bool, fixed_policy: bool
) -> tuple[Levels, Levels]:
    """Return the levels of a memory that is one real number, for the lower bound and for the upper bound."""
    fresh = float(depletion.initial((1,))[0])
    interval, affine = _interval(depletion, fresh, steps)
    best, least = np.array([*interval, fresh]), np.inf
    for found in _sequences(depletion, fresh, max(most - 3, 1)):
        candidate = np.unique(np.concatenate([np.clip(found, *interval), [*interval, fresh]]))
        widest = float(np.abs(np.diff(_worth(depletion, candidate))).max(initial=0.0))
        best, least = (candidate, widest) if widest < least else (best, least)
    order = (_direction(depletion, np.unique(np.concatenate([best, np.linspace(*interval, 129)]))),)
    lower, upper = (_rounded(depletion, best, order, optimistic=side) for side in (cost, not cost))
    if not affine:
        return lower, upper
    # The value of a fixed policy is affine, so its lower bound may mix levels too. Then only the tail is rounded.
    return _mixed(depletion, lower, upper) if fixed_policy else lower, _mixed(depletion, upper, lower)


def _interval(depletion: Depletion, fresh: float, steps: int | None) -> tuple[tuple[float, float], bool]:
    """Return an interval that encloses the memories within `steps` steps, and whether visits may mix two levels.

    A visit that mixes two levels may lead to any level at any time. So this needs an interval that is never left, on
    which the depletion is affine. Raises a ValueError if the memories have no bounds.
    """
    settled = memory_range(depletion, fresh, None)
    if settled is not None and is_affine(depletion, np.linspace(*settled, 129)):
        return settled, True
    interval = settled if steps is None else memory_range(depletion, fresh, steps)
    if interval is None:
        raise ValueError(
            f"the memory of {type(depletion).__name__} has no bounds that {LONGEST_SETTLING} steps would not leave: "
            "give a shorter `horizon`"
        )
    return interval, False


def is_affine(depletion: Depletion, memories: Float[np.ndarray, " levels"]) -> bool:
    """Return whether worth, visit and wait are affine at the given memories, up to rounding."""
    ends = memories[[0, -1]]
    for function in (depletion.worth, depletion.visit, depletion.wait):
        line = np.interp(memories, ends, np.asarray(function(ends), float))
        if not np.allclose(function(memories), line, rtol=1e-12, atol=1e-12 * np.abs(line).max(initial=1.0)):
            return False
    return True


def _mixed(depletion: Depletion, levels: Levels, others: Levels) -> Levels:
    """Return the levels with visits that lead to either of the two neighbours of the true memory, each by chance."""
    (memories,) = levels.memories
    near, far = memories[levels.visit], memories[others.visit]
    distance = np.where(far == near, 1.0, far - near)
    chance = np.clip((np.asarray(depletion.visit(memories), float) - near) / distance, 0.0, 1.0)
    return levels._replace(visit_else=others.visit, chance=np.where(far == near, 0.0, chance))


def _sequences(depletion: Depletion, fresh: float, most: int) -> Iterator[Float[np.ndarray, " found"]]:
    """Yield sets of memories that contain their successors under waiting, except for the last ones."""
    start, visits = np.array([fresh]), 0
    for in_a_row in _VISITS_IN_A_ROW:
        for _ in range(in_a_row - visits):
            start = depletion.visit(start)
        visits = in_a_row
        for sequences in _SEQUENCES:
            if sequences <= most:
                between = np.linspace(start[0], depletion.wait(start)[0], sequences, endpoint=False)
                yield _waits_until_settled(depletion, between, most // sequences)


def _waits_until_settled(depletion: Depletion, memories: Any, times: int) -> Float[np.ndarray, " found"]:
    found = [memories]
    while len(found) < times:
        after = depletion.wait(found[-1])
        if np.abs(after - found[-1]).max() <= _SAME * max(1.0, np.abs(after).max()):
            break
        found.append(after)
    return np.concatenate(found)


def memory_range(depletion: Depletion, fresh: float, steps: int | None) -> tuple[float, float] | None:
    """Return the least and the largest memory within `steps` steps (None: without end), or None if unbounded."""
    ends, last = np.array([fresh, fresh]), np.inf
    for taken in range(LONGEST_SETTLING if steps is None else min(steps, LONGEST_SETTLING)):
        with np.errstate(over="ignore"):
            reached = np.concatenate([ends, depletion.visit(ends), depletion.wait(ends)])
        wider = np.array([reached.min(), reached.max()])
        if not np.all(np.isfinite(wider)):
            return None
        change = float(np.abs(wider - ends).max())
        if change <= _SAME * max(1.0, float(np.abs(wider).max())):
            return float(wider[0]), float(wider[1])
        if steps is None and taken >= 100 and change > last * _SLOWEST:
            return None
        ends, last = wider, change
    return None if steps is None or steps > LONGEST_SETTLING else (float(ends[0]), float(ends[1]))


def _direction(depletion: Depletion, memories: Float[np.ndarray, " levels"]) -> int:
    """Return 1 if a larger memory is worth more, −1 if less. Raises a ValueError if the order is not preserved."""
    slope = np.diff(_worth(depletion, memories))
    if not (np.all(slope >= -_SAME) or np.all(slope <= _SAME)):
        raise ValueError(
            f"{type(depletion).__name__}.worth rises and falls with the memory: a grid of memories gives bounds only "
            "if a larger memory is always worth more, or always less"
        )
    for name, change in (("visit", depletion.visit), ("wait", depletion.wait)):
        after = np.asarray(change(memories))
        if np.any(np.diff(after) < -_SAME * np.abs(after).max(initial=1.0)):
            raise ValueError(
                f"{type(depletion).__name__}.{name} takes a larger memory to a smaller one: a grid of memories gives "
                "bounds only if visits and waiting keep the order of memories"
            )
    return 1 if slope.sum() >= 0 else -1
