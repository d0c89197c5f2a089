"""A world made from any MDP: agents learn in it, exact answers hold for it, and it can be written down."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import wane
from wane.agents import Trained, gpi, load, planner, policy_iteration, q_lambda, q_learning, td
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import play
from wane.testing import check_world
from wane.worlds import MDPWorld, make
from wane.worlds.describe import describe, from_description
from wane.worlds.mdp_world import make_rows

KEY = jax.random.key(0)


def random_mdp(n=5, n_actions=3, spread=0.3, seed=0, ends=()):
    transitions = np.random.default_rng(seed).dirichlet(np.full(n, spread), (n, n_actions))
    transitions[list(ends)] = 0
    return transitions


def world(transitions=None, **settings):
    transitions = random_mdp() if transitions is None else transitions
    defaults = dict(sites=[0, 3], rewards=[1.0, 2.0], discount=0.9, horizon=12)
    return MDPWorld(transitions, **(defaults | settings))


WORLDS = {
    "dense": world(),
    "departure": world(timing="departure", depletion=wane.TotalTime(0.5, 0.95), observation="index+remaining"),
    "sparse": world([sparse.csr_matrix(p) for p in random_mdp().transpose(1, 0, 2)], threshold=0.3, start=2),
    "ends": world(random_mdp(ends=[3]), depletion=wane.FirstVisits(2)),
    "ends-departure": world(random_mdp(ends=[3, 4]), timing="departure", observation="one-hot+remaining+flat"),
    "certain": world(np.array([[1, 2], [2, 0], [0, 3], [3, 1]]), start=[0.5, 0, 0.5, 0], horizon=None),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_contract_holds(name):
    check_world(WORLDS[name])


@pytest.mark.parametrize("name", WORLDS)
def test_no_policy_beats_the_optimum(name):
    room = WORLDS[name]
    grid = 12 if isinstance(room.depletion, wane.TotalTime) else None
    best = room.optimum(grid=grid)
    for policy in np.random.default_rng(0).dirichlet(np.full(room.n_actions, 0.3), (6, room.n_states)):
        values = room.values(policy)
        assert np.all(values <= best.values + best.error + 1e-9)
        np.testing.assert_allclose((policy * room.q_values(policy)).sum(1), values, atol=1e-9)


def test_steps_are_drawn_from_the_rows_of_the_mdp():
    """Also without a dense table, and for rows of very different lengths."""
    transitions = random_mdp(n=7, n_actions=2, spread=0.5)
    transitions[3] = np.eye(7)[5]
    rows, draws = make_rows(wane.MDP(transitions)), (np.arange(20_000) + 0.5) / 20_000
    for state, action in ((0, 0), (3, 1), (6, 1)):
        found = jax.vmap(lambda u, row=action * 7 + state: rows.sample(jnp.asarray(row), u))(jnp.asarray(draws))
        np.testing.assert_allclose(np.bincount(found, minlength=7) / 20_000, transitions[state, action], atol=1e-4)


def test_a_large_sparse_mdp_is_never_made_dense():
    n = 200_000
    forward = sparse.csr_array((np.full(2 * n, 0.5), np.stack([np.arange(n), np.arange(1, n + 1) % n], 1).ravel(),
                                np.arange(0, 2 * n + 1, 2)), shape=(n, n))  # fmt: skip
    long = MDPWorld([forward], sites=[1], rewards=[1.0], start=0, horizon=5)
    _, state = long.begin(0)
    assert int(long.step(KEY, state, 0)[1].cell) in (0, 1)


def test_the_same_world_as_on_a_map():
    room = make("corridor", horizon=9, slip=0.2)
    same = MDPWorld(room.mdp, sites=room.sites, rewards=room.rewards, discount=room.discount, horizon=9)
    uniform = np.full((room.n_states, room.n_actions), 1 / room.n_actions)
    np.testing.assert_allclose(same.values(uniform), room.values(uniform), rtol=1e-12)
    np.testing.assert_allclose(same.optimum().values, room.optimum().values, rtol=1e-12)


def test_q_lambda_learns_to_be_almost_as_good_as_the_optimum():
    room = world(start=0, horizon=15)
    config = q_lambda.Config(lam=0.5, episodes=1500, step_size=0.05, optimism=1.0)
    state, _ = jax.jit(lambda key: q_lambda.train(key, room, config))(KEY)
    keys = jax.random.split(jax.random.key(1), 2000)
    earned = jax.jit(jax.vmap(lambda key: play(key, room, q_lambda.policy(state, room, config))[1].value))(keys)
    best = room.optimum().values[0]
    assert 0.93 * best < float(earned.mean()) < 1.03 * best


def test_td_finds_the_representation_of_an_mdp_that_ends():
    room = world(random_mdp(ends=[3]), horizon=10, policies=[np.zeros(5, int)])
    config = td.Config(episodes=8000, step_size=0.02, epsilon=0.0, rows="state")
    state, _ = jax.jit(lambda key: td.train(key, room, config))(KEY)
    exact = wane.lambda_representation(room.mdp.under(room.policies[0]), 0.5, discount=0.9, sites=room.sites)
    np.testing.assert_allclose(state.phi, exact.matrix, atol=0.12)
    np.testing.assert_allclose(state.phi[3], exact.matrix[3], atol=1e-6, err_msg="after state 3 nothing follows")


@pytest.mark.parametrize(
    ("module", "config"),
    [
        (q_lambda, q_lambda.Config(episodes=3)),
        (q_learning, q_learning.Config(episodes=3)),
        (td, td.Config(episodes=3)),
        (gpi, gpi.Config()),
        (planner, planner.Config()),
        (policy_iteration, policy_iteration.Config(depletion=wane.Geometric(1.0))),
    ],
    ids=lambda each: each.__name__.split(".")[-1] if hasattr(each, "__name__") else "",
)
def test_agents_live_in_it_and_are_saved_with_it(module, config, tmp_path):
    room = world(random_mdp(ends=[4]), policies=[np.zeros(5, int), np.ones(5, int)])
    state, _ = module.train(KEY, room, config)
    agent = Trained(module.__name__.split(".")[-1], room, config, state)
    episodes = [each.play(KEY, start=0)[1] for each in (agent, load(agent.save(tmp_path / "agent")))]
    for mine, theirs in zip(*episodes, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_as_data_and_back(name):
    room = WORLDS[name]
    again = from_description(json.loads(json.dumps(describe(room))))
    mine, theirs = describe(room), describe(again)
    for (*places, chances), (*same_places, same_chances) in zip(
        mine.pop("mdp")["actions"], theirs.pop("mdp")["actions"], strict=True
    ):
        assert places == same_places
        np.testing.assert_allclose(chances, same_chances, rtol=1e-14)
    assert mine == theirs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mdp": 3}, "mdp is a dictionary"),
        ({"mdp": {"states": 2, "actions": [[[0], [0]]]}}, "action 0 of mdp is three lists"),
        ({"mdp": {"states": 2, "actions": [[[0, 1], [0, 2], [1.0, 1.0]]]}}, "no state from 0 to 1"),
        ({"mdp": {"states": 2, "actions": [[[0, 1], [0, 1], [1.0, 0.5]]]}}, "row 1 sums to 0.5"),
        ({"slip": 0.1}, "a world on an MDP has no 'slip'"),
    ],
)
def test_damaged_descriptions_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_description(describe(world()) | change)


def test_an_episode_ends_where_no_state_follows():
    """0 → 1 → end: on arrival 1 pays as it is entered, on departure as it is left."""
    line = [sparse.csr_array(np.array([[0.0, 1.0], [0.0, 0.0]]))]
    for timing, paid in (("arrival", [2.0, 0.0]), ("departure", [1.0, 2.0])):
        room = MDPWorld(line, sites=[0, 1], rewards=[1.0, 2.0], start=0, timing=timing, horizon=5, discount=0.5)
        episode = play(KEY, room, Policy(lambda params, carry, seen, key: (0, carry, None)))[1]
        assert episode.rewards.tolist() == [*paid, 0, 0, 0]
        assert episode.live.tolist() == [1, 1, 0, 0, 0]
        assert room.values([0, 0])[0] == episode.value == room.optimum().values[0]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (dict(sites=[5]), ValueError, "unknown site 5"),
        (dict(start=9), ValueError, "the start 9 is not a state from 0 to 4"),
        (dict(start=[0.5, 0.5]), ValueError, "one for each of 5 states"),
        (dict(observation="cell"), ValueError, "the observation cell needs a map, and MDPWorld has none"),
        (dict(slip=0.2), TypeError, "a world has no setting 'slip'"),
        (dict(rewards=[1.0]), ValueError, "one finite r̄ for each of the 2 sites"),
    ],
)
def test_wrong_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        world(**settings)


def test_what_it_prints_fits_a_screen():
    assert repr(world()) == (
        "MDPWorld of 5 states and 3 actions\n  sites        0 pays 1, 3 pays 2\n"
        "  depletion    Geometric(lam=0.5)\n  discount     0.9\n  horizon      12"
    )


def test_rewards_can_be_traced():
    def total(reward):
        room = dataclasses.replace(WORLDS["certain"], rewards=jnp.array([reward, 2.0]))
        return room.step(None, room.begin(2)[1], 0)[2]

    assert jax.jit(total)(5.0) == 5.0
