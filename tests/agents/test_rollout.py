import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents.common.policy import Policy, epsilon_greedy, first_best, sample_action, uniforms
from wane.agents.common.rollout import discounts, play, rollout
from wane.worlds import World, make

CORRIDOR = "######\n#a..b#\n######"
RIGHT, STAY = 1, 4


def world(**settings):
    defaults = dict(sites="ab", rewards=[1.0, 2.0], start="a", discount=0.9, horizon=6, wall_penalty=0.5)
    return World(CORRIDOR, **(defaults | settings))


def always(action, params=None):
    """The policy that does the same all the time."""
    return Policy(lambda params, carry, observation, key: (action, carry, None), params)


def episode_of(room, action, start=None):
    """An episode of doing the same all the time."""
    return jax.jit(lambda key: play(key, room, always(action), start=start)[1])(jax.random.key(0))


def test_an_episode_by_hand():
    """a . . b, going right: b pays 2 at the third step, then the wall is met, and staying there pays 1, ½, ¼ less ½."""
    episode = episode_of(world(), RIGHT)
    assert episode.cells.tolist() == [0, 1, 2, 3, 3, 3, 3]
    assert episode.actions.tolist() == [RIGHT] * 6
    assert episode.rewards.tolist() == [0.0, 0.0, 2.0, 0.5, 0.0, -0.25]
    assert episode.remaining.tolist() == [[1, 2], [1, 2], [1, 2], [1, 1], [1, 0.5], [1, 0.25], [1, 0.125]]
    np.testing.assert_allclose(episode.value, 0.9**3 * 2 + 0.9**4 * 0.5 - 0.9**6 * 0.25)


def test_departure_counts_the_start():
    room = world(timing="departure", wall_penalty=0.0)
    episode = episode_of(room, RIGHT)
    assert episode.rewards.tolist() == [1.0, 0.0, 0.0, 2.0, 1.0, 0.5]
    np.testing.assert_allclose(episode.value, 1 + 0.9**3 * 2 + 0.9**4 + 0.9**5 * 0.5)
    np.testing.assert_allclose(discounts(room), 0.9 ** np.arange(6))


def test_an_ended_episode_stands_still():
    """One site that halves from 1: below 0.3 after two visits. The last four steps pay nothing and move nothing."""
    room = world(sites="a", rewards=[1.0], threshold=0.3)

    def learn(count, transition, key):
        return count + transition.live

    run = jax.jit(lambda key: play(key, room, always(STAY, jnp.zeros(())), learn=learn))
    count, episode = run(jax.random.key(0))
    assert float(count) == 2
    assert episode.live.tolist() == [1, 1, 0, 0, 0, 0]
    assert episode.rewards.tolist() == [1.0, 0.5, 0, 0, 0, 0]
    assert episode.remaining.ravel().tolist() == [1, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25]
    assert episode_of(dataclasses.replace(room, threshold=None), STAY).live.tolist() == [1] * 6


def test_starts():
    room = world(start=[0.0, 0.5, 0.5, 0.0])
    assert int(episode_of(room, STAY, start="b").cells[0]) == 3
    first = jax.jit(jax.vmap(lambda key: play(key, room, always(STAY))[1].cells[0]))
    starts = first(jax.random.split(jax.random.key(0), 200))
    assert np.unique(starts).tolist() == [1, 2]
    assert abs(float(starts.mean()) - 1.5) < 0.2


@pytest.mark.parametrize("slip", [0.0, 0.4])
def test_the_mean_return_is_the_exact_value(slip):
    room = make("corridor", slip=slip, discount=0.8, horizon=60, depletion=wane.Hyperbolic(1.0))
    chances = np.random.default_rng(0).dirichlet(np.ones(5), room.n_states)
    cumulative = jnp.cumsum(jnp.asarray(chances), axis=1)

    def act(params, carry, cell, draws):
        return sample_action(cumulative[cell], draws[0]), carry, None

    policy = Policy(act, draw=uniforms(1))
    keys = jax.random.split(jax.random.key(1), 4000)
    values = np.asarray(jax.jit(jax.vmap(lambda key: play(key, room, policy)[1].value))(keys))
    expected = room.start @ room.values(chances)
    assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(len(values)) + 1e-4


def test_ties_go_to_the_first():
    assert int(first_best(jnp.array([1.0, 3.0 - 1e-6, 3.0]))) == 1
    assert int(first_best(jnp.array([1.0, 3.0 - 1e-3, 3.0]))) == 2
    assert int(first_best(jnp.array([-3.0 - 1e-6, -3.0]))) == 0
    assert int(first_best(jnp.zeros(3))) == 0


def test_epsilon_greedy():
    q = jnp.array([0.0, 2.0, 1.0])
    assert int(epsilon_greedy(q, jnp.array([0.25, 0.9]), 0.2)) == 1
    assert [int(epsilon_greedy(q, jnp.array([0.1, draw]), 0.2)) for draw in (0.0, 0.34, 0.999)] == [0, 1, 2]


def test_an_episode_needs_an_end():
    with pytest.raises(ValueError, match="give the world a horizon"):
        episode_of(world(horizon=None), STAY)


class Counter(NamedTuple):
    """An environment that is no World: it counts up by the action and ends at 3 (terminated) or after 5 steps."""

    def reset(self, key):
        return jnp.zeros(()), (jnp.zeros(()), jnp.zeros((), int))

    def step(self, key, state, action):
        count, time = state[0] + action, state[1] + 1
        terminated = count >= 3
        truncated = (time >= 5) & ~terminated
        return count, (count, time), action * 10.0, terminated, truncated, {}


def remembering(action):
    """A policy that remembers how many steps of the episode it took, and records it."""

    def act(params, steps, observation, key):
        return jnp.asarray(action), steps + 1, {"steps": steps, "observation": observation}

    return Policy(act, carry=jnp.zeros((), int))


def test_any_environment_is_reset_when_an_episode_ends():
    played = jax.jit(lambda key: rollout(key, Counter(), remembering(1.0), 7))(jax.random.key(0))
    steps = played.transitions
    assert steps.observation.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert steps.next_observation.tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert steps.terminated.tolist() == [False, False, True, False, False, True, False]
    assert not steps.truncated.any()
    assert steps.extras["steps"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert played.position.observation == 1


def test_truncation_is_not_termination():
    steps = rollout(jax.random.key(0), Counter(), remembering(0.5), 6).transitions
    assert steps.truncated.tolist() == [False] * 4 + [True, False]
    assert not steps.terminated.any()
    assert steps.next_observation.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5, 0.5]
    assert steps.extras["steps"].tolist() == [0, 1, 2, 3, 4, 0]


def test_a_roll_out_goes_on_where_another_stopped():
    whole = rollout(jax.random.key(0), Counter(), remembering(1.0), 7)
    before = rollout(jax.random.key(1), Counter(), remembering(1.0), 4)
    after = rollout(jax.random.key(2), Counter(), remembering(1.0), 3, before.position)
    joined = jnp.concatenate([before.transitions.observation, after.transitions.observation])
    np.testing.assert_array_equal(joined, whole.transitions.observation)
    assert after.transitions.extras["steps"].tolist() == whole.transitions.extras["steps"].tolist()[4:]


def test_without_resets_an_ended_episode_pays_nothing():
    steps = rollout(jax.random.key(0), Counter(), remembering(1.0), 5, reset=False).transitions
    assert steps.live.tolist() == [1, 1, 1, 0, 0]
    assert steps.reward.tolist() == [10, 10, 10, 0, 0]
    assert steps.observation.tolist() == [0, 1, 2, 3, 3]


def test_a_batch_of_worlds_is_reset_too():
    """FourRooms with pixels that remain, eight at a time, over several horizons."""
    room = make("four-rooms-7", horizon=4, threshold=None, observation="one-hot+remaining", slip=0.2)
    policy = Policy(lambda params, carry, seen, key: (jax.random.randint(key, (), 0, 5), carry, None))
    run = jax.jit(jax.vmap(lambda key: rollout(key, room, policy, 12).transitions))
    steps = run(jax.random.split(jax.random.key(0), 8))
    assert steps.observation.view.shape == (8, 12, room.n_states)
    assert steps.truncated.tolist() == [[(t + 1) % 4 == 0 for t in range(12)]] * 8
    fresh = np.asarray(steps.observation.remaining)[:, ::4]
    np.testing.assert_allclose(fresh, np.broadcast_to(room.rewards, fresh.shape))
    last, following = steps.next_observation.view[:, 3], steps.observation.view[:, 4]
    assert not np.array_equal(last, following)


def test_policies_see_what_they_ask_for():
    """A policy that asks for an observation gets it, whatever the world shows by itself."""
    room = world(observation="one-hot")

    def act(params, carry, seen, key):
        return jnp.asarray(STAY), carry, None

    seen = []
    policy = Policy(lambda *arguments: seen.append(arguments[2]) or act(*arguments), observation="index+remaining")
    play(jax.random.key(0), room, policy)
    assert seen[0].view.shape == ()
    assert seen[0].remaining.shape == (2,)
