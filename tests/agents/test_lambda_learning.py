import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from wane.agents.common import replay
from wane.agents.forward_backward import lambda_learning
from wane.agents.forward_backward import training as fb
from wane.agents.forward_backward.lambda_learning import Step
from wane.agents.forward_backward.model import Config, Schedule
from wane.depletion import Geometric
from wane.worlds import make

KEY = jax.random.key(0)
STEPS = Step(*map(jnp.array, ([0, 0, 1, 1], [0, 1, 1, 1], [4.0, 1.0, 2.0, 1.0], [1.0, 2.0, 1.0, 1.0])))
"""stays: (4 → 1) in state 0, (2 → 1) and (1 → 1) in state 1"""


@partial(jax.jit, static_argnames="slip")
def walk(noise=0.0, lam=(0.5, 0.5), slip=0.0):
    """What a random walker reads in a corridor with a reward at each end."""
    world = make("corridor", length=5, depletion=Geometric(jnp.array(lam)), slip=slip)
    config = Config(horizon=30, noise=noise)
    return jax.tree_util.tree_map(jnp.ravel, fb.collect(KEY, None, world, config, 3000))


def test_loss_by_hand():
    # at λ = ½ the errors of the stays are −1, 0, ½ (and the move counts as none): ½ · 1.25 / 4
    assert lambda_learning.loss(jnp.asarray(0.5), STEPS) == 0.15625
    # state 0: 1 − 4 · ¼ = 0; state 1: 1 − 2 = −1 and 0
    assert lambda_learning.loss(jnp.array([0.25, 1.0]), STEPS) == 0.125


def test_estimates_by_hand():
    assert lambda_learning.estimate(STEPS) == pytest.approx((4 + 2 + 1) / (16 + 4 + 1))
    assert lambda_learning.estimate(STEPS, "ratio") == pytest.approx(3 / 7)
    assert lambda_learning.estimate(STEPS, "earlier") == pytest.approx(2 / 2)  # only the last stay follows one
    assert lambda_learning.estimate(STEPS, jnp.array([1.0, 9.0, 2.0, 0.0])) == pytest.approx(3 / 8)
    with pytest.raises(ValueError, match="'most'"):
        lambda_learning.estimate(STEPS, "most")


def test_least_squares_is_where_the_loss_is_least():
    assert jax.grad(lambda_learning.loss)(lambda_learning.estimate(STEPS), STEPS) == pytest.approx(0, abs=1e-12)


def test_nothing_stayed_in_is_not_a_number():
    moved = STEPS._replace(next_cell=STEPS.cell + 1)
    assert np.isnan(lambda_learning.estimate(moved))


@pytest.mark.parametrize("slip", [0.0, 0.5])
@pytest.mark.parametrize("weights", ["least squares", "ratio", "earlier"])
def test_slipping_leaves_the_estimate_exact(slip, weights):
    assert lambda_learning.estimate(walk(slip=slip), weights) == pytest.approx(0.5, abs=1e-12)


def test_noise_biases_least_squares_by_the_known_factor_and_not_the_others():
    noise = 0.3
    clean, noisy = walk(), walk(noise)
    stays = np.asarray(clean.cell == clean.next_cell)
    power = np.mean(np.asarray(clean.reward)[stays] ** 2)
    assert 0.5 * power / (power + noise**2) < 0.4
    assert lambda_learning.estimate(noisy) == pytest.approx(0.5 * power / (power + noise**2), abs=0.02)
    assert lambda_learning.estimate(noisy, "ratio") == pytest.approx(0.5, abs=0.06)
    ends = jnp.isin(noisy.cell, jnp.array([0, 4])).astype(float)
    assert lambda_learning.estimate(noisy, ends) == pytest.approx(0.5, abs=0.04)


def test_where_rewards_last_an_earlier_reading_is_the_better_weight():
    noisy = walk(0.3, (0.9, 0.9))
    assert lambda_learning.estimate(noisy) < 0.8
    assert lambda_learning.estimate(noisy, "earlier") == pytest.approx(0.9, abs=0.02)


def test_adam_gets_there():
    steps, adam = walk(), optax.adam(0.02)

    def step(carry, _):
        return lambda_learning.update(*carry, steps, adam), None

    first = jnp.asarray(1.0)
    (lam, _), _ = jax.lax.scan(step, (first, adam.init(first)), None, length=200)
    assert lam == pytest.approx(0.5, abs=1e-3)


def test_lam_stays_between_zero_and_one():
    adam = optax.sgd(100.0)
    lam, _ = lambda_learning.update(jnp.asarray(0.9), adam.init(jnp.asarray(0.9)), STEPS, adam)
    assert lam == 0


def test_lam_is_learned_beside_the_representation():
    world = make("corridor", length=5, depletion=Geometric(0.3))
    schedule = Schedule(batches=1000)
    config = Config(
        lam=1.0, learn_lam=True, goals=1, dimension=4, width=8, depth=1, learning_rate=5e-3, schedule=schedule
    )

    @jax.jit
    def learn(lam):
        state = fb.init(KEY, world, dataclasses.replace(config, lam=lam))
        steps = fb.collect(KEY, state.params, world, config, 100)
        return fb.cycle(KEY, state._replace(replay=replay.add(state.replay, steps)), world, config)[0].lam

    assert learn(1.0) == pytest.approx(0.3, abs=0.02)
    np.testing.assert_allclose(learn(jnp.ones(5)), 0.3, atol=0.05)
