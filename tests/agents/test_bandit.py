"""The exponentially weighted forecaster: updates worked out by hand, and a problem whose best arm is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane.agents import bandit
from wane.agents.bandit import Config

E = np.e


def test_first_feedback_changes_nothing():
    """One feedback is its own mean, and its deviation counts as 1."""
    after = bandit.record(bandit.init(3), 2, 7.0, Config())
    np.testing.assert_array_equal(after.weights, [0, 0, 0])
    np.testing.assert_array_equal(after.feedbacks, [7, 0, 0, 0, 0])
    assert (int(after.episodes), float(after.last), float(after.mean)) == (1, 7, 7)


def test_three_updates_by_hand():
    """Returns 4, 6 and 3: feedbacks 4, 2 and −3."""
    state = bandit.record(bandit.init(3), 0, 4.0, Config())
    state = bandit.record(state, 1, 6.0, Config())
    # Feedbacks 4 and 2 have the mean 3 and the deviation 1, so 2 becomes −1; exp(0) = 1.
    np.testing.assert_allclose(state.weights, [0, -0.1, 0], atol=1e-12)
    state = bandit.record(state, 1, 3.0, Config())
    # 4, 2 and −3 have the mean 1 and the variance (9 + 1 + 16) / 3. The decayed weight is −0.09.
    standardised = -4 / np.sqrt(26 / 3)
    np.testing.assert_allclose(state.weights, [0, -0.09 + 0.1 * standardised / np.exp(-0.09), 0], atol=1e-12)
    assert float(state.mean) == pytest.approx(13 / 3)


def test_compared_with_the_average():
    """Returns 4, 6 and 3: feedbacks 4, 6 − 4 and 3 − 5."""
    state, config = bandit.init(2), Config(averaging=True)
    for earned in (4.0, 6.0, 3.0):
        state = bandit.record(state, 0, earned, config)
    np.testing.assert_allclose(state.feedbacks, [4, 2, -2, 0, 0], atol=1e-12)


def test_only_the_last_five_feedbacks_count():
    state = bandit.init(2)
    for earned in (1000.0, 1001, 1003, 1006, 1010, 1015):
        state = bandit.record(state, 0, earned, Config())
    np.testing.assert_allclose(state.feedbacks, [5, 1, 2, 3, 4])
    newest = bandit.standardise(state.feedbacks, state.episodes, 5.0)
    assert float(newest) == pytest.approx((5 - 3) / np.sqrt(2))


def test_equal_feedbacks_do_not_divide_by_zero():
    feedbacks = jnp.array([3.0, 3.0, 0, 0, 0])
    assert float(bandit.standardise(feedbacks, 2, 3.0)) == 0


def test_a_very_rare_arm_is_divided_by_the_least_number():
    assert float(bandit.reweight(-20.0, 1.0, 0.1, 1.0)) == pytest.approx(-20 + 0.1 / 1e-4)
    assert float(bandit.reweight(1.0, 2.0, 0.1, 0.5)) == pytest.approx(0.5 + 0.2 / np.exp(0.5))


@pytest.mark.parametrize(("uniform", "arm"), [(0.0, 0), (0.2, 0), (0.22, 1), (0.78, 1), (0.8, 2), (0.999, 2)])
def test_arms_are_drawn_by_their_probabilities(uniform, arm):
    state = bandit.init(3)._replace(weights=jnp.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(bandit.probabilities(state), np.array([1, E, 1]) / (E + 2))
    assert int(bandit.sample(state, uniform)) == arm


@pytest.mark.parametrize(("averaging", "kept"), [(False, 1.0), (False, 0.0), (True, 0.0)])
def test_the_best_arm_wins(averaging, kept):
    """Sixteen bandits for 400 episodes. An episode earns what its arm gives, and keeps a share of the last return."""

    def one(key, gains):
        def episode(now, key):
            state, earned = now
            arm_key, noise_key = jax.random.split(key)
            arm = bandit.sample(state, jax.random.uniform(arm_key))
            earned = kept * earned + gains[arm] + 0.1 * jax.random.normal(noise_key)
            return (bandit.record(state, arm, earned, Config(averaging=averaging)), earned), arm

        keys = jax.random.split(key, 400)
        (state, _), arms = jax.lax.scan(episode, (bandit.init(3), jnp.zeros(())), keys)
        return bandit.probabilities(state), arms

    keys, gains = jax.random.split(jax.random.key(0), 16), jnp.array([-1.0, 0.0, 1.0])
    probabilities, arms = jax.jit(jax.vmap(one, (0, None)))(keys, gains)
    late = np.asarray(arms)[:, 200:]
    assert np.mean(late == 2, axis=1).min() > 0.9
    np.testing.assert_allclose(np.asarray(probabilities).sum(1), 1, atol=1e-12)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="decay = 2: a share between 0 and 1 is needed"):
        Config(decay=2)
