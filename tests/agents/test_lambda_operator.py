import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import lambda_operator as operator
from wane.agents import planner
from wane.agents.forward_backward import draw_tasks, undiscounted_returns
from wane.settings import SettingError
from wane.worlds import make

KEY = jax.random.key(0)
WORLD = make("corridor", length=5, horizon=20)
CONFIG = operator.Config(
    condition="uniform", discount=0.97, width=128, depth=2, learning_rate=3e-3, batch=32, epochs=20, steps=100
)


@pytest.fixture(scope="module")
def trained():
    """One network for every λ."""
    return jax.jit(lambda key: operator.train(key, WORLD, CONFIG))(KEY)


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_targets_are_the_exact_representation(lam):
    chances = jax.nn.softmax(jax.random.normal(KEY, (WORLD.n_states, WORLD.n_actions)))
    known = operator.know(WORLD, CONFIG)
    found = operator.exact_phi(known.transitions, chances, jnp.asarray(lam), 0.97)
    phi = wane.lambda_representation(WORLD.mdp.under(np.asarray(chances)), lam, discount=0.97)
    np.testing.assert_allclose(found, phi.action_matrix(WORLD.mdp), atol=1e-12)


def test_it_begins_with_the_random_walk():
    config = dataclasses.replace(CONFIG, condition="nothing", lam=0.5)
    state, known = operator.init(KEY, WORLD, config), operator.know(WORLD, config)
    rewards = jax.random.normal(KEY, (2, WORLD.n_states))
    walk = WORLD.mdp.under(np.full((WORLD.n_states, WORLD.n_actions), 1 / WORLD.n_actions))
    uniform = wane.lambda_representation(walk, 0.5, discount=0.97).action_matrix(WORLD.mdp)
    for phi in operator.learned_phi(state.params, known, rewards):
        np.testing.assert_allclose(phi, uniform, atol=1e-12)


def test_it_learns_phi_of_its_own_policies(trained):
    _, info = trained
    assert info.misfit[-1] < 0.08
    assert info.misfit[-1] < info.misfit[0] / 2


def test_one_network_acts_like_the_optimum_under_every_lam(trained):
    tasks = draw_tasks(jax.random.key(1), WORLD, 6, goals=2)

    def world_of(lam):
        return dataclasses.replace(WORLD, depletion=wane.Geometric(lam), discount=1.0)

    @jax.jit
    def earned(lam):
        world = world_of(lam)
        return undiscounted_returns(world, operator.policy(trained[0].params, world, CONFIG, lam), tasks)

    for lam in (0.1, 0.5, 1.0):
        optimal = [best_return(world_of(lam), *task) for task in zip(tasks.rewards, tasks.starts, strict=True)]
        assert earned(lam).sum() > 0.97 * np.sum(optimal)


def best_return(world, rewards, start):
    """The largest sum of rewards of one episode."""
    sites = np.flatnonzero(rewards)
    task = dataclasses.replace(world, sites=sites, rewards=np.ones(len(sites)))
    plan = planner.plan(task, tolerance=1e-3)
    return float(planner.follow(jax.random.split(KEY, 1), task, plan, start=int(start)).rewards.sum())


def test_the_unit_of_rewards_does_not_matter(trained):
    known = operator.know(WORLD, CONFIG)
    rewards = jax.random.normal(KEY, (3, WORLD.n_states))
    lams = jnp.full(3, 0.5)
    one, other = (operator.learned_phi(trained[0].params, known, scale * rewards, lams) for scale in (1.0, 1000.0))
    np.testing.assert_allclose(one, other, rtol=1e-6)
    q = operator.q_values(one, rewards)
    np.testing.assert_allclose(operator.chances_of(q, 0.1), operator.chances_of(1000 * q, 0.1), rtol=1e-6)


def test_training_in_chunks_is_training_at_once():
    config = dataclasses.replace(CONFIG, width=4, depth=1, batch=2, epochs=2, steps=2)
    start = operator.init(KEY, WORLD, config)
    train = jax.jit(lambda state, first: operator.train(KEY, WORLD, config, state, first, epochs=1))
    whole, info = jax.jit(lambda state: operator.train(KEY, WORLD, config, state))(start)
    half, early = train(start, 0)
    rest, late = train(half, 1)
    for one, other in zip(*map(jax.tree_util.tree_leaves, (whole, rest)), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(info.loss, np.concatenate([early.loss, late.loss]))


def test_a_world_that_is_too_large_is_refused():
    with pytest.raises(SettingError, match="a smaller width is needed, because 68 states"):
        operator.init(KEY, make("four-rooms"), dataclasses.replace(CONFIG, width=100_000))
