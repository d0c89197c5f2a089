import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import lambda_operator
from wane.worlds import make

KEY = jax.random.key(0)
WORLD = make("corridor", length=5, depletion=wane.Geometric(0.3))


def state_of(**settings):
    return lambda_operator.init(KEY, WORLD, lambda_operator.Config(**settings))


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0, np.linspace(0, 1, 5)], ids=str)
def test_values_are_those_of_the_exact_representation(lam):
    chances = jax.nn.softmax(jax.random.normal(KEY, (WORLD.n_states, WORLD.n_actions)))
    rewards = np.arange(5.0)
    q = lambda_operator.q_values(state_of(lam=lam), chances, jnp.asarray(rewards), 0.9)
    phi = wane.lambda_representation(WORLD.mdp.under(np.asarray(chances)), lam, discount=0.9)
    np.testing.assert_allclose(q, phi.q_values(WORLD.mdp, rewards), atol=1e-12)


def test_sweeps_are_improvements_by_a_softmax():
    state, rewards = state_of(), jnp.arange(5.0)
    uniform = jnp.full((5, WORLD.n_actions), 1 / WORLD.n_actions)
    config = lambda_operator.Config(sweeps=2, temperature=0.1)
    chances, q = lambda_operator.operate(state, rewards, config)
    expected = uniform
    for _ in range(2):
        values = lambda_operator.q_values(state, expected, rewards, config.discount)
        expected = jax.nn.softmax(values / (0.1 * np.abs(values).max()))
    np.testing.assert_allclose(chances, expected, rtol=1e-12)
    np.testing.assert_allclose(q, lambda_operator.q_values(state, expected, rewards, 0.99), rtol=1e-12)


def test_the_unit_of_rewards_does_not_matter():
    one, other = (
        lambda_operator.operate(state_of(), scale * jnp.arange(5.0), lambda_operator.Config()) for scale in (1, 1e6)
    )
    np.testing.assert_allclose(one[0], other[0], rtol=1e-9)
    np.testing.assert_allclose(1e6 * one[1], other[1], rtol=1e-9)


def test_lam_is_the_world_s_own_unless_it_is_given():
    assert state_of().lam == 0.3
    assert state_of(lam=0.7).lam == 0.7
    each = dataclasses.replace(make("four-rooms"), depletion=wane.Geometric(np.array([0.1, 0.2, 0.3])))
    lam = lambda_operator.init(KEY, each, lambda_operator.Config()).lam
    np.testing.assert_array_equal(lam[each.sites], [0.1, 0.2, 0.3])


def test_other_depletions_need_a_lam():
    world = dataclasses.replace(WORLD, depletion=wane.Hyperbolic(1.0))
    with pytest.raises(ValueError, match="give Config a lam, such as 0.5"):
        lambda_operator.init(KEY, world, lambda_operator.Config())


def test_worlds_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setenv("WANE_MEMORY_GIB", "0.0001")
    monkeypatch.setattr("wane.limits._NEVER_REFUSED", 0)
    with pytest.raises(ValueError, match="the kernel of every action needs about"):
        lambda_operator.init(KEY, make("four-rooms"), lambda_operator.Config())
