import jax
import numpy as np
import pytest

import wane
from wane.agents.policy_iteration import Config, State, improve, init, q_values, train, update
from wane.worlds import make

KEY = jax.random.key(0)
RIGHT, LEFT, STAY = 1, 3, 4


def test_improvement_by_hand():
    """State 0 has a better action; in 1 the present one is as good as the best but for rounding; in 2 two are."""
    q = np.array([[1.0, 2.0, 0.0], [3.0, 3.0 - 1e-12, 0.0], [0.0, 5.0, 5.0]])
    assert improve(np.array([0, 1, 0]), q).tolist() == [1, 1, 1]
    assert improve(np.array([2, 2, 2]), q).tolist() == [1, 0, 2]


def test_q_of_the_toy_by_hand():
    """s₁ (10, once) ← s₀ → s₂ (6, for ever), γ = 0.99, always going right: from s₁ that is two steps to s₂."""
    world = make("toy")
    q = q_values(np.array([RIGHT, RIGHT, STAY]), world, Config())
    for_ever = 6 / (1 - 0.99)
    np.testing.assert_allclose(q[1, [RIGHT, LEFT]], [0.99 * for_ever, 0.99 * (10 + 0.99**2 * for_ever)])
    np.testing.assert_allclose(q[0, RIGHT], 10 + 0.99**2 * for_ever)
    later = q_values(np.array([RIGHT, RIGHT, STAY]), world, Config(timing="arrival"))
    np.testing.assert_allclose(later[1, [RIGHT, LEFT]], [for_ever, 10 + 0.99**2 * for_ever])


@pytest.mark.parametrize("timing", ["arrival", "departure"])
@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_q_of_the_policy_is_what_the_world_pays(timing, slip):
    for depletion in (wane.Geometric(0.5), wane.Hyperbolic(1.0), wane.EligibilityTrace(0.5, 0.6)):
        world = make("four-rooms-7", timing=timing, slip=slip, depletion=depletion)
        policy = np.random.default_rng(0).integers(0, 5, world.n_states)
        q = q_values(policy, world, Config(timing=timing))[np.arange(world.n_states), policy]
        scale = world.discount if timing == "arrival" else 1.0
        np.testing.assert_allclose(scale * q, world.values(policy, horizon=None), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["two-rooms-7", "four-rooms-7", "corridor"])
@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_rewards_that_stay_end_at_the_optimum(name, slip):
    world = make(name, depletion=wane.Geometric(1.0), slip=slip, discount=0.9)
    cost = world.wall_penalty * (1 - slip) * world.map.bumps(5)
    problem = dict(discount=0.9, sites=world.sites, timing="arrival", action_rewards=-cost, tolerance=1e-8)
    best = wane.optimum(world.mdp, world.rewards, world.depletion, **problem).values
    state, info = train(KEY, world, Config(timing="arrival"))
    assert info.converged
    np.testing.assert_allclose(world.values(state.policy, horizon=None), best, rtol=1e-6)
    assert np.all(np.diff(info.values, axis=0) >= -1e-9)


@pytest.mark.parametrize("name", ["toy", "two-rooms", "four-rooms"])
@pytest.mark.parametrize("lam", [0.0, 0.5, 0.9])
def test_rewards_that_wear_off_go_round_in_circles(name, lam):
    """In the paper's worlds, from every first policy that was tried, until λ is nearly 1."""
    world = make(name, depletion=wane.Geometric(lam))
    for seed in range(2):
        _, info = train(jax.random.key(seed), world, Config())
        assert info.period > 1
        assert not info.converged
        np.testing.assert_array_equal(info.policies[-1], info.policies[-1 - info.period])
        assert all(not np.array_equal(info.policies[-1], policy) for policy in info.policies[-info.period : -1])
    assert train(KEY, world, Config(depletion=wane.Geometric(0.999)))[1].converged


def test_a_sweep_can_make_it_worse():
    world = make("toy", depletion=wane.Geometric(0.5))
    _, info = train(KEY, world, Config())
    assert info.period == 3
    assert np.min(np.diff(info.values, axis=0)) < -5


def test_a_belief_can_be_wrong():
    """The toy converges under its own depletion, going right; whoever believes that nothing wears off goes left."""
    world = make("toy")
    right, info = train(KEY, world, Config())
    assert info.converged
    left, info = train(KEY, world, Config(depletion=wane.Geometric(1.0)))
    assert info.converged
    assert (right.policy[1], left.policy[1]) == (RIGHT, LEFT)
    assert world.values(right.policy)[1] > world.values(left.policy)[1]


def test_in_parts_as_at_once():
    world = make("two-rooms-7", depletion=wane.Geometric(1.0))
    whole, info = train(KEY, world, Config())
    state, first = train(KEY, world, Config(), sweeps=2)
    assert first.period == 0
    state, rest = train(KEY, world, Config(), state)
    np.testing.assert_array_equal(state.policy, whole.policy)
    np.testing.assert_array_equal(np.concatenate([first.policies, rest.policies[1:]]), info.policies)
    np.testing.assert_array_equal(update(state, None, world, Config())[0].policy, state.policy)


def test_first_policies():
    world = make("toy")
    given = init(KEY, world, Config(policy=[RIGHT, LEFT, STAY]))
    assert isinstance(given, State)
    assert given.policy.tolist() == [RIGHT, LEFT, STAY]
    likely = init(KEY, world, Config(policy=[[0.1, 0.6, 0.1, 0.1, 0.1]] * 3))
    assert likely.policy.tolist() == [RIGHT] * 3
    with pytest.raises(ValueError, match="the policy takes action 7"):
        init(KEY, world, Config(policy=[0, 7, 0]))
    with pytest.raises(ValueError, match='timing = never: "departure" or "arrival" is needed'):
        Config(timing="never")
