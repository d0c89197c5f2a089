"""Laplacian features and λ-features: data sets, equations by hand, the exact λF as the truth, pixels, and refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane.agents import lambda_features, laplacian
from wane.agents.common.networks import make_convolutional_network
from wane.agents.common.rollout import play
from wane.agents.common.views import Stacks, Vision, collect, follow, grey, push
from wane.exact import eigenfunctions, principal_angles
from wane.exact import lambda_features as exact_lambda_features
from wane.worlds import FirstPerson, make

KEY = jax.random.key(0)
ROOMS = make("four-rooms-7", horizon=12)
STATES = Vision("index")
PIXELS = Vision("first-person:12:unfading", frames=2)
SMALL = laplacian.Config(vision=PIXELS, features=3, channels=2, strides=(2, 2), hidden=(4,), epochs=1, horizon=4)
TABULAR = laplacian.Config(vision=STATES, features=6, hidden=(32,), learning_rate=3e-3, epochs=200, walk="uniform")


def test_a_convolution_is_what_jax_computes():
    network = make_convolutional_network(KEY, 9, 2, 3, (2, 1), (4,))
    x = jax.random.uniform(KEY, (5, 9, 9, 2))
    for layer in network.convolutions:
        layout = ("NHWC", "HWIO", "NHWC")
        expected = jax.lax.conv_general_dilated(x, layer.weight, (layer.stride,) * 2, "VALID", dimension_numbers=layout)
        np.testing.assert_allclose(layer(x), expected + layer.bias, atol=1e-12)
        x = layer(x)
    assert network(jnp.zeros((2, 3, 9, 9, 2), jnp.uint8)).shape == (2, 3, 4)


def test_pictures_that_are_too_small_are_refused():
    with pytest.raises(ValueError, match="pictures of 8 × 8 pixels are too small"):
        make_convolutional_network(KEY, 8, 1, 2, (2, 2, 2), (4,))


def test_trajectories_are_the_paper_s():
    """Every start and first action, then the policy."""
    tracks = follow(KEY, ROOMS, ROOMS.policies, 5)
    n, a = ROOMS.n_states, ROOMS.n_actions
    assert tracks.cells.shape == (len(ROOMS.policies), n * a, 5)
    np.testing.assert_array_equal(tracks.cells[0, :, 0], np.repeat(np.arange(n), a))
    np.testing.assert_array_equal(tracks.actions[0, :, 0], np.tile(np.arange(a), n))
    np.testing.assert_array_equal(tracks.actions[1, :, 1:], ROOMS.policies[1][tracks.cells[1, :, 1:]])
    np.testing.assert_array_equal(tracks.own_actions[1], ROOMS.policies[1][tracks.cells[1]])
    random = follow(KEY, ROOMS, ROOMS.policies, 5, epsilon=1.0)
    assert (random.actions[0, :, 1:] != random.own_actions[0, :, 1:]).mean() == pytest.approx(0.8, abs=0.1)


def test_a_data_set_keeps_everything_once_and_counts_it():
    data = collect(KEY, ROOMS, ROOMS.policies, 4, PIXELS)
    tracks = follow(KEY, ROOMS, ROOMS.policies, 4)
    steps = np.prod(tracks.cells.shape[1:]) - tracks.cells.shape[1]
    np.testing.assert_allclose(data.transitions.counts.sum(1), steps)
    assert data.n_steps == steps
    assert float(data.counts.sum()) == tracks.cells.size
    np.testing.assert_array_equal(np.asarray(data.cells)[np.asarray(data.seen)], tracks.cells)
    stacks = np.asarray(data.views.stacks)
    assert len(np.unique(stacks, axis=0)) == len(stacks) < tracks.cells.size
    frames = np.asarray(data.views.frames).reshape(len(data.views.frames), -1)
    assert not frames[0].any()
    assert (stacks[np.asarray(data.seen)[..., 0], 0] == 0).all()  # black before the start


def test_what_is_learned_from_is_what_is_seen_when_acting():
    data = collect(KEY, ROOMS, ROOMS.policies, 4, PIXELS)
    world = dataclasses.replace(ROOMS, observation=PIXELS.observation)
    number = 3 * ROOMS.n_actions + 1
    observation, state = world.begin(3)
    stack = jnp.zeros(PIXELS.shape(world), jnp.uint8)
    for t in range(4):
        stack = push(stack, observation)
        np.testing.assert_array_equal(stack, data.views[data.seen[2, number, t]])
        observation, state, *_ = world.step(None, state, data.actions[2, number, t])


def test_grey_is_the_usual_mixture():
    assert np.asarray(grey(jnp.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], jnp.uint8))).tolist() == [[76, 150, 29]]


def test_fading_views_differ():
    with_fading = collect(KEY, ROOMS, ROOMS.policies, 6, Vision("first-person:12", frames=2))
    without = collect(KEY, ROOMS, ROOMS.policies, 6, PIXELS)
    assert len(with_fading.views.frames) > len(without.views.frames)


def test_the_laplacian_loss_by_hand():
    """Two states: ‖φ − φ⁺‖² is 1 and 0, φ₁ᵀφ₂ = 2 (squared 4, in both orders), ‖φ‖² is 2 and 2."""
    phi, phi_next = jnp.array([[1.0, 1.0], [1.0, 1.0]]), jnp.array([[1.0, 0.0], [1.0, 1.0]])
    assert float(laplacian.loss(phi, phi_next)) == pytest.approx(0.5 + 4.0 - 4.0)


def test_base_features_lie_in_the_unit_interval_and_span_smooth_functions():
    world = make("grid-6x6")
    train = jax.jit(lambda key, data: laplacian.train(key, world, TABULAR, data=data))
    data = laplacian.collect_data(KEY, world, TABULAR)
    state, info = train(KEY, data)
    phi = np.asarray(laplacian.base_features(state.params, jnp.eye(world.n_states)))
    assert phi.min() == 0
    assert phi.max() == 1
    assert info.loss[-1] < info.loss[0]
    walk = world.mdp.under(np.full((world.n_states, 4), 0.25))
    exact = eigenfunctions(walk, 3).functions
    before = laplacian.base_features(laplacian.init(KEY, world, TABULAR).params, jnp.eye(world.n_states))
    learned, random = (principal_angles(each, exact)[-1] for each in (phi, np.asarray(before)))
    assert learned < 25
    assert learned < random


def test_training_in_chunks_gives_the_same():
    world, config = make("grid-6x6"), dataclasses.replace(TABULAR, epochs=2)
    data = laplacian.collect_data(KEY, world, config)
    whole, _ = laplacian.train(KEY, world, config, data=data)
    part, _ = laplacian.train(KEY, world, config, epochs=1, data=data)
    part, _ = laplacian.train(KEY, world, config, part, 1, 1, data)
    for one, other in zip(*map(jax.tree_util.tree_leaves, (whole, part)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_the_targets_by_hand():
    """One feature: φ(s) = ½, φ_θ(s', a') = 2, λ = ½, γ = 0.9 gives ½ (1 + 0.9) + 0.45 · 2 = 1.85."""
    network = lambda views: jnp.broadcast_to(jnp.array([7.0, 2.0]), (*views.shape[:-1], 2))  # noqa: E731
    y = lambda_features.targets(network, jnp.array([[0.5]]), jnp.zeros((1, 3)), jnp.array([1]), 0.5, 0.9, 2)
    assert float(y[0, 0]) == pytest.approx(1.85)


def test_the_losses_by_hand():
    """The error is (1, −2) with count 3: wᵀerror = −3 for w = (1, 2), so ½ · 3 · 9; all features: ½ · 3 · 5."""
    network = lambda views: jnp.zeros((*views.shape[:-1], 2))  # noqa: E731
    batch = lambda_features.Examples(jnp.zeros((1, 3)), jnp.array([0]), jnp.array([[1.0, -2.0]]), jnp.array([3.0]))
    weights = jnp.array([1.0, 2.0])
    product, vector = (lambda_features.projection(target, weights) for target in ("product", "vector"))
    assert float(lambda_features.loss(network, batch, product, 1)) == pytest.approx(13.5)
    assert float(lambda_features.loss(network, batch, vector, 1)) == pytest.approx(7.5)


def learned_table(config, world):
    state, _ = jax.jit(lambda key, data: lambda_features.train(key, world, config, data=data))(
        KEY, laplacian.collect_data(KEY, world, config.base)
    )
    network = jax.tree_util.tree_map(lambda leaf: leaf[0], state.params.networks)
    table = lambda_features.feature_table(network, jnp.eye(world.n_states), world.n_actions)
    return state.params, np.asarray(table)


@pytest.mark.parametrize("lam", [0.5, 1.0])
def test_fitted_iteration_finds_the_exact_features(lam):
    """A corridor of 3: after 12 iterations of 500 epochs the mean squared error is below 0.01; the features reach 3."""
    world = make("corridor", length=3, horizon=8, discount=0.7)
    world = dataclasses.replace(world, policies=[np.array([1, 1, 4])])
    base = dataclasses.replace(TABULAR, features=3, epochs=20, walk="policies", horizon=6, batch=16)
    config = lambda_features.Config(
        lam=lam, base=base, hidden=(64,), target="vector", learning_rate=3e-3, iterations=12, epochs=500, batch=16
    )
    params, table = learned_table(config, world)
    phi = np.asarray(laplacian.base_features(params.base, jnp.eye(3)))
    exact = exact_lambda_features(world.mdp.under(world.policies[0]), phi, lam, discount=0.7).action_matrix(world.mdp)
    assert ((table - exact) ** 2).mean() < 0.01
    assert exact.max() > 1


def test_online_td_of_one_hot_features_finds_the_lambda_representation():
    world = make("corridor", length=3, horizon=6, discount=0.7)
    world = dataclasses.replace(world, policies=[np.array([1, 1, 4])])
    config = lambda_features.Config(
        lam=0.5,
        features="one-hot",
        base=dataclasses.replace(TABULAR, horizon=6),
        hidden=(32,),
        method="online",
        learning_rate=3e-3,
        episodes=600,
        epsilon=0.5,
    )
    params, table = learned_table(config, world)
    exact = exact_lambda_features(world.mdp.under(world.policies[0]), np.eye(3), 0.5, discount=0.7)
    assert ((table - exact.action_matrix(world.mdp)) ** 2).mean() < 0.01
    np.testing.assert_allclose(params.weights, np.eye(3)[:, world.sites], atol=1e-9)


def test_an_agent_that_sees_pixels_plays():
    config = lambda_features.Config(base=SMALL, hidden=(4,), iterations=1, epochs=1)
    state, info = lambda_features.train(KEY, ROOMS, config)
    assert isinstance(laplacian.collect_data(KEY, ROOMS, SMALL).views, Stacks)
    assert info.loss.shape == (len(ROOMS.policies), 1)
    policy = lambda_features.policy(state.params, ROOMS, config)
    _, episode = play(KEY, ROOMS, policy, start=0)
    assert episode.cells.shape == (13,)
    fixed = lambda_features.policy(state.params, ROOMS, dataclasses.replace(config, refresh=False))
    assert fixed.observation == FirstPerson(12, fading=False, remaining=True)


def test_an_agent_that_follows_policies_takes_their_actions_only():
    config = lambda_features.Config(base=SMALL, hidden=(4,), choose="policies")
    policy = lambda_features.policy(lambda_features.init(KEY, ROOMS, config).params, ROOMS, config)
    run = jax.jit(jax.vmap(lambda start: play(KEY, ROOMS, policy, start=start)[1]))
    episodes = run(jnp.arange(ROOMS.n_states))
    own = np.stack(ROOMS.policies)[:, np.asarray(episodes.cells)[:, :-1]]
    live = np.asarray(episodes.live) > 0
    assert (own == np.asarray(episodes.actions)).any(0)[live].all()
    assert live.sum() > 100


def test_one_update_lowers_the_loss_of_one_policy_only():
    config = lambda_features.Config(base=SMALL, hidden=(4,), target="vector")
    state = lambda_features.init(KEY, ROOMS, config)
    views = jnp.asarray(np.random.default_rng(0).integers(0, 255, (2, 12, 12, 2)), jnp.uint8)
    batch = lambda_features.Examples(views, jnp.array([0, 1]), jnp.ones((2, 3)), jnp.ones(2))
    after, first = lambda_features.update(state, (1, batch), ROOMS, config)
    _, second = lambda_features.update(after, (1, batch), ROOMS, config)
    assert second < first
    for old, new in zip(*(jax.tree_util.tree_leaves(each.params.networks) for each in (state, after)), strict=True):
        np.testing.assert_array_equal(old[0], new[0])


PLAYER = lambda_features.Config(base=SMALL, hidden=(4,), iterations=1, epochs=1)


def feed(shape, dtype):
    return laplacian.init(KEY, ROOMS, SMALL).params.network(jnp.zeros(shape, dtype))


def fit_without(action):
    data = laplacian.collect_data(KEY, ROOMS, SMALL)
    steps = data.transitions._replace(counts=jnp.where(data.transitions.action == action, 0.0, 1.0))
    return lambda_features.train(KEY, ROOMS, PLAYER, data=dataclasses.replace(data, transitions=steps))


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: Vision("symbolic"), "networks see one-hot states or pictures"),
        (lambda: Vision(frames=0), "frames = 0: a whole number between 1 and 100 is needed"),
        (lambda: laplacian.Config(horizon=1), "horizon = 1: a whole number between 2"),
        (lambda: laplacian.Config(walk="nobody"), "walk = nobody"),
        (lambda: lambda_features.Config(lam=2.0), "lam = 2: a λ between 0 and 1 is needed"),
        (lambda: lambda_features.Config(target="both"), "target = both"),
        (lambda: lambda_features.Config(features="one-hot"), "laplacian is needed for pictures"),
        (lambda: lambda_features.train(KEY, ROOMS, lambda_features.Config(base=TABULAR)), "data of the policies"),
        (
            lambda: lambda_features.train(KEY, ROOMS, lambda_features.Config(base=SMALL, method="online")),
            "TD along episodes sees one-hot states",
        ),
        (
            lambda: laplacian.collect_data(KEY, dataclasses.replace(ROOMS, policies=()), SMALL),
            "has no policies to walk with",
        ),
        (lambda: feed((12, 12, 2), jnp.float32), "takes stacks of 12 × 12 × 2 bytes .* got 12 × 12 × 2 of float32"),
        (lambda: feed((16, 12, 2), jnp.uint8), "takes stacks of 12 × 12 × 2 bytes .* got 16 × 12 × 2 of uint8"),
        (lambda: feed((12, 12, 7), jnp.uint8), "got 12 × 12 × 7 of uint8"),
        (lambda: fit_without(3), "the data of policy 0 never take action 3, whose value is compared"),
        (
            lambda: lambda_features.train(
                KEY, ROOMS, PLAYER, data=collect(KEY, ROOMS, ROOMS.policies[:1], 4, SMALL.vision)
            ),
            "the data hold 1 policies, and the world brings 4",
        ),
        (
            lambda: (
                laplacian.init(KEY, ROOMS, dataclasses.replace(SMALL, vision=Vision("top-down:4"))).params
                and laplacian.init(KEY, make("corridor"), dataclasses.replace(SMALL, vision=Vision("top-down:4")))
            ),
            "networks take square pictures",
        ),
    ],
)
def test_refusals(make_it, message, unchecked_types):
    with pytest.raises(ValueError, match=message):
        make_it()
