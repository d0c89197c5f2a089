"""SAC and λ-SAC: equations worked out by hand, kinds of agents as one program, training that goes on exactly."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane.agents import sac
from wane.agents.common import replay
from wane.agents.sac import Config, Transitions, Variant, algorithm, equations
from wane.worlds.control import ControlTask

KEY = jax.random.key(0)
TASK = ControlTask("Pendulum-v1", horizon=7)
TINY = Config(
    hidden=(5,), batch=6, replay=64, random_steps=4, collection_steps=8, steps=10, epochs=2, learning_rate=1e-2
)
KINDS = {
    "two": Variant(critics=2),
    "one": Variant(),
    "zero": Variant(lam=0.0, lambda_features=True),
    "half": Variant(lam=0.5, lambda_features=True),
    "unit": Variant(lam=1.0, lambda_features=True),
    "bandit": Variant(adaptive=True, lambda_features=True),
    "average": Variant(adaptive=True, lambda_features=True, averaging=True),
}
LEAVES = jax.tree_util.tree_leaves


@functools.cache
def start():
    """The first state, which is the same for all kinds."""
    return jax.jit(lambda: algorithm.init(KEY, TASK, TINY))()


def test_features_are_scaled_to_their_range():
    features = jnp.array([[1.0, 7.0, -2.0], [3.0, 7.0, 0.0], [2.0, 7.0, 2.0]])
    scaled = equations.scale(features, features.min(0), features.max(0))
    np.testing.assert_allclose(scaled, [[0, 0, 0], [1, 0, 0.5], [0.5, 0, 1]])
    np.testing.assert_allclose(equations.scale(features, -2.0, 7.0)[0], [3 / 9, 1, 0])


def test_weights_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    phi = rng.uniform(size=(40, 4))
    reward = phi @ [1.0, -2.0, 0.5, 3.0] + 0.1 * rng.normal(size=40)
    found = equations.reward_weights(jnp.asarray(phi), jnp.asarray(reward), 1e-12)
    np.testing.assert_allclose(found, np.linalg.lstsq(phi, reward)[0], atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_collinear_and_constant_features_have_weights(dtype):
    """r = 3 x, where x stands in the features twice, beside one that is 0 everywhere: x's weight is shared."""
    x = np.linspace(0, 1, 50, dtype=dtype)
    phi = jnp.asarray(np.stack([x, np.zeros_like(x), x], 1))
    found = equations.reward_weights(phi, jnp.asarray(3 * x), 1e-6)
    np.testing.assert_allclose(found, [1.5, 0, 1.5], atol=2e-3)
    assert found.dtype == dtype
    np.testing.assert_array_equal(equations.reward_weights(0 * phi, jnp.asarray(3 * x), 1e-6), 0)


def test_weights_of_many_collinear_features_are_finite():
    """23 features of rank 3, as HalfCheetah has 23, in 32 bits: rounding alone must not make the matrix indefinite."""
    rng = np.random.default_rng(3)
    base, mixing = rng.uniform(size=(40, 256, 3)), rng.uniform(size=(40, 3, 23))
    phi = jnp.asarray((base @ mixing) / 3, jnp.float32)
    reward = jnp.asarray(base @ [1.0, 2.0, 3.0], jnp.float32)
    weights = jax.jit(jax.vmap(lambda phi, reward: equations.reward_weights(phi, reward, 1e-6)))(phi, reward)
    fitted = np.einsum("nbf,nf->nb", phi, weights)
    assert np.abs(fitted - reward).max() < 0.05


def test_targets_by_hand():
    """φ = (1, ½), φ_λ' = (4, 2), w = (3, 1), λ = ½: wᵀ(φ ⊙ φ_λ') = 13, the correction is −6.5."""
    phi, phi_next = jnp.array([1.0, 0.5]), jnp.array([4.0, 2.0])
    change = equations.correction(phi, phi_next, jnp.array([3.0, 1.0]), 0.5)
    assert float(change) == -6.5
    # 2 + 0.9 (10 − 6.5 − 0.2 · (−5)) = 2 + 0.9 · 4.5
    target = equations.soft_target(*map(jnp.asarray, (2.0, 0.9, 10.0, -5.0)), 0.2, change)
    assert float(target) == pytest.approx(6.05)
    assert float(equations.soft_target(*map(jnp.asarray, (2.0, 0.0, 10.0, -5.0)), 0.2, change)) == 2
    # Entry 0: 1 · (1 + 0.9 · ½ · 4) = 2.8. Entry 1: ½ (1 + 0.9 · ½ · 2) + 0.9 · ½ · 2 = 1.85.
    np.testing.assert_allclose(equations.feature_target(phi, phi_next, 0.5, jnp.asarray(0.9)), [2.8, 1.85])
    np.testing.assert_allclose(equations.feature_target(phi, phi_next, 0.5, jnp.asarray(0.0)), phi)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_values_that_agree_with_their_targets_are_those_of_a_second_discount(lam):
    """Along an episode that terminates: Q = wᵀφ_λ = Σ_t γᵗ Σ_i w_i φ_i,t Π_{k<t} (1 − (1 − λ) φ_i,k)."""
    rng, weights = np.random.default_rng(0), jnp.array([1.0, -2.0, 0.5])
    phi = jnp.asarray(rng.uniform(size=(6, 3)))
    q, phi_lam = jnp.zeros(()), jnp.zeros(3)
    for t in reversed(range(6)):
        discount = jnp.asarray(0.9 if t < 5 else 0.0)
        change = equations.correction(phi[t], phi_lam, weights, lam)
        q = equations.soft_target(weights @ phi[t], discount, q, jnp.zeros(()), 1.0, change)
        phi_lam = equations.feature_target(phi[t], phi_lam, lam, discount)
    kept = np.cumprod(np.vstack([np.ones(3), 0.9 * (1 - (1 - lam) * phi[:-1])]), 0)
    np.testing.assert_allclose(q, (kept * phi).sum(0) @ weights, rtol=1e-6)
    np.testing.assert_allclose(q, weights @ phi_lam, rtol=1e-6)


def test_losses_by_hand():
    q = jnp.array([[1.0, 2.0], [3.0, 0.0]])
    target = jnp.array([2.0, 2.0])
    # Errors of the first critic: 1 and 0; of the second: 1 and 4.
    assert float(equations.critic_loss(target, q, 1)) == 0.25
    assert float(equations.critic_loss(target, q, 2)) == 0.25 + 1.25
    assert float(equations.critic_loss(target, q[:1], 1)) == 0.25
    np.testing.assert_allclose(equations.lower(q, 2), [1, 0])
    np.testing.assert_allclose(equations.lower(q, 1), [1, 2])
    log_prob = jnp.array([-1.0, 3.0])
    # mean (0.5 · (−1) − 1, 0.5 · 3 − 2) = mean (−1.5, −0.5)
    assert float(equations.actor_loss(log_prob, q[0], 0.5)) == -1
    # −log α (1 − 2) with log α = 0.3
    assert float(equations.temperature_loss(0.3, log_prob, -2.0)) == pytest.approx(0.3)
    assert float(jax.grad(equations.temperature_loss)(0.3, log_prob, -2.0)) == pytest.approx(1.0)
    assert float(equations.feature_loss(jnp.array([[1.0, 2.0]]), jnp.array([[0.0, 4.0]]))) == 2.5


def test_targets_are_constants():
    for loss in (lambda t: equations.critic_loss(t, jnp.ones((2, 1)), 2), lambda t: equations.feature_loss(t, 2 * t)):
        constant = jax.grad(loss)(jnp.zeros(1))
        np.testing.assert_array_equal(constant, 0)


def test_the_density_of_squashed_actions_integrates_to_one():
    mean, deviation = 0.3, 0.7
    noise = jnp.linspace(-7, 7, 4001)[:, None]
    action, log_prob = equations.squash(jnp.full((4001, 1), mean), jnp.full((4001, 1), np.log(deviation)), noise)
    assert float(jnp.trapezoid(jnp.exp(log_prob), action[:, 0])) == pytest.approx(1, abs=1e-5)
    u = mean + deviation * 0.5
    one, density = equations.squash(jnp.array([mean]), jnp.log(jnp.array([deviation])), jnp.array([0.5]))
    by_hand = np.exp(-0.125) / (deviation * np.sqrt(2 * np.pi)) / (1 - np.tanh(u) ** 2)
    assert float(one[0]) == pytest.approx(np.tanh(u))
    assert float(density) == pytest.approx(np.log(by_hand))


def constant_networks(state, q, features):
    """A state whose target networks say the same for all inputs, and whose policy is a standard normal one."""
    zeros = jax.tree_util.tree_map(jnp.zeros_like, (state.params, state.target))
    actor, target = zeros
    critics = dataclasses.replace(target.q, bias=jnp.asarray(q)[:, None])
    lam_features = dataclasses.replace(target.features, bias=jnp.asarray(features))
    return state._replace(params=actor, target=sac.Critics(target.hidden, critics, lam_features))


@pytest.mark.parametrize(("kind", "change"), [("two", 0.0), ("one", 0.0), ("zero", 1.0), ("half", 0.5), ("unit", 0.0)])
def test_the_target_of_every_kind_by_hand(kind, change):
    """Q̄ = (5, 4) and φ_λ = (1, 2, 3, 4) everywhere; the second step terminated."""
    config = KINDS[kind].applied(TINY)
    state = constant_networks(start(), [5.0, 4.0], [1.0, 2.0, 3.0, 4.0])
    state = state._replace(log_temperature=jnp.log(0.5))
    phi = jnp.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    reward, noise = jnp.array([7.0, 8.0]), jnp.array([[0.2], [-0.4]])
    data = Transitions(jnp.zeros((2, 3)), jnp.zeros((2, 1)), reward, jnp.zeros((2, 3)), jnp.array([0.0, 1.0]))
    goals = jax.jit(
        lambda state: algorithm.targets(state, data, phi if config.lambda_features else None, noise, config)
    )
    found = goals(state)
    log_prob = -0.5 * 0.2**2 - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(0.2) ** 2)
    # Features 0 and 3 are 1 in the first step alone, so each of them gets half of its reward: w = (3.5, 4, 4, 3.5).
    lost = change * 3.5 * (1 + 4)
    value = (4 if kind == "two" else 5) - lost - 0.5 * log_prob
    np.testing.assert_allclose(found.q, [7 + 0.99 * value, 8], rtol=1e-5)
    if config.lambda_features:
        kept = 0.99 * (1 - change)
        np.testing.assert_allclose(found.features[0], [1 + kept, 0.99 * 2, 0.99 * 3, 1 + kept * 4], rtol=1e-6)
        np.testing.assert_array_equal(found.features[1], phi[1])
    else:
        assert found.features is None


@pytest.mark.parametrize("name", ["global", "running", "dimension"])
def test_ranges_of_features(name):
    config = dataclasses.replace(TINY, ranges=name)
    state = start()
    inputs = jnp.array([[1.0, -4.0, 2.0, 0.0], [3.0, 6.0, 2.0, 1.0]])
    state, low, high = algorithm.ranges(state, inputs, config)
    state, low, high = algorithm.ranges(state, inputs / 2, config)
    if name == "global":
        assert (float(low), float(high)) == (-2, 3)
    else:
        np.testing.assert_allclose(low, [0.5, -4, 1, 0] if name == "running" else [0.5, -2, 1, 0])
        np.testing.assert_allclose(high, [3, 6, 2, 1] if name == "running" else [1.5, 3, 1, 0.5])


@pytest.fixture(scope="module")
def batches():
    """A few batches of random transitions."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3, TINY.batch, algorithm.row_size(TASK)))
    rows[..., -1] = rng.uniform(size=rows.shape[:-1]) < 0.2
    return algorithm.unpack(jnp.asarray(rows), TASK)


@pytest.fixture(scope="module")
def together(batches):
    """All kinds after three updates, as one program."""
    arrays = Variant(*(jnp.asarray(column) for column in zip(*KINDS.values(), strict=True)))
    begin = start()  # outside of the program, so that the cache of `start` holds no tracers

    def run(variant):
        config = variant.applied(TINY)

        def step(state, now):
            data, key = now
            return sac.update(state, data, TASK, config, key)

        return jax.lax.scan(step, begin, (batches, jax.random.split(KEY, 3)))

    return jax.jit(jax.vmap(run))(arrays)


def one_of(tree, kind):
    return jax.tree_util.tree_map(lambda leaf: leaf[list(KINDS).index(kind)], tree)


def test_lambda_1_is_sac_with_one_critic_and_a_further_task_bit_for_bit(together):
    with_task, plain = one_of(together[0], "unit"), one_of(together[0], "one")
    for field in ("params", "log_temperature"):
        for mine, theirs in zip(LEAVES(getattr(with_task, field)), LEAVES(getattr(plain, field)), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(LEAVES(with_task.critics[:2]), LEAVES(plain.critics[:2]), strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])
    moved = [
        any(
            np.any(a != b) for a, b in zip(LEAVES(each.critics.features), LEAVES(start().critics.features), strict=True)
        )
        for each in (with_task, plain)
    ]
    assert moved == [True, False]


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in ("two", "half") else [pytest.mark.fuzz]) for kind in KINDS]
)
def test_all_kinds_together_are_each_of_them_alone(kind, together, batches):
    """Alone, what an agent does not have is left out of the program."""
    config = KINDS[kind].applied(TINY)
    step = jax.jit(lambda state, data, key: sac.update(state, data, TASK, config, key))
    state = start()
    for i, key in enumerate(jax.random.split(KEY, 3)):
        state, terms = step(state, jax.tree_util.tree_map(lambda leaf, i=i: leaf[i], batches), key)
    for alone, many in zip(LEAVES(state), LEAVES(one_of(together[0], kind)), strict=True):
        np.testing.assert_allclose(alone, many, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(terms.critic, one_of(together[1], kind).critic[-1], rtol=1e-7)
    last_layer, begun = state.critics.q.weight[1], start().critics.q.weight[1]
    assert np.array_equal(last_layer, begun) == (kind != "two")
    hidden, begun = state.critics.hidden.layers[0].weight[1], start().critics.hidden.layers[0].weight[1]
    assert np.array_equal(hidden, begun) == (kind == "one")


def test_an_update_goes_down_the_gradient(batches):
    """The first step of Adam moves every number by the learning rate, against the sign of its gradient."""
    config = KINDS["half"].applied(TINY)
    data = jax.tree_util.tree_map(lambda leaf: leaf[0], batches)
    state = start()
    after = jax.jit(lambda data: algorithm.update_critics(state, data, jnp.zeros_like(data.action), config)[0])(data)
    inputs = jnp.concatenate([data.observation, data.action], -1)
    goal = algorithm.targets(
        state, data, equations.scale(inputs, inputs.min(0), inputs.max(0)), jnp.zeros_like(data.action), config
    )

    def loss(bias):
        layer = state.critics.q
        shifted = dataclasses.replace(layer, bias=layer.bias.at[0, 0].set(bias))
        q = algorithm.q_values(state.critics._replace(q=shifted), inputs)
        return 0.5 * jnp.mean((goal.q - q[0]) ** 2)

    before = state.critics.q.bias[0, 0]
    moved = after.critics.q.bias[0, 0] - before
    assert float(moved) == pytest.approx(-0.01 * np.sign(float(jax.jit(jax.grad(loss))(before))), rel=1e-4)


def test_target_networks_follow(together):
    """After one update: target ← target + τ (new − target)."""
    config = KINDS["two"].applied(TINY)
    state = start()
    moved = state._replace(critics=jax.tree_util.tree_map(lambda leaf: leaf + 1, state.critics))
    for old, new in zip(LEAVES(state.target.q), LEAVES(algorithm.follow(moved, config).q), strict=True):
        np.testing.assert_allclose(new, old + 0.005, rtol=1e-12)


def test_the_bandit_hears_of_ends_only():
    config = KINDS["bandit"].applied(TINY)
    state, row = start(), jnp.zeros(algorithm.row_size(TASK))
    going = algorithm.remember(state, row, False, 3.0, KEY, config)
    assert (int(going.bandit.episodes), int(going.replay.added)) == (0, 1)
    ended = algorithm.remember(going, row, True, 5.0, KEY, config)
    assert (int(ended.bandit.episodes), float(ended.bandit.last)) == (1, 5)
    drawn = [int(algorithm.remember(going, row, True, 5.0, jax.random.key(i), config).arm) for i in range(12)]
    assert set(drawn) == {0, 1, 2}
    assert {float(algorithm.lam_of(state._replace(arm=jnp.int32(i)), config)) for i in range(3)} == {0, 0.5, 1}
    assert float(algorithm.lam_of(state, KINDS["half"].applied(TINY))) == 0.5


@pytest.mark.fuzz
def test_flops_are_counted_by_the_compiler():
    """Networks with H² weights dominate: 16 passes with two critics, 10 with one, 14 with one and a λF."""
    config = dataclasses.replace(TINY, hidden=(128, 128), batch=64)
    counted = {name: sac.update_flops(TASK, config, KINDS[name]) for name in ("two", "one", "half")}
    layer = 2 * 64 * 128 * 128
    passes = {name: flops / layer for name, flops in counted.items()}
    assert passes["one"] < passes["half"] < passes["two"]
    assert passes["two"] - passes["one"] == pytest.approx(6, rel=0.15)
    assert passes["half"] - passes["one"] == pytest.approx(4, rel=0.25)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replay": 3}, "replay = 3: at least 6 is needed"),
        ({"limits": (2.0, -20.0)}, "a lower limit and then a higher one"),
        ({"adaptive": False, "lam": 0.5, "lambda_features": False}, "made of the λF"),
        ({"lambda_features": False}, "made of the λF"),
        ({"critics": 3}, "critics = 3: a whole number between 1 and 2 is needed"),
        ({"lambdas": (0.5, 0.5)}, "0.5 is given twice"),
        ({"discount": 1.0}, "discount = 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **changes)


def test_kinds_are_settings():
    assert sac.variant_of(Config()) == KINDS["bandit"]
    for variant in KINDS.values():
        assert sac.variant_of(variant.applied(TINY)) == variant


def test_the_replay_is_sampled_from_what_is_there():
    kept = replay.add(replay.empty(jnp.zeros(2), 8), jnp.arange(6.0).reshape(3, 2))
    assert set(np.ravel(replay.sample(kept, jnp.linspace(0, 0.999, 50)))) == set(range(6))
