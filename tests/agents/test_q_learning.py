import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import policy_iteration
from wane.agents.common.rollout import Transition, play
from wane.agents.q_learning import Config, State, init, policy, td_error, train, update
from wane.worlds import World, make

KEY = jax.random.key(0)
LINE = World("#####\n#a.b#\n#####", sites="ab", rewards=[1.0, 2.0], n_actions=4, discount=0.9)


def test_the_error_by_hand():
    ahead = jnp.array([3.0, 1.0])
    np.testing.assert_allclose(td_error(2.0, 1.0, ahead, False, 0.9), 1 + 0.9 * 3 - 2)
    np.testing.assert_allclose(td_error(2.0, 1.0, ahead, True, 0.9), 1 - 2)


@pytest.mark.parametrize(("live", "step"), [(1.0, 0.1 * (1 + 0.9 * 4 - 2)), (0.0, 0.0)])
def test_one_update_by_hand(live, step):
    q = np.full((3, 4), 2.0)
    q[1, 2] = 4.0
    after = update(State(jnp.asarray(q)), Transition(0, 1, 1.0, 1, False, False, live), LINE, Config())[0].q
    q[0, 1] += step
    np.testing.assert_allclose(after, q)


def test_optimal_values_stay():
    """With rewards that do not wear off, walls that cost and slips, the exact optimum is the fixed point."""
    world = make(
        "corridor", depletion=wane.Geometric(1.0), slip=0.3, wall_penalty=0.4, rewards=[1.0, 1.3], discount=0.9
    )
    best = policy_iteration.train(KEY, world, policy_iteration.Config(timing="arrival"))[0].policy
    q = policy_iteration.q_values(best, world, policy_iteration.Config(timing="arrival"))
    state, config = State(jnp.asarray(q)), Config(step_size=1.0)
    bumps, moves = world.map.bumps(5), world.map.next_states(5)
    site = dict(zip(world.sites.tolist(), world.rewards, strict=True))
    expected = np.zeros_like(q)
    learned = jax.jit(lambda t: update(state, t, world, config)[0].q)
    near = world.map.neighbours().toarray()
    for s in range(world.n_states):
        for a in range(5):
            aimed = (0.7, moves[s, a], 0.4 * bumps[s, a])
            strayed = [(0.3 * near[s, t], t, 0.0) for t in np.flatnonzero(near[s])]
            for chance, s_next, cost in [aimed, *strayed]:
                t = Transition(s, a, site.get(int(s_next), 0.0) - cost, int(s_next), False, False, 1.0)
                expected[s, a] += chance * learned(t)[s, a]
    np.testing.assert_allclose(expected, q, atol=1e-9)


def test_where_nothing_wears_off_it_becomes_optimal_in_parts_as_at_once():
    world = make("corridor", length=5, depletion=wane.Geometric(1.0), rewards=[1.0, 1.5], horizon=20, discount=0.9)
    config = Config(epsilon=0.5, episodes=300, evaluate_every=100)
    part = jax.jit(lambda state, first: train(KEY, world, config, state, first, episodes=100))
    state, greedy = init(KEY, world, config), []
    for first in (0, 100, 200):
        state, info = part(state, first)
        greedy.append(info.greedy)
    whole, info = jax.jit(lambda: train(KEY, world, config))()
    np.testing.assert_array_equal(whole.q, state.q)
    np.testing.assert_array_equal(info.greedy, np.concatenate(greedy))
    problem = dict(discount=0.9, sites=world.sites, horizon=20, timing="arrival")
    best = wane.optimum(world.mdp, world.rewards, world.depletion, **problem).values @ world.start
    np.testing.assert_allclose(info.greedy[-1], best, atol=1e-6)
    episode = jax.jit(lambda state: play(KEY, world, policy(state, world, config))[1])(state)
    assert episode.cells.tolist() == [2, 3, *[4] * 19]


def test_refusals():
    with pytest.raises(ValueError, match="epsilon = .*: a probability between 0 and 1 is needed"):
        Config(epsilon=1.5)
    with pytest.raises(ValueError, match="evaluate_every = 0: a whole number between 1 and 1,000,000 is needed"):
        Config(evaluate_every=0)
