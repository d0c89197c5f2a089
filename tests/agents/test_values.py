"""One question, one answer: what a world computes is what is played in it, with one horizon, timing and discount."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents.common.rollout import Policy, play
from wane.worlds import make, names

DEPLETIONS = (wane.Geometric(0.5), wane.Geometric(1.0), wane.FirstVisits(2), wane.TotalTime(0.5, 0.98))


def random_world(seed: int) -> wane.worlds.World:
    """A catalogue world with other rules."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(["corridor", "two-rooms-7", "toy", "grid-6x6"]))
    timing = str(rng.choice(["arrival", "departure"]))
    return make(
        name,
        timing=timing,
        slip=float(rng.choice([0.0, 0.3])),
        discount=float(rng.choice([0.8, 1.0])),
        horizon=int(rng.integers(1, 12)),
        depletion=DEPLETIONS[rng.integers(len(DEPLETIONS))],
        wall_penalty=float(rng.choice([0.0, 0.5])) if timing == "arrival" else 0.0,
    )


WORLDS = [*((name, None) for name in names()), *(("random", seed) for seed in range(12))]


@pytest.fixture(params=WORLDS, ids=lambda each: each[0] if each[1] is None else f"random-{each[1]}")
def world(request):
    name, seed = request.param
    made = make(name, threshold=None) if seed is None else random_world(seed)
    return made if made.horizon else dataclasses.replace(made, horizon=30)


def mixed_policy(world, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(world.n_actions), world.n_states)


def test_playing_agrees_with_values(world):
    probabilities = jnp.asarray(mixed_policy(world))
    policy = Policy(
        lambda params, carry, cell, key: (jax.random.categorical(key, jnp.log(params[cell])), carry, ()),
        probabilities,
        observation="index",
    )
    keys = jax.random.split(jax.random.key(0), 2000)
    returns = np.asarray(jax.jit(jax.vmap(lambda key: play(key, world, policy)[1].value))(keys))
    expected = world.start @ world.values(mixed_policy(world))
    assert abs(returns.mean() - expected) <= 4.5 * returns.std() / np.sqrt(len(returns)) + 1e-9


def test_q_values_are_a_step_before_values(world):
    policy = mixed_policy(world)
    q = world.q_values(policy)
    np.testing.assert_allclose((policy * q).sum(1), world.values(policy), rtol=1e-9, atol=1e-9)
    endless = dataclasses.replace(world, horizon=None, discount=min(world.discount, 0.9))
    q = endless.q_values(policy)
    np.testing.assert_allclose((policy * q).sum(1), endless.values(policy), rtol=1e-9, atol=1e-9)


def test_no_policy_is_worth_more_than_the_optimum(world):
    # Rewards that last need no counts, so they have an optimum anywhere.
    few = world.n_states * 13**world.n_sites < 10**6
    for lam in (None, 1.0) if few else (1.0,):
        changes = {} if lam is None else {"depletion": wane.Geometric(lam)}
        grid = 12 if isinstance(world.depletion, wane.TotalTime) and lam is None else None
        best = world.optimum(grid=grid, **changes)
        policies = [*world.policies, mixed_policy(world), *(np.full(world.n_states, a) for a in range(world.n_actions))]
        for policy in policies:
            assert np.all(world.values(policy, **changes) <= best.values + best.error + 1e-9)


def test_other_settings_can_be_asked_for():
    rooms = make("four-rooms", depletion=wane.Geometric(1.0))
    policy = rooms.policies[1]
    assert rooms.values(policy).mean() < rooms.optimum().values.mean() < rooms.values(policy, horizon=None).mean()
    np.testing.assert_allclose(rooms.values(policy, horizon=900), rooms.values(policy, horizon=None), rtol=1e-9)
    elsewhere = dataclasses.replace(rooms, timing="departure", discount=0.5)
    np.testing.assert_array_equal(rooms.values(policy, timing="departure", discount=0.5), elsewhere.values(policy))
    with pytest.raises(TypeError, match="horizn"):
        rooms.values(policy, horizn=3)
