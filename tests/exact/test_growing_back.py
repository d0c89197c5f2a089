"""The optimum for rewards that grow back: enclosed by low and high levels of memory, and earned by its policy."""

import numpy as np
import pytest

import wane
from chains import Meadow, Tank
from rambling import Rambling
from wane.exact.levels import enclosing_levels
from wane.regrowth import Elapsed

WALK = np.array([[1, 0], [2, 0], [2, 1]])
KERNELS = np.eye(3)[WALK.T]


class Closed(wane.Depletion):
    """Pays once, then opens again after three steps: a memory with few values."""

    def initial(self, shape=()):
        return np.zeros(shape, np.int64)

    def worth(self, memory):
        return 1.0 * (memory == 0)

    def visit(self, memory):
        return np.where(memory == 0, 3, np.maximum(memory - 1, 0))

    def wait(self, memory):
        return np.maximum(memory - 1, 0)


SCHEMES = [
    wane.TimeElapsed(0.5, 0.3),
    wane.TimeElapsed([0.3, 0.8]),
    wane.EligibilityTrace(0.4, 0.7),
    wane.TotalTime(0.5, 0.8),
    wane.TotalTime(0.5, 0.8, equation="representation"),
    Meadow(0.5, 0.3),
    Tank(0.6, 0.2),
]


def by_recursion(kernels, rewards, depletion, discount, sites, horizon, timing):
    """The optimum straight from its definition: try every action, follow every memory. An action comes first."""
    curves = [depletion.at_sites(i) for i in range(len(sites))]

    def arrive(s, memories, remaining):
        pay = sum(r * float(c.worth(m)) for r, c, m, t in zip(rewards, curves, memories, sites, strict=True) if t == s)
        if remaining == 1:
            return pay
        after = [c.visit(m) if t == s else c.wait(m) for c, m, t in zip(curves, memories, sites, strict=True)]
        return pay + discount * act(s, after, remaining - 1)

    def act(s, memories, remaining):
        values = {t: arrive(t, memories, remaining) for t in np.flatnonzero(kernels[:, s].sum(0))}
        return max(sum(p[s, t] * values[t] for t in np.flatnonzero(p[s])) for p in kernels)

    fresh, states = [curve.initial(()) for curve in curves], range(kernels.shape[1])
    if timing == "departure":
        return np.array([arrive(s, fresh, horizon) for s in states])
    return np.array([discount * act(s, fresh, horizon) for s in states])


@pytest.mark.parametrize("timing", ["departure", "arrival"])
@pytest.mark.parametrize("depletion", SCHEMES, ids=repr)
def test_the_truth_lies_within_the_error(depletion, timing):
    """For rewards, for costs, and for grids that are coarse and fine."""
    for rewards in ([1.0, 2.0], [2.0, -1.0], [-0.5, -1.0]):
        truth = by_recursion(KERNELS, rewards, depletion, 0.9, [0, 2], 7, timing)
        for grid in (6, 60):
            best = wane.optimum(
                wane.MDP(WALK), rewards, depletion, discount=0.9, sites=[0, 2], horizon=7, timing=timing, grid=grid
            )
            assert np.all(best.values <= truth + 1e-9)
            assert np.all(truth <= best.values + best.error + 1e-9)
        assert best.error <= 0.35 * abs(truth).max()


@pytest.mark.parametrize("seed", range(20))
def test_random_worlds_with_costs(seed):
    """Visits left to chance give an upper bound, also of costs, and only on levels that are never left."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(3, 0.4), (3, 2))
    transitions[transitions < 0.05] = 0
    transitions /= transitions.sum(-1, keepdims=True)
    drop, regrow, horizon = rng.random(), rng.random(), int(rng.integers(2, 6))
    rewards, discount, grid = rng.normal(size=2), rng.choice([0.3, 0.9, 1.0]), int(rng.choice([4, 7, 11]))
    for depletion in (
        wane.EligibilityTrace(drop, 0.9 * regrow),
        wane.TotalTime(drop, 0.3 + 0.7 * regrow),
        wane.TotalTime(drop, regrow, equation="representation"),
        Tank(drop, regrow),
    ):
        settings = dict(discount=discount, sites=[0, 2], horizon=horizon)
        truth = by_recursion(transitions.transpose(1, 0, 2), rewards, depletion, timing="arrival", **settings)
        best = wane.optimum(wane.MDP(transitions), rewards, depletion, timing="arrival", grid=grid, **settings)
        assert np.all(best.values <= truth + 1e-9)
        assert np.all(truth <= best.values + best.error + 1e-9)


@pytest.mark.parametrize(
    "depletion", [wane.TimeElapsed(0.5), wane.EligibilityTrace(0.4, 0.6), Meadow(0.5, 0.3)], ids=repr
)
def test_without_a_horizon(depletion):
    settings = dict(discount=0.5, sites=[0, 2])
    truth = by_recursion(KERNELS, [1.0, 2.0], depletion, 0.5, [0, 2], 11, "departure")
    beyond = 0.5**11 / 0.5 * 2
    best = wane.optimum(wane.MDP(WALK), [1.0, 2.0], depletion, **settings, grid=48)
    assert np.all(best.values - best.error - 1e-9 <= truth + beyond)
    assert np.all(truth <= best.values + best.error + 1e-9)
    assert best.policy.shape[0] == 1


@pytest.mark.parametrize("depletion", SCHEMES, ids=repr)
def test_the_policy_earns_at_least_the_value(depletion):
    """Acting by the true memories, on a grid that is coarse."""
    rewards, sites, horizon, discount = np.array([1.0, 2.0]), np.array([0, 2]), 12, 0.9
    best = wane.optimum(wane.MDP(WALK), rewards, depletion, discount=discount, sites=sites, horizon=horizon, grid=8)
    for start in range(3):
        state, memory, total = start, depletion.initial((2,)), 0.0
        for t in range(horizon):
            visited = sites == state
            total += discount**t * (rewards * depletion.worth(memory) * visited).sum()
            after = depletion.visit(memory), depletion.wait(memory)
            if isinstance(memory, Elapsed):
                memory = Elapsed(*(np.where(visited, a, b) for a, b in zip(*after, strict=True)))
            else:
                memory = np.where(visited, *after)
            state = WALK[state, best.action(state, memory, t)] if t < horizon - 1 else state
        assert best.values[start] - 1e-9 <= total <= best.values[start] + best.error + 1e-9


def test_few_memories_are_exact():
    best = wane.optimum(wane.MDP(WALK), [1.0, 2.0], Closed(), discount=0.9, sites=[0, 2], horizon=9)
    np.testing.assert_allclose(
        best.values, by_recursion(KERNELS, [1.0, 2.0], Closed(), 0.9, [0, 2], 9, "departure"), rtol=1e-12
    )
    assert best.error == 0
    assert best.caps == (3, 3)
    endless = wane.optimum(wane.MDP(WALK), [1.0, 2.0], Closed(), discount=0.9, sites=[0, 2], tolerance=1e-9)
    assert endless.error <= 1e-9
    short = wane.optimum(wane.MDP(WALK), [1.0], wane.TimeElapsed(0.5), discount=0.9, sites=[0], horizon=9)
    assert short.error == 0, "within nine steps there are few pairs of visits and steps"


def test_finer_grids_have_smaller_errors():
    def error(depletion, grid):
        return wane.optimum(wane.MDP(WALK), [1.0], depletion, discount=0.9, sites=[0], grid=grid).error

    for depletion in (wane.TimeElapsed(0.5), wane.EligibilityTrace(0.4, 0.7), Tank(0.6, 0.2)):
        assert error(depletion, 400) < 0.2 * error(depletion, 40)


def test_levels_enclose_the_memory():
    """Waiting needs no rounding on the levels of a real memory, and visits are rounded to neighbours."""
    low, high = enclosing_levels(Meadow(0.5, 0.3), 30, None)
    (memories,) = low.memories
    grown = Meadow(0.5, 0.3).wait(memories)
    np.testing.assert_allclose(memories[low.wait][1:-2], grown[1:-2], rtol=1e-12)
    eaten = Meadow(0.5, 0.3).visit(memories)
    assert np.all(memories[low.visit] <= eaten + 1e-9)
    assert np.all(eaten <= memories[high.visit] + 1e-9)
    assert np.all(high.visit - low.visit <= 1)
    assert low.place(1.0) == low.fresh == high.fresh
    trace, mixed = enclosing_levels(wane.EligibilityTrace(0.4, 0.7), 30, None)
    (memories,) = mixed.memories
    mean = (1 - mixed.chance) * memories[mixed.visit] + mixed.chance * memories[mixed.visit_else]
    np.testing.assert_allclose(mean, 0.7 * (memories + 1), atol=1e-9)
    assert trace.order == (-1,), "less of the trace is better"


class Hump(Meadow):
    def worth(self, memory):
        return memory * (1 - memory)


class Contrary(Meadow):
    def visit(self, memory):
        return 0.8 - 0.5 * memory


@pytest.mark.parametrize(
    ("depletion", "message"),
    [
        (Hump(0.4, 0.3), "Hump.worth rises and falls with the memory"),
        (Contrary(0.4, 0.3), "Contrary.visit takes a larger memory to a smaller one"),
        (Rambling(), "Rambling has more than 50 different memories, and a memory is not one real number"),
        (wane.TotalTime(0.5, 0.8), "the memory of TotalTime has no bounds .*: give a shorter `horizon`"),
        (wane.EligibilityTrace(0.5, 1.0), "the memory of EligibilityTrace has no bounds"),
    ],
)
def test_refusals(depletion, message):
    with pytest.raises(ValueError, match=message):
        wane.optimum(wane.MDP(WALK), [1.0], depletion, discount=0.9, sites=[0], grid=50)


def test_memories_that_cannot_be():
    best = wane.optimum(wane.MDP(WALK), [1.0], Meadow(0.5, 0.3), discount=0.9, sites=[0], grid=20)
    assert best.action(0, [0.7]) in (0, 1)
    for memory in ([1.5], [-0.5]):
        with pytest.raises(ValueError, match="no visits lead to a memory of"):
            best.action(0, memory)
    elapsed = wane.optimum(wane.MDP(WALK), [1.0], wane.TimeElapsed(0.5), discount=0.9, sites=[0], grid=20)
    assert elapsed.action(0, Elapsed([1], [10**6])) == elapsed.action(0, Elapsed(np.array([1]), np.array([9])))
    for memory in (Elapsed([-1], [1]), Elapsed([0], [0]), Elapsed([0.5], [1])):
        with pytest.raises(ValueError, match="no visits lead to a memory of"):
            elapsed.action(0, memory)
