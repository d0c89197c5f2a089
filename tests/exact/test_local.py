"""Local evaluation: the truth lies within the bounds, these are as close as was asked for, and bad input is refused."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from multiprocessing import get_context

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import wane
from local_cases import random_case, true_values
from wane import FunctionKernel, FunctionMDP, Geometric, evaluate_local

SIDE = 10**6
"""The side of a field of 10¹² cells."""
MIDDLE = SIDE // 2 * (SIDE + 1)


def neighbours(states):
    row, column = np.divmod(states, SIDE)
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
    return np.stack([np.clip(row + r, 0, SIDE - 1) * SIDE + np.clip(column + c, 0, SIDE - 1) for r, c in moves], axis=1)


def quarter(states):
    return neighbours(states), np.full((len(states), 4), 0.25)


def field(with_predecessors=True):
    before = (lambda states: np.hstack([states[:, None], neighbours(states)])) if with_predecessors else None
    return FunctionKernel(quarter, before)


def line(states):
    """A walk on all whole numbers."""
    return np.stack([states - 1, states + 1], axis=1), np.full((len(states), 2), 0.5)


def check(seed):
    """The whole chain, and as much of it as a budget allows: the truth is inside, the whole chain is close."""
    case, rng = random_case(seed), np.random.default_rng(seed)
    truth, kernel = true_values(case), FunctionKernel.of(case.kernel)
    if seed % 2:
        kernel = FunctionKernel(kernel.successors)
    named = {s for site in case.rewards for s in (site if isinstance(site, frozenset) else [site])} | {*case.starts}
    # In 64 bits, rounding alone is worth 3e-8 where γ = 0.999 and values are in the thousands.
    tolerance = float(10 ** rng.uniform(-7 if case.discount > 0.99 else -8, -2))
    noise = 1e-17 / (1 - case.discount)  # of the truth
    for budget in (10**6, int(rng.integers(len(named), len(case.kernel) + 1))):
        found = evaluate_local(
            kernel,
            case.rewards,
            case.depletion,
            discount=case.discount,
            at=case.starts,
            tolerance=tolerance,
            budget=budget,
        )
        assert np.all(found.lower <= truth + noise), (seed, found)
        assert np.all(truth <= found.upper + noise), (seed, found)
        assert found.touched <= min(budget, len(case.kernel))
        if budget == 10**6:
            assert found.width <= tolerance, (seed, found)
            assert found.stopped == "tolerance"


def test_the_truth_is_inside_the_bounds():
    for seed in range(40):
        check(seed)


@pytest.mark.parametrize("block", range(2))
@pytest.mark.usefixtures("unchecked_types")
def test_the_truth_is_inside_the_bounds_of_many_chains(block):
    for seed in range(100 * block, 100 * (block + 1)):
        check(seed)


@pytest.mark.fuzz
@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize("block", range(100))
def test_the_truth_is_inside_the_bounds_of_ten_thousand_chains(block):
    for seed in range(100 * block, 100 * (block + 1)):
        check(seed)


@pytest.mark.parametrize("with_predecessors", [False, True])
@pytest.mark.parametrize(
    "depletion", [Geometric(0.5), Geometric([0.0, 0.7, 1.0]), wane.Hyperbolic(1.0), wane.Listed([0.0, 1.0, 1.0, 0.0])]
)
def test_a_ball_in_a_large_field_gives_what_the_whole_of_a_smaller_one_does(depletion, with_predecessors):
    """61 × 61 cells, far more than γ = 0.8 can cross, are solved as a whole."""
    near = np.array([(0, 0), (3, -2), (-4, 5)])
    rewards = {int(MIDDLE + r * SIDE + c): pay for (r, c), pay in zip(near, (1.0, -2.0, 3.0), strict=True)}
    rewards = dict(list(rewards.items())[:2]) | {frozenset({list(rewards)[2], list(rewards)[2] + 1}): 3.0}
    start = MIDDLE + SIDE + 1
    found = evaluate_local(field(with_predecessors), rewards, depletion, discount=0.8, at=[start], tolerance=1e-9)
    side = 61
    walk = 0.5 * (np.eye(side, k=1) + np.eye(side, k=-1))
    walk[[0, -1], [0, -1]] = 0.5
    eye = sparse.eye_array(side)
    kernel = 0.5 * (sparse.kron(sparse.coo_array(walk), eye) + sparse.kron(eye, sparse.coo_array(walk)))
    places = (near + side // 2) @ [side, 1]
    patches = [[places[0]], [places[1]], [places[2], places[2] + 1]]
    whole = wane.patch_representation(kernel, patches, depletion, discount=0.8).values([1.0, -2.0, 3.0])
    value = whole[(side // 2 + 1) * (side + 1)]
    assert found.lower[0] - 1e-11 <= value <= found.upper[0] + 1e-11
    assert found.width <= 1e-9
    assert found.split["unexplored"] <= found.width


def test_predecessors_save_most_of_the_states():
    rewards = {MIDDLE + 5: 1.0}
    plain, both = (
        evaluate_local(field(each), rewards, Geometric(0.5), discount=0.95, at=[MIDDLE], tolerance=1e-8)
        for each in (False, True)
    )
    assert both.touched < 0.5 * plain.touched
    assert max(plain.lower[0], both.lower[0]) <= min(plain.upper[0], both.upper[0])


def test_states_can_be_rows_of_numbers():
    def successors(states):
        moves = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
        return states[:, None] + moves, np.full((len(states), 4), 0.25)

    rows = evaluate_local(
        successors, {(0, 0): 1.0, frozenset({(2, 1), (-3, 0)}): 2.0}, Geometric(0.5), discount=0.9, at=[(1, 1), (0, 0)]
    )
    numbers = evaluate_local(
        field(False),
        {MIDDLE: 1.0, frozenset({MIDDLE + 2 * SIDE + 1, MIDDLE - 3 * SIDE}): 2.0},
        Geometric(0.5),
        discount=0.9,
        at=[MIDDLE + SIDE + 1, MIDDLE],
    )
    np.testing.assert_allclose(rows.values, numbers.values, atol=1e-6)
    assert rows.touched == numbers.touched


def test_rewards_can_be_a_function():
    """Every seventh state of a line pays. A ring of 7 states with one site is the same for λ = 1."""
    found = evaluate_local(
        line, lambda s: 2.0 * (s % 7 == 0), Geometric(1.0), discount=0.9, at=[0, 3], tolerance=1e-6, largest_reward=2.0
    )
    ring = 0.5 * (np.roll(np.eye(7), 1, axis=1) + np.roll(np.eye(7), -1, axis=1))
    truth = wane.evaluate(ring, [2.0, *[0.0] * 6], Geometric(1.0), discount=0.9)[[0, 3]]
    assert np.all((found.lower <= truth) & (truth <= found.upper))
    assert found.width <= 1e-6
    assert found.split["sites beyond"] > 0


def test_every_kind_of_kernel():
    world = wane.worlds.make("four-rooms", slip=0.2)
    rewards = dict(zip(world.sites.tolist(), world.rewards.tolist(), strict=True))
    uniform = np.full((world.n_states, world.n_actions), 1 / world.n_actions)
    truth = wane.evaluate(
        world.mdp.under(uniform), np.bincount(world.sites, world.rewards, world.n_states), Geometric(0.5), discount=0.9
    )
    settings = dict(discount=0.9, at=[0, 20, 67], tolerance=1e-9)
    for source, policy in (
        (world, "uniform"),
        (world, uniform),
        (world, lambda s: np.full((len(s), 5), 0.2)),
        (world.mdp, "uniform"),
        (world.mdp.under(uniform), None),
        (wane.worlds.MDPWorld(world.mdp, sites=[0], rewards=[1.0]), "uniform"),
    ):
        found = evaluate_local(source, rewards, Geometric(0.5), policy=policy, **settings)
        np.testing.assert_allclose(found.values, truth[[0, 20, 67]], atol=1e-9)
    actions = world.policies[0]
    found = evaluate_local(world, rewards, Geometric(0.5), policy=lambda s: actions[s], **settings)
    dense = wane.representation(world.mdp.under(actions), Geometric(0.5), discount=0.9, sites=world.sites)
    np.testing.assert_allclose(found.values, dense.values(world.rewards)[[0, 20, 67]], atol=1e-9)


@pytest.mark.usefixtures("unchecked_types")
def test_whatever_shows_rows():
    class Walk:
        def rows(self, states):
            return line(states)

    found = evaluate_local(Walk(), {0: 1.0}, Geometric(0.5), discount=0.9, at=[4], tolerance=1e-8)
    plain = evaluate_local(line, {0: 1.0}, Geometric(0.5), discount=0.9, at=[4], tolerance=1e-8)
    np.testing.assert_array_equal(found.values, plain.values)
    with pytest.raises(TypeError, match="call wane.evaluate_local"):
        wane.evaluate(FunctionKernel(line), [1.0], Geometric(0.5), discount=0.9)


def test_a_tabular_gymnasium_environment():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    kernel = wane.MDP(env).under(np.full((16, 4), 0.25))
    truth = wane.evaluate(kernel, np.eye(16)[15], Geometric(0.5), discount=0.9)
    found = evaluate_local(env, {15: 1.0}, Geometric(0.5), discount=0.9, at=[0, 14], policy="uniform", tolerance=1e-9)
    np.testing.assert_allclose(found.values, truth[[0, 14]], atol=1e-9)
    with pytest.raises(TypeError, match="counted transitions are estimates"):
        evaluate_local(gymnasium.make("CartPole-v1"), {0: 1.0}, Geometric(0.5), discount=0.9, at=[0])


def test_a_function_in_jax():
    def successors(state):
        return state + jnp.array([[-1, 0], [1, 0], [0, -1], [0, 1]]), jnp.full(4, 0.25)

    kernel = FunctionKernel.from_jax(successors)
    found = evaluate_local(kernel, {(0, 0): 1.0}, Geometric(0.5), discount=0.8, at=[(2, 1)], tolerance=1e-6)
    plain = evaluate_local(
        field(), {MIDDLE: 1.0}, Geometric(0.5), discount=0.8, at=[MIDDLE + 2 * SIDE + 1], tolerance=1e-6
    )
    np.testing.assert_allclose(found.values, plain.values, atol=1e-6)


def test_an_mdp_of_functions():
    left, right = (lambda s, d=d: ((s + d)[:, None], np.ones((len(s), 1))) for d in (-1, 1))
    mdp = FunctionMDP([left, right])
    found = evaluate_local(mdp, {0: 1.0}, Geometric(0.5), discount=0.9, at=[4], policy="uniform", tolerance=1e-8)
    plain = evaluate_local(line, {0: 1.0}, Geometric(0.5), discount=0.9, at=[4], tolerance=1e-8)
    np.testing.assert_allclose(found.values, plain.values, atol=1e-8)
    right_away = evaluate_local(mdp, {9: 1.0}, Geometric(0.5), discount=0.9, at=[4], policy=lambda s: (s < 9) * 1)
    assert right_away.lower[0] <= 0.9**5 / (1 - 0.5 * 0.81) <= right_away.upper[0]  # 9, 8 and back: two steps a visit


def test_the_cost_does_not_depend_on_the_size_of_the_world():
    touched = set()
    for side in (10**3, 10**4, 10**6, 10**9):

        def successors(states, side=side):
            return np.stack([states - side, states - 1, states + 1, states + side], axis=1), np.full(
                (len(states), 4), 0.25
            )

        middle = side // 2 * (side + 1)
        found = evaluate_local(successors, {middle + 3: 1.0}, Geometric(0.5), discount=0.9, at=[middle])
        touched.add(found.touched)
    assert len(touched) == 1


def test_a_budget_gives_honest_bounds_where_mass_hardly_decays():
    found = evaluate_local(field(), {MIDDLE + 1: 1.0}, Geometric(0.5), discount=1 - 1e-9, at=[MIDDLE], budget=2000)
    assert found.stopped == "budget"
    assert found.touched == 2000
    assert 0 < found.lower[0] < found.upper[0] < np.inf
    assert "budget" in repr(found)


def test_bounds_become_closer_with_the_budget():
    budgets = (10, 100, 1000, 10_000)
    found = [
        evaluate_local(
            field(False), {MIDDLE + 2: 1.0}, Geometric(0.5), discount=0.95, at=[MIDDLE], tolerance=1e-12, budget=b
        )
        for b in budgets
    ]
    assert all(one.width > other.width for one, other in pairwise(found))
    assert max(each.lower[0] for each in found) <= min(each.upper[0] for each in found)


def test_the_memory_limit_ends_the_search(monkeypatch):
    monkeypatch.setenv("WANE_MEMORY_GIB", "0.08")
    found = evaluate_local(field(False), {MIDDLE: 1.0}, Geometric(0.5), discount=0.9999, at=[MIDDLE], tolerance=1e-9)
    assert found.stopped == "memory"
    assert found.lower[0] < found.upper[0]


def test_a_tolerance_below_rounding_is_told():
    kernel = np.array([[0.5, 0.5], [0.25, 0.75]])
    found = evaluate_local(kernel, {0: 1.0}, Geometric(1.0), discount=0.999, at=[0, 1], tolerance=1e-16)
    assert found.stopped == "rounding"
    assert found.split["rounding"] > 1e-16


def test_sites_that_cannot_be_reached():
    """A one-way street: nothing leads back to 0."""
    found = evaluate_local(
        lambda s: ((s + 1)[:, None], np.ones((len(s), 1))), {0: 1.0, 7: 1.0}, Geometric(0.5), discount=0.5, at=[5]
    )
    assert found.lower[0] <= 0.25 <= found.upper[0]
    assert found.unreached == (0,)
    assert "never reached: 0" in repr(found)


def test_an_executor_divides_the_starts():
    starts = MIDDLE + np.arange(40)
    settings = dict(discount=0.9, at=starts, tolerance=1e-7)
    with ThreadPoolExecutor(2) as executor:
        divided = evaluate_local(field(), {MIDDLE: 1.0}, Geometric(0.5), **settings, executor=executor)
    whole = evaluate_local(field(), {MIDDLE: 1.0}, Geometric(0.5), **settings)
    assert np.all((divided.lower <= whole.upper) & (whole.lower <= divided.upper))
    assert divided.width <= 1e-7
    np.testing.assert_array_equal(divided.states, starts)


@pytest.mark.slow
def test_processes_divide_the_starts():
    field, starts = wane.worlds.make("endless-field", discount=0.8), [(500_000, 500_000), (500_001, 500_001)]
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        divided = field.values("uniform", at=starts, executor=executor)
    assert np.all(np.abs(divided.values - field.values("uniform", at=starts).values) <= 1e-6)


def pair(after, chances):
    return lambda s: (np.broadcast_to(after, (len(s), 2)), np.broadcast_to(chances, (len(s), 2)))


def failing(states):
    if np.any(states == 3):
        raise KeyError("no such cell")
    return line(states)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (pair([0, 1], [0.5, 0.4]), "the probabilities of state 0 sum to 0.9"),
        (pair([0, 1], [1.5, -0.5]), "state 0 has a successor of probability -0.5"),
        (pair([0, 1], [np.nan, 0.5]), "state 0 has a successor of probability nan"),
        (lambda s: (s[:1, None], np.ones((1, 1))) if len(s) > 1 else line(s), "one row for each state"),
        (lambda s: (s[:, None, None], np.ones((len(s), 1))), "one row for each state"),
        (lambda s: (s[:, None], np.ones((len(s), 2))), "1 next states and 2 probabilities"),
        (lambda s: s, "must return a pair"),
        (failing, "successors raised KeyError at state 3"),
        (FunctionKernel(line, lambda s: s[:, None]), "predecessors of"),
        (FunctionKernel(line, lambda s: s), "the predecessors have shape"),
    ],
)
def test_bad_kernels_are_refused_in_one_sentence(kernel, message):
    with pytest.raises(ValueError, match=message) as caught:
        evaluate_local(kernel, {0: 1.0, 1: 1.0}, Geometric(0.5), discount=0.9, at=[0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(tolerance=-1e-3), ValueError, "tolerance must be"),
        (dict(tolerance=0.0), ValueError, "tolerance must be"),
        (dict(discount=1.0), ValueError, "with discount 1 the mass"),
        (dict(discount=1.5), ValueError, "discount must be"),
        (dict(budget=0), ValueError, "budget must be"),
        (dict(budget=1), ValueError, "the budget is 1 states"),
        (dict(at=[0.5]), ValueError, "give a list of states"),
        (dict(at=[]), ValueError, "give a list of states"),
        (dict(rewards={0: np.inf}), ValueError, "that of site 0 is inf"),
        (dict(rewards={(0, 1): 1.0}), ValueError, "is no state and no set of states"),
        (dict(rewards={"a": 1.0}), ValueError, "is no state and no set of states"),
        (dict(rewards=[1.0]), TypeError, "rewards are a dictionary"),
        (dict(rewards=lambda s: s), ValueError, "largest_reward"),
        (dict(rewards=lambda s: s, largest_reward=1.0), ValueError, "not within largest_reward"),
        (dict(rewards=lambda s: 1.0, largest_reward=1.0), ValueError, "rewards returned shape"),
        (dict(depletion=0.5), TypeError, "is not a Depletion"),
        (dict(depletion=Geometric([0.1, 0.2, 0.3])), ValueError, "for 2 sites"),
        (dict(depletion=wane.TotalTime(0.6, 0.95)), TypeError, "grows back"),
        (dict(policy=None, kernel=wane.worlds.make("corridor")), TypeError, "a policy is needed"),
        (dict(kernel=FunctionMDP([line]), policy=lambda s: s * 0 + 4), ValueError, "takes action 4 in state"),
        (dict(kernel=wane.worlds.make("corridor"), policy="uniform", at=[99]), ValueError, "state 99"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_arguments_are_refused_in_one_sentence(change, error, message):
    given = dict(kernel=line, rewards={0: 1.0, 5: 1.0}, depletion=Geometric(0.5), discount=0.9, at=[1], tolerance=1e-6)
    with pytest.raises(error, match=message) as caught:
        evaluate_local(**given | change)
    assert "\n" not in str(caught.value)
