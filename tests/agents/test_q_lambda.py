import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import policy_iteration, q_lambda
from wane.agents.common.rollout import Transition, play
from wane.agents.q_lambda import Config, State, greedy_action, init, policy, q_values, td_error, train, update
from wane.worlds import World, make
from wane.worlds.observe import Seen

KEY = jax.random.key(0)


def step(cell, action, next_cell, remaining, live=1.0):
    remaining = jnp.asarray(remaining)
    return Transition(Seen(cell, remaining), action, 0.0, Seen(next_cell, remaining), False, False, live)


def test_the_lines_of_algorithm_1_by_hand():
    phi_s = jnp.array([[1.0, 2.0], [3.0, 0.0]])
    assert q_values(phi_s, jnp.array([2.0, 1.0])).tolist() == [4.0, 6.0]
    assert int(greedy_action(phi_s, jnp.array([2.0, 1.0]))) == 1
    assert int(greedy_action(phi_s, jnp.array([1.0, 1.0]))) == 0
    phi_t, phi_next, visited = jnp.array([1.0, 1.0]), jnp.array([2.0, 3.0]), jnp.array([1.0, 0.0])
    np.testing.assert_allclose(td_error(phi_t, phi_next, visited, 0.5, 0.9), [1 + 0.9 * 0.5 * 2 - 1, 0.9 * 3 - 1])
    each = td_error(phi_t, phi_next, visited, jnp.array([0.25, 1.0]), 0.9)
    np.testing.assert_allclose(each, [0.9 * 0.25 * 2, 0.9 * 3 - 1])


def test_one_update_by_hand():
    """a.b: from a (state 0) to the middle, where the second action is the better one for what is left."""
    world = World("#####\n#a.b#\n#####", sites="ab", rewards=[1.0, 2.0], n_actions=4, discount=0.9)
    phi = np.zeros((3, 4, 2))
    phi[0, 1], phi[1, 0], phi[1, 1] = [1.0, 1.0], [1.0, 0.0], [0.0, 2.0]
    after = update(State(jnp.asarray(phi)), step(0, 1, 1, [1.0, 2.0]), world, Config(step_size=0.1))[0].phi
    expected = phi.copy()
    expected[0, 1] = [1 + 0.1 * (1 + 0 - 1), 1 + 0.1 * (0.9 * 2 - 1)]
    np.testing.assert_allclose(after, expected)
    frozen = update(State(jnp.asarray(phi)), step(0, 1, 1, [1.0, 2.0], live=0.0), world, Config())[0].phi
    np.testing.assert_array_equal(frozen, phi)


def first_of_the_best(q):
    return int(np.argmax(q >= q.max() - 1e-5 * abs(q.max())))


def algorithm_box(world, lam, numbers):
    """Algorithm 1 as printed, in NumPy: a column for every state, Q of the whole table."""
    n, rewards = world.n_states, np.zeros(world.n_states)
    rewards[world.sites] = world.rewards
    moves, phi, eye = world.map.next_states(world.n_actions), np.full((n, world.n_actions, n), 0.2), np.eye(n)
    for episode in numbers:
        s, r = int(world.start.argmax()), rewards.copy()
        for explore, which in episode:
            a = int(which * world.n_actions) if explore < 0.2 else first_of_the_best((phi @ r)[s])
            s_next = moves[s, a]
            r[s_next] *= 0.5
            ahead = phi[s_next, first_of_the_best((phi @ r)[s_next])]
            delta = eye[s] * (1 + world.discount * lam * ahead) + world.discount * (1 - eye[s]) * ahead - phi[s, a]
            phi[s, a] += 0.1 * delta
            s = s_next
    return phi


def test_the_columns_of_the_sites_are_the_papers():
    """For λ = 0, ½, 1 and for one at each site, all in one batch."""
    world = make("two-rooms-7", horizon=40)
    lams = np.array([[0.0] * 3, [0.5] * 3, [1.0] * 3, [0.0, 0.5, 1.0]])

    def numbers(e):
        play_key = jax.random.split(jax.random.fold_in(KEY, e))[0]
        return jax.random.uniform(jax.random.split(play_key, 3)[1], (world.horizon, 2))

    draws = np.asarray(jax.jit(jax.vmap(numbers))(jnp.arange(40)))
    states, _ = jax.jit(jax.vmap(lambda lam: train(KEY, world, Config(lam=lam, episodes=40))))(lams)
    for lam, phi in zip(lams, states.phi, strict=True):
        of_states = np.full(world.n_states, 0.5)
        of_states[world.sites] = lam
        np.testing.assert_allclose(phi, algorithm_box(world, of_states, draws)[..., world.sites], atol=1e-10)


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_an_optimal_representation_stays(slip):
    """With λ = 1 throughout, the exact Φ of an optimal policy is a fixed point of the expected update."""
    world = make("corridor", depletion=wane.Geometric(1.0), slip=slip, rewards=[1.0, 1.3])
    best = policy_iteration.train(KEY, world, policy_iteration.Config())[0].policy
    mdp = world.mdp
    phi = wane.successor_representation(mdp.under(best), discount=world.discount, sites=world.sites)
    state = State(jnp.asarray(phi.action_matrix(mdp)))
    q = np.asarray(state.phi) @ world.rewards
    np.testing.assert_allclose(q[np.arange(world.n_states), best], q.max(1), rtol=1e-12)
    config = Config(lam=1.0, step_size=1.0)
    chance = np.stack([mdp.action(a).toarray() for a in range(5)], axis=1)
    cell, action, next_cell = np.nonzero(chance)

    @jax.jit
    @jax.vmap
    def changes(s, a, s1):
        return update(state, step(s, a, s1, world.rewards), world, config)[0].phi - state.phi

    change = np.tensordot(chance[cell, action, next_cell], changes(cell, action, next_cell), 1)
    np.testing.assert_allclose(change, 0, atol=1e-12)


def test_where_nothing_wears_off_it_becomes_optimal():
    world = make("corridor", length=5, depletion=wane.Geometric(1.0), rewards=[1.0, 1.5], horizon=20, discount=0.9)
    config = Config(lam=1.0, epsilon=0.5, episodes=300, evaluate_every=300)
    _, info = jax.jit(jax.vmap(lambda key: train(key, world, config)))(jax.random.split(KEY, 3))
    problem = dict(discount=0.9, sites=world.sites, horizon=20, timing="arrival")
    best = wane.optimum(world.mdp, world.rewards, world.depletion, **problem).values @ world.start
    np.testing.assert_allclose(info.greedy[:, -1], best, atol=1e-6)


def test_the_right_lambda_earns_the_most():
    """The paper's claim, on TwoRooms; the optimum over states and visits is 11.362. λ may be of another precision."""
    world, lams = make("two-rooms"), jnp.repeat(jnp.array([0.0, 0.5, 1.0], jnp.float32), 8)
    keys = jnp.tile(jax.random.split(KEY, 8), 3)
    _, info = jax.jit(jax.vmap(lambda key, lam: train(key, world, Config(lam=lam))))(keys, lams)
    assert np.array_equal(info.evaluated_after, np.broadcast_to(np.arange(20, 501, 20), (24, 25)))
    tested = np.asarray(info.greedy).reshape(3, 8, 25)
    assert np.isfinite(tested).all(), "there is an entry for each evaluation, and no other"
    late = tested[:, :, 20:].mean((1, 2))
    assert late[1] > late[0]
    assert late[1] > late[2]
    assert late[1] > 10.5
    assert tested.max() <= 11.3625


def test_in_parts_as_at_once():
    world, config = make("two-rooms-7", horizon=30), Config(episodes=25, evaluate_every=10)
    whole = jax.jit(lambda: train(KEY, world, config))()
    part = jax.jit(lambda state, first: train(KEY, world, config, state, first, episodes=5))
    state, infos = init(KEY, world, config), []
    for first in range(0, 25, 5):
        state, info = part(state, first)
        infos.append(info)
    np.testing.assert_array_equal(state.phi, whole[0].phi)
    np.testing.assert_array_equal(np.concatenate([info.returns for info in infos]), whole[1].returns)
    greedy, after = (np.concatenate([info[i] for info in infos]) for i in (2, 1))
    assert np.isfinite(greedy).tolist() == [False, True, False, True, False]
    np.testing.assert_array_equal(greedy[np.isfinite(greedy)], whole[1].greedy)
    np.testing.assert_array_equal(after[np.isfinite(greedy)], whole[1].evaluated_after)
    assert whole[1].evaluated_after.tolist() == [10, 20]
    assert train(KEY, world, config, state, first=8, episodes=13)[1].evaluated_after.tolist() == [10, 20]


@pytest.mark.parametrize("depletion", [wane.TimeElapsed(0.5, 0.1), wane.EligibilityTrace(0.5, 0.9)], ids=repr)
def test_any_depletion_and_what_a_film_needs(depletion):
    world = make("two-rooms-7", depletion=depletion, horizon=30)
    config = Config(episodes=200)

    @jax.jit
    def run():
        state, info = train(KEY, world, config)
        return play(KEY, world, policy(state, world, config))[1], info

    episode, info = run()
    assert episode.cells.shape == (31,)
    assert episode.remaining.shape == (31, 3)
    np.testing.assert_allclose(episode.value, world.discount ** np.arange(1, 31) @ episode.rewards)
    assert float(episode.value) > 5
    sites = [world.sites.tolist().index(cell) if cell in world.sites else None for cell in episode.cells[1:].tolist()]
    paid = [0.0 if k is None else float(remaining[k]) for k, remaining in zip(sites, episode.remaining, strict=False)]
    np.testing.assert_allclose(episode.rewards, paid)
    assert float(info.greedy[-1]) == pytest.approx(float(episode.value))


def test_an_ended_episode_teaches_nothing():
    """A single site that halves from 1, over below 0.3: two of the six steps teach, by hand."""
    world = World("###\n#a#\n###", sites="a", rewards=[1.0], threshold=0.3, horizon=6, discount=0.9)
    config = Config(optimism=0.0, epsilon=0.0, episodes=1)
    phi = jax.jit(lambda: train(KEY, world, config)[0].phi[0, :, 0])()
    once = 0.1
    np.testing.assert_allclose(phi, [once + 0.1 * (1 + 0.45 * once - once), 0, 0, 0, 0])


def test_discount_is_the_worlds_unless_given():
    world = World("#####\n#a.b#\n#####", sites="ab", rewards=[1.0, 2.0], n_actions=4, discount=0.5)
    state, move = State(jnp.ones((3, 4, 2))), step(1, 1, 2, [1.0, 2.0])
    np.testing.assert_allclose(update(state, move, world, Config())[0].phi[1, 1], 1 + 0.1 * (0.5 - 1))
    np.testing.assert_allclose(update(state, move, world, Config(discount=0.9))[0].phi[1, 1], 1 + 0.1 * (0.9 - 1))


def test_refusals():
    with pytest.raises(ValueError, match="lam = 1.5: a λ between 0 and 1 is needed"):
        Config(lam=1.5)
    with pytest.raises(ValueError, match="epsilon = .*: a probability between 0 and 1 is needed"):
        Config(epsilon=-0.1)
    with pytest.raises(ValueError, match="step_size = .*: a weight between 0 and 1 is needed"):
        Config(step_size=2.0)
    with pytest.raises(ValueError, match="for 3 sites"):
        q_lambda.train(KEY, make("two-rooms-7"), Config(lam=[0.5, 0.5]))
