import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents.common.rollout import play
from wane.agents.forward_backward import acting, probing, training
from wane.agents.forward_backward.model import Config, Schedule, all_features, reward_vector, softmax_policy
from wane.agents.forward_backward.tasks import sample_tasks, undiscounted_returns
from wane.worlds import make
from wane.worlds.observe import Seen

WORLD = make("corridor", length=5, horizon=20)
N, A = WORLD.n_states, WORLD.n_actions
SMALL = Config(
    dimension=16,
    width=64,
    depth=1,
    discount=0.9,
    batch=64,
    horizon=20,
    learning_rate=3e-3,
    polyak=0.8,
    replay=4000,
    condition="per state",
    schedule=Schedule(epochs=4, cycles=60, episodes=2, batches=10),
)
KEY = jax.random.key(0)
UNEVEN = np.array([0.1, 0.5, 0.0, 1.0, 0.8])


@pytest.fixture(scope="module")
def trained():
    return jax.jit(lambda: training.train(KEY, WORLD, SMALL))()


def successor(chances):
    phi = probing.representation_of(WORLD, chances, 1.0, 0.9)
    return phi, jnp.einsum("sa,sas->s", chances, phi)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0, UNEVEN])
def test_q_values_from_the_successor_representation_are_exact(lam):
    chances = jax.nn.softmax(jax.random.normal(KEY, (N, A)))
    rewards = jnp.arange(1.0, N + 1)
    phi = wane.lambda_representation(WORLD.mdp.under(np.asarray(chances)), lam, discount=0.9)
    exact = phi.q_values(WORLD.mdp, rewards)
    m, diagonal = successor(chances)
    for cell in range(N):
        found = acting.lambda_q_values(m[cell], diagonal, cell, rewards, lam)
        np.testing.assert_allclose(found, exact[cell], rtol=1e-9)


def test_without_the_own_part_staying_looks_too_good():
    chances, stay, cell = jnp.full((N, A), 1 / A), 4, 2
    m, diagonal = successor(chances)
    rewards = jnp.zeros(N).at[cell].set(1.0)
    right, wrong = (acting.lambda_q_values(m[cell], diagonal, cell, rewards, 0.0, own) for own in (True, False))
    np.testing.assert_allclose(right, 1)  # the first visit takes all: no action is better than another
    assert wrong[stay] > wrong[1] + 0.1


def test_conditioned_training_finds_the_exact_representations_of_all_lams(trained):
    assert np.median(trained[1].misfit.rms[-1]) < 0.2
    untrained, z = training.init(KEY, WORLD, SMALL).params, jax.random.normal(KEY, (16,))
    for lam in (np.full(N, 0.2), np.full(N, 0.9), UNEVEN):
        before, after = (
            probing.misfit(params, z, jnp.asarray(lam), WORLD, SMALL).rms for params in (untrained, trained[0].params)
        )
        assert after < 0.25 < 0.9 < before


def test_conditioned_agent_collects(trained):
    for lam in (0.5, UNEVEN):
        policy = acting.conditioned_policy(trained[0].params, WORLD, SMALL, lam)
        assert undiscounted_returns(WORLD, policy, sample_tasks(KEY, WORLD, 20, goals=1)).mean() > 1.8


def test_uniform_condition_takes_one_lam():
    config = dataclasses.replace(SMALL, condition="uniform", lam=0.5)
    state = training.init(KEY, WORLD, config)
    assert state.params.forward.inputs.weight.shape == (16 + 1, 64)
    acting.conditioned_policy(state.params, WORLD, config, 0.3)
    with pytest.raises(ValueError, match='"per state" for one in each'):
        acting.conditioned_policy(state.params, WORLD, config, UNEVEN)
    with pytest.raises(ValueError, match="condition='nothing'"):
        acting.lam_inputs(0.5, N, Config())


def test_equivalent_agent_acts_on_the_models_own_q_values():
    config = dataclasses.replace(SMALL, condition="nothing", lam=1.0, temperature=2.0)
    params = training.init(KEY, WORLD, config).params
    rewards = jnp.array([1.0, 0.0, 2.0, 0.0, 0.5])
    z = reward_vector(params.backward(), rewards)
    m = probing.learned_representation(params, z)
    chances = softmax_policy(all_features(params, z), z, 2.0)
    diagonal = jnp.einsum("sa,sas->s", chances, m)
    policy = acting.equivalent_policy(params, WORLD, config, UNEVEN)
    for cell in range(N):
        q = acting.lambda_q_values(m[cell], diagonal, cell, rewards, UNEVEN)
        assert policy.act(policy.params, None, Seen(jnp.asarray(cell), rewards), None)[0] == jnp.argmax(q)
    with pytest.raises(ValueError, match="use conditioned_policy"):
        acting.equivalent_policy(params, WORLD, SMALL, 0.5)


def test_equivalent_agent_plays():
    config = dataclasses.replace(SMALL, condition="nothing", lam=1.0)
    params = training.init(KEY, WORLD, config).params
    _, episode = play(KEY, WORLD, acting.equivalent_policy(params, WORLD, config, 0.5))
    assert episode.cells.shape == (21,)
    assert np.isfinite(episode.rewards).all()
