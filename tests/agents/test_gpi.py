import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import policy_iteration
from wane.agents.common.policy import compose
from wane.agents.gpi import discounted_returns, greedy_action, play_composed, q_values, representations
from wane.worlds import make

KEY = jax.random.key(0)
ROOMS = make("four-rooms", threshold=None)
RETURNS = {0.0: 22.335, 0.25: 24.988, 0.5: 25.922, 0.75: 25.987, 1.0: 20.907}
"""mean return over all 68 starts by λ̂, λ = ½"""


def all_representations(world, **settings):
    return np.stack([representations(world, depletion=wane.Geometric(lam), **settings) for lam in RETURNS])


def means(world, phis, **settings):
    """The mean return over all starts for each of several representations."""
    run = jax.jit(jax.vmap(lambda phi: discounted_returns(KEY, world, phi, **settings).mean()))
    return np.asarray(run(jnp.asarray(phis)))


def test_composing_compares_all_actions_or_the_policies_own():
    q = jnp.array([[1.0, 5.0, 2.0], [3.0, 0.0, 4.0]])
    assert compose(q) == 1
    assert compose(q, jnp.array([0, 2])) == 2  # 1 against 4: the second policy is followed.
    assert compose(q, jnp.array([1, 2])) == 1


def test_following_the_best_policy_takes_the_policies_actions_only():
    phi = representations(ROOMS)
    episode = play_composed(KEY, ROOMS, phi, 30, policies=ROOMS.policies)
    cells, live = np.asarray(episode.cells)[:-1], np.asarray(episode.live) > 0
    assert (np.stack(ROOMS.policies)[:, cells] == np.asarray(episode.actions)).any(0)[live].all()
    certain = [np.eye(ROOMS.n_actions)[policy] for policy in ROOMS.policies]
    assert play_composed(KEY, ROOMS, phi, 30, policies=certain).value == episode.value
    with pytest.raises(ValueError, match="policy 0 draws its actions at random"):
        play_composed(KEY, ROOMS, phi, 30, policies=[np.full((ROOMS.n_states, ROOMS.n_actions), 0.2)])


@pytest.fixture
def single_precision():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("threshold", [None, 0.1])
def test_the_known_numbers(threshold):
    """To three decimals. Ending episodes when little is left changes none of them."""
    world = dataclasses.replace(ROOMS, threshold=threshold)
    np.testing.assert_allclose(means(world, all_representations(world)), list(RETURNS.values()), atol=5e-4)


@pytest.mark.usefixtures("single_precision")
def test_single_precision_plays_the_same_episodes():
    found = means(ROOMS, all_representations(ROOMS))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, list(RETURNS.values()), atol=5e-4)


def test_the_known_numbers_of_one_start():
    """From cell 69, (6, 3): λ̂ = 0, ½, 1."""
    run = jax.jit(jax.vmap(lambda phi: discounted_returns(KEY, ROOMS, phi, [ROOMS.map.state(6, 3)])[0]))
    np.testing.assert_allclose(run(all_representations(ROOMS)[::2]), [23.28, 26.88, 19.39], atol=5e-3)


def test_timing_is_a_choice():
    """Consistent with pay on arrival, λ̂ = 0 does far better than the paper's way; λ̂ = 1 does the same."""
    found = means(ROOMS, all_representations(ROOMS, timing="arrival"))
    np.testing.assert_allclose(found[[0, -1]], [24.828, 20.907], atol=5e-4)
    ended = dataclasses.replace(ROOMS, threshold=0.1)
    np.testing.assert_allclose(means(ended, all_representations(ended, timing="arrival"))[0], 24.820, atol=5e-4)


def test_memory_is_worth_a_lot():
    """Without refreshing what is left, the agent stays where it once was good to be."""
    forgetful = means(ROOMS, all_representations(ROOMS), refresh=False)
    assert np.all(forgetful < np.array(list(RETURNS.values())) - 4)


def by_hand(world, phis, start, lam):
    """GPI in plain Python, slips left out."""
    moves, bumps = world.map.next_states(5), world.map.bumps(5)
    s, left, total = start, dict(zip(world.sites.tolist(), world.rewards, strict=True)), 0.0
    for t in range(1, world.horizon + 1):
        rewards = np.array(list(left.values()))
        q = [max(phi[s, a] @ rewards for phi in phis) for a in range(5)]
        a = next(a for a in range(5) if q[a] >= max(q) - 1e-5 * abs(max(q)))
        total -= world.discount**t * world.wall_penalty * bumps[s, a]
        s = int(moves[s, a])
        if s in left:
            total += world.discount**t * left[s]
            left[s] *= lam
        if world.threshold and max(left.values()) < world.threshold:
            break
    return total


@pytest.mark.parametrize("threshold", [None, 1.0])
def test_beside_plain_python(threshold):
    """With a believed depletion of another kind, policies that bump, and walls that cost."""
    world = make("four-rooms-7", threshold=threshold, horizon=25, n_actions=5)
    bumping = np.random.default_rng(0).integers(0, 4, (3, world.n_states))
    phis = representations(world, [*world.policies, *bumping], wane.Hyperbolic(2.0))
    assert phis.shape == (7, world.n_states, 5, 3)
    found = jax.jit(lambda phi: discounted_returns(KEY, world, phi))(phis)
    expected = [by_hand(world, phis, start, 0.5) for start in range(world.n_states)]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_toy():
    """The paper's 10 against 6 + 5.94 = 11.94 in the first two steps."""
    world = make("toy")
    weights = np.array([1.0, 0.99])
    run = jax.jit(lambda phi: play_composed(KEY, world, phi))
    believed = [wane.Geometric(1.0), world.depletion]
    first, second = (run(representations(world, depletion=depletion)).rewards[:2] for depletion in believed)
    np.testing.assert_allclose([weights @ first, weights @ second], [10, 11.94])


def test_the_steps_by_hand():
    phi_s = jnp.array([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [3.0, 0.0]]])
    left = jnp.array([1.0, 2.0])
    assert q_values(phi_s, left).tolist() == [[1.0, 4.0], [2.0, 3.0]]
    assert int(greedy_action(phi_s, left)) == 1
    assert int(greedy_action(phi_s[1:], jnp.array([0.1, 1.0]))) == 0


def test_representations_are_the_exact_ones():
    world = make("four-rooms-7", slip=0.2)
    policies = [np.full((world.n_states, 5), 0.2), world.policies[0]]
    for depletion in (world.depletion, wane.FirstVisits(2), wane.EligibilityTrace(0.5, 0.6)):
        phis = representations(world, policies, depletion)
        arriving = representations(world, policies, depletion, timing="arrival")
        for phi, after, policy in zip(phis, arriving, policies, strict=True):
            exact = wane.representation(world.mdp.under(policy), depletion, discount=world.discount, sites=world.sites)
            np.testing.assert_allclose(phi, exact.action_matrix(world.mdp))
            np.testing.assert_allclose(after, world.mdp.backup(exact.matrix))
    np.testing.assert_array_equal(representations(world), representations(world, world.policies, world.depletion))


def test_slips():
    """Where nothing wears off and the one policy is optimal, GPI is that policy: its returns average to the exact ones.

    Starts are drawn, and the same start fares differently under different slips.
    """
    world = make("corridor", depletion=wane.Geometric(1.0), slip=0.3, rewards=[1.0, 1.4], discount=0.8, horizon=60)
    policy = policy_iteration.train(KEY, world, policy_iteration.Config(timing="arrival"))[0].policy
    phi = representations(world, [policy], timing="arrival")
    starts = jax.random.randint(jax.random.key(3), (3000,), 0, world.n_states)
    found = np.asarray(jax.jit(lambda phi: discounted_returns(KEY, world, phi, starts))(phi))
    error = found - world.values(policy)[np.asarray(starts)]
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(error)) + 1e-4
    assert len(np.unique(found[np.asarray(starts) == 4].round(6))) > 10


def test_refusals():
    with pytest.raises(ValueError, match="no policy to compose"):
        representations(make("corridor"))
    with pytest.raises(ValueError, match="timing is"):
        representations(ROOMS, timing="late")
