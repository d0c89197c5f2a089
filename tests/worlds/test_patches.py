"""A site may be a set of states: one reward, and one memory, for a visit to any of them."""

import json

import jax
import numpy as np
import pytest

import wane
from wane.agents import q_lambda
from wane.testing import check_world
from wane.worlds import MDPWorld
from wane.worlds.describe import describe, from_description

DEPLETIONS = [wane.Geometric([0.5, 0.8]), wane.FirstVisits(2), wane.Hyperbolic(1.0), wane.EligibilityTrace(0.5, 0.6)]


def world(**settings):
    transitions = np.random.default_rng(0).dirichlet(np.full(4, 0.4), (4, 2))
    defaults = dict(sites=[{0, 2}, 3], rewards=[1.0, 2.0], discount=0.8, horizon=4)
    return MDPWorld(transitions, **(defaults | settings))


def brute_force(room, policy=None):
    """V by the definition, over all that can happen: of a policy, or of the best choices if there is none."""
    depletion, rewards, p = room.depletion, room.rewards, room.mdp._dense
    on_arrival = room.timing == "arrival"

    def pay(memory, s):
        paid = [s in states for states in room.patches]
        worth = np.broadcast_to(depletion.worth(memory), 2)
        reward = sum(r * w for r, w, here in zip(rewards, worth, paid, strict=True) if here)
        after = jax.tree.map(lambda v, w: np.where(paid, v, w), depletion.visit(memory), depletion.wait(memory))
        return reward, after

    def value(s, memory, left):
        if left == 0:
            return 0.0
        now, memory_after = (0.0, memory) if on_arrival else pay(memory, s)
        q = []
        for a in range(room.n_actions):
            total = 0.0
            for t in range(room.n_states):
                reward, then = pay(memory, t) if on_arrival else (0.0, memory_after)
                total += p[s, a, t] * (reward + room.discount * value(t, then, left - 1))
            q.append(total)
        return now + (max(q) if policy is None else policy[s] @ q)

    scale = room.discount if on_arrival else 1.0
    return np.array([scale * value(s, depletion.initial((2,)), room.horizon) for s in range(room.n_states)])


@pytest.mark.parametrize("depletion", DEPLETIONS)
@pytest.mark.parametrize("timing", ["arrival", "departure"])
def test_values_and_the_optimum_are_those_of_the_definition(depletion, timing):
    room = world(depletion=depletion, timing=timing)
    policy = np.random.default_rng(1).dirichlet(np.ones(2), 4)
    np.testing.assert_allclose(room.values(policy), brute_force(room, policy), atol=1e-9)
    np.testing.assert_allclose((policy * room.q_values(policy)).sum(1), room.values(policy), atol=1e-9)
    best = room.optimum()
    np.testing.assert_allclose(best.values, brute_force(room), atol=best.error + 1e-9)


@pytest.mark.parametrize("depletion", DEPLETIONS)
@pytest.mark.parametrize("timing", ["arrival", "departure"])
def test_without_an_end_it_is_the_limit_of_long_episodes(depletion, timing):
    room = world(depletion=depletion, timing=timing, discount=0.6)
    policy = np.random.default_rng(1).dirichlet(np.ones(2), 4)
    endless, long = (room.values(policy, horizon=h) for h in (None, 50))
    np.testing.assert_allclose(endless, long, atol=1e-5 if isinstance(depletion, wane.EligibilityTrace) else 1e-8)
    if timing == "departure" and isinstance(depletion, wane.EligibilityTrace):
        with pytest.raises(ValueError, match="is not known without an end"):
            room.q_values(policy, horizon=None)
        return
    q = room.q_values(policy, horizon=None)
    np.testing.assert_allclose((policy * q).sum(1), endless, atol=1e-5)


@pytest.mark.parametrize("timing", ["arrival", "departure"])
def test_what_is_played_is_what_is_computed(timing):
    check_world(world(timing=timing, depletion=wane.Hyperbolic(1.0), horizon=9))


def test_agents_learn_one_column_for_a_patch():
    state, _ = q_lambda.train(jax.random.key(0), world(), q_lambda.Config(episodes=5))
    assert state.phi.shape == (4, 2, 2)


def test_a_patch_is_worth_less_than_its_states_apart():
    together, apart = world(sites=[{0, 2}], rewards=[1.0]), world(sites=[0, 2], rewards=[1.0, 1.0])
    uniform = np.full((4, 2), 0.5)
    assert np.all(together.values(uniform) < apart.values(uniform))
    assert np.all(together.optimum().values < apart.optimum().values)


def test_patches_as_data_and_in_words():
    room = world()
    assert describe(room)["sites"] == [{"states": [0, 2]}, {"states": [3]}]
    again = from_description(json.loads(json.dumps(describe(room))))
    assert again.sites == room.sites == (frozenset({0, 2}), frozenset({3}))
    assert "{0, 2} pays 1, 3 pays 2" in repr(again)
    with pytest.raises(ValueError, match='a site of several states is {"states"'):
        from_description(describe(room) | {"sites": [{"states": "02"}]})


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        ([{0, 2}, 2], "state 2 belongs to two sites"),
        ([set(), 1], "site 0 is an empty set"),
        ([{0, 4}, 1], "unknown site 4"),
    ],
)
def test_wrong_sets_are_refused(sites, message):
    with pytest.raises(ValueError, match=message):
        world(sites=sites)
