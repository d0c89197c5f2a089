"""The learned λ operator: its exact targets, its tasks, and a tiny world in which it learns the exact answer."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import lambda_operator, learned_operator
from wane.agents.common.rollout import play
from wane.agents.learned_operator import Problems, counted_kernel, sample_problems, state_representation
from wane.worlds import make

KEY = jax.random.key(0)
WORLD = make("corridor", length=4, depletion=wane.Geometric(0.5), horizon=8, discount=1.0)
CONFIG = learned_operator.Config(
    width=64, depth=2, batch=32, epochs=2, steps=400, learning_rate=5e-3, discount=0.9, goals=2, dense=0.0, probes=32
)
EVERY_LAM = dataclasses.replace(CONFIG, conditioned=True)
TASK = jnp.array([0.0, 1.0, 0.0, 0.3])


def untrained(params):
    """The same with a network that changes nothing."""
    return params._replace(network=jax.tree_util.tree_map(jnp.zeros_like, params.network))


@pytest.fixture(scope="module")
def trained():
    """A model for every λ in the tiny world, and what its training told."""
    return jax.jit(lambda key: learned_operator.train(key, WORLD, EVERY_LAM))(KEY)


@pytest.fixture(scope="module")
def start():
    return jax.jit(lambda key: learned_operator.init(key, WORLD, CONFIG))(KEY)


def test_targets_are_the_exact_representation(start):
    chances = jax.nn.softmax(jax.random.normal(KEY, (4, WORLD.n_actions)))
    lams = [0.0, 0.3, 1.0]
    solve = jax.vmap(lambda lam: learned_operator.evaluate(start.params.kernel, chances, lam, 0.99))
    for lam, found in zip(lams, jax.jit(solve)(jnp.array(lams)), strict=True):
        phi = wane.lambda_representation(WORLD.mdp.under(np.asarray(chances)), lam, discount=0.99)
        np.testing.assert_allclose(found, phi.action_matrix(WORLD.mdp), rtol=1e-7)


def test_policies_are_one_improvement_of_the_random_walk(start):
    """They are those of the exact operator, which is what the network learns to replace."""
    config = lambda_operator.Config(discount=0.9, temperature=CONFIG.temperature)
    exact = jax.jit(lambda: lambda_operator.operate(lambda_operator.init(KEY, WORLD, config), TASK, config)[0])
    operate = jax.jit(lambda rewards: learned_operator.operate(start.params, rewards, 0.5, CONFIG))
    chances, phi = operate(TASK)
    np.testing.assert_allclose(chances, exact(), rtol=1e-6)
    np.testing.assert_allclose(operate(1e6 * TASK)[1], phi, rtol=1e-6)  # The unit of rewards does not matter.
    by_state = state_representation(start.params, TASK, 0.5, CONFIG)
    at = jax.vmap(lambda cell: learned_operator.q_values_at(cell, start.params.kernel, by_state, TASK, 0.5, 0.9))
    np.testing.assert_allclose(at(jnp.arange(4)), phi @ TASK, rtol=1e-12)


def test_a_network_that_says_0_gives_the_random_walk(start):
    _, phi = jax.jit(lambda params: learned_operator.operate(params, TASK, 0.5, CONFIG))(untrained(start.params))
    walk = WORLD.mdp.under(np.full((4, WORLD.n_actions), 1 / WORLD.n_actions))
    exact = wane.lambda_representation(walk, 0.5, discount=0.9)
    np.testing.assert_allclose(phi, exact.action_matrix(WORLD.mdp), rtol=1e-6)


def test_without_rewards_slopes_are_finite(start):
    batch = Problems(jnp.zeros((2, 4)), jnp.array(0.0))
    slope = jax.jit(lambda network: jax.grad(learned_operator.loss)(network, start.params, batch, CONFIG))(
        start.params.network
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree_util.tree_leaves(slope))


def test_it_learns_the_exact_phi_for_every_lam(trained):
    state, info = trained
    assert info.error[-1] < 0.05
    goals = np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [1.0, 0, 1.0, 0], [0, 1.0, 0, 0.5], [0, 0, 1.0, 1.0]])
    batch = Problems(jnp.asarray(np.tile(goals, (3, 1))), jnp.repeat(jnp.array([0.0, 0.5, 1.0]), len(goals)))
    misfits = jax.jit(lambda params: learned_operator.misfits(params, batch, EVERY_LAM))
    found, walk = misfits(state.params), misfits(untrained(state.params))
    assert np.median(np.sqrt(found.phi)) < 0.08 < np.sqrt(walk.phi).min()
    assert (np.asarray(found.phi) < walk.phi / 5).all()
    assert (np.asarray(found.differences) < walk.differences / 5).all()


@pytest.mark.parametrize(("lam", "optimum"), [(0.0, 1.4), (1.0, 6.0)])
def test_it_earns_the_optimum(trained, lam, optimum):
    """From the left end, 0.4 one step away and 1 at the other end: both once, or the larger one for ever."""
    state, _ = trained
    changes = dict(sites=np.array([1, 3]), rewards=np.array([0.4, 1.0]), depletion=wane.Geometric(lam))
    world = dataclasses.replace(WORLD, **changes)
    agent = learned_operator.policy(state.params._replace(lam=jnp.asarray(lam)), world, EVERY_LAM)
    assert float(play(KEY, world, agent, start=0)[1].rewards.sum()) == pytest.approx(optimum + 0.4 * (lam == 1))


def test_kernels_are_counted(start):
    cells, actions, next_cells = jnp.array([[0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 0, 0]])
    found = counted_kernel(cells, actions, next_cells, (2, 2))
    np.testing.assert_allclose(found, [[[1 / 3, 2 / 3], [1, 0]], [[0, 1], [1, 0]]])
    config = dataclasses.replace(CONFIG, episodes=40, horizon=20)
    counted = jax.jit(lambda key: learned_operator.init(key, WORLD, config))(KEY).params
    np.testing.assert_allclose(counted.kernel, start.params.kernel)  # Nothing slips, so one sample of each will do.
    np.testing.assert_allclose(counted.walk, start.params.walk)
    one = dataclasses.replace(CONFIG, episodes=1, horizon=5)  # As few as there can be; the shapes need no compiling.
    shapes = jax.eval_shape(lambda key: learned_operator.init(key, WORLD, one), KEY).params
    assert shapes.kernel.shape == counted.kernel.shape


def test_tasks_are_sparse_or_dense():
    config = dataclasses.replace(EVERY_LAM, batch=400, goals=3, dense=0.25)
    tasks = jax.tree_util.tree_map(
        np.asarray, jax.jit(lambda key: sample_problems(key, 40, jnp.array(0.5), config))(KEY)
    )
    dense = (tasks.rewards < 0).any(1)
    assert 0.15 < dense.mean() < 0.35
    sparse, goals = tasks.rewards[~dense], (tasks.rewards[~dense] > 0).sum(1)
    assert (sparse.max(), goals.max()) == (1, 3)
    assert (tasks.lam.min(), tasks.lam.max()) == (0, 1)


def test_worlds_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setenv("WANE_MEMORY_GIB", "0.0001")
    monkeypatch.setattr("wane.limits._NEVER_REFUSED", 0)
    with pytest.raises(ValueError, match="the network's last layer needs about"):
        learned_operator.init(KEY, make("four-rooms"), learned_operator.Config())
