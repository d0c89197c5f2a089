import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents.episode import discounts, epsilon_greedy, first_best, play
from wane.worlds import World, make

CORRIDOR = "######\n#a..b#\n######"
RIGHT, STAY = 1, 4


def world(**settings):
    defaults = dict(sites="ab", rewards=[1.0, 2.0], start="a", discount=0.9, horizon=6, wall_penalty=0.5)
    return World(CORRIDOR, **(defaults | settings))


def episode_of(room, action, start=None):
    """An episode of doing the same all the time."""
    return jax.jit(lambda key: play(key, room, lambda *seen: action, start=start)[1])(jax.random.key(0))


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

    def learn(count, transition, draws):
        return count + transition.live

    run = jax.jit(lambda key: play(key, room, lambda *seen: STAY, jnp.zeros(()), learn))
    count, episode = run(jax.random.key(0))
    assert float(count) == 2
    assert episode.live.tolist() == [1, 1, 0, 0, 0, 0]
    assert episode.rewards.tolist() == [1.0, 0.5, 0, 0, 0, 0]
    assert episode.remaining.ravel().tolist() == [1, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25]
    assert episode_of(dataclasses.replace(room, threshold=None), STAY).live.tolist() == [1] * 6


def test_starts():
    room = world(start=[0.0, 0.5, 0.5, 0.0])
    assert int(episode_of(room, STAY, start="b").cells[0]) == 3
    first = jax.jit(jax.vmap(lambda key: play(key, room, lambda *seen: STAY)[1].cells[0]))
    starts = first(jax.random.split(jax.random.key(0), 200))
    assert np.unique(starts).tolist() == [1, 2]
    assert abs(float(starts.mean()) - 1.5) < 0.2


@pytest.mark.parametrize("slip", [0.0, 0.4])
def test_the_mean_return_is_the_exact_value(slip):
    room = make("corridor", slip=slip, discount=0.8, horizon=60, depletion=wane.Hyperbolic(1.0))
    chances = np.random.default_rng(0).dirichlet(np.ones(5), room.n_states)
    cumulative = jnp.cumsum(jnp.asarray(chances), axis=1)

    def act(learner, cell, left, draws):
        return jnp.sum(draws[0] >= cumulative[cell, :-1])

    keys = jax.random.split(jax.random.key(1), 4000)
    values = np.asarray(jax.jit(jax.vmap(lambda key: play(key, room, act, draws=1)[1].value))(keys))
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
