"""The actor–critic: every equation by hand, recurrent states, ends of episodes, what is constant, that it learns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents import a2c
from wane.agents.a2c import Config, Sequences, equations, networks, probing, training
from wane.agents.a2c.acting import input_mask
from wane.agents.common.rollout import Transition
from wane.exact import bellman_target
from wane.worlds import World, make
from wane.worlds.gym import Environment

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(0)
TINY = Config(hidden=6, length=10, epochs=2, updates=3, evaluation_episodes=2)
ROOMS = make("two-rooms-7", horizon=7, observation="index+remaining")


@pytest.fixture(scope="module")
def quick_compilation(quick_compilation):
    """Compiling takes most of the time, and these programs are small."""
    with wane.jit_checks(False):
        yield


def array(*numbers):
    return jnp.array(numbers)


# The equations.


def test_the_correction_by_hand():
    """γ = 0.9, λ = ½, w = (1, 4, 2), s_t is state 1, and entry 1 of φ_λ(s_{t+1}) is 0.5: 0.9 · (−½) · 4 · 0.5."""
    phi_t, phi_lam_next, weights = array(0.0, 1.0, 0.0), array(0.2, 0.5, 0.9), array(1.0, 4.0, 2.0)
    found = equations.correction(phi_t, phi_lam_next, weights, 0.5, jnp.array(0.9))
    assert float(found) == pytest.approx(-0.9)
    assert float(equations.correction(phi_t, phi_lam_next, weights, 1.0, jnp.array(0.9))) == 0
    elsewhere = phi_lam_next.at[2].set(100.0)
    assert float(equations.correction(phi_t, elsewhere, weights, 0.5, jnp.array(0.9))) == pytest.approx(-0.9)


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_the_target_is_the_definition_of_the_features_times_w(lam):
    """Also for features that are not one-hot."""
    rng = np.random.default_rng(0)
    phi_t, phi_lam_next, weights = (jnp.asarray(rng.random((20, 4))) for _ in range(3))
    reward, value_next = (weights * phi_t).sum(-1), (weights * phi_lam_next).sum(-1)
    discount = jnp.full(20, 0.9)
    target = reward + discount * value_next + equations.correction(phi_t, phi_lam_next, weights, lam, discount)
    definition = bellman_target(phi_lam_next, phi_t, lam, 0.9)
    np.testing.assert_allclose(target, (weights * definition).sum(-1), rtol=1e-12)


def test_a_critic_that_knows_what_remains_needs_no_correction():
    """On a random chain with the exact φ_λ: V_t(s) = w_tᵀφ_λ(s), where the visit to s_t has worn off w_{t+1}."""
    rng, lam, discount = np.random.default_rng(1), 0.5, 0.9
    kernel = rng.dirichlet(np.ones(5), 5)
    phi_lam, w = wane.lambda_representation(kernel, lam, discount=discount).matrix, rng.random(5)
    values = phi_lam @ w
    for s in range(5):
        worn = w * np.where(np.arange(5) == s, lam, 1.0)
        np.testing.assert_allclose(w[s] + discount * kernel[s] @ (phi_lam @ worn), values[s], rtol=1e-12)
        phi = jnp.eye(5)[s]
        change = equations.correction(phi, jnp.asarray(kernel[s] @ phi_lam), jnp.asarray(w), lam, jnp.array(discount))
        np.testing.assert_allclose(w[s] + discount * kernel[s] @ values + change, values[s], rtol=1e-12)
        assert w[s] + discount * kernel[s] @ (phi_lam @ worn) + float(change) < values[s] - 1e-3, "taken away twice"


def test_mixed_returns_by_hand():
    """The second of four steps truncates, the third terminates (γ_t = 0), the fourth is the last of the sequence."""
    reward, value_next = array(1.0, 2.0, 3.0, 4.0), array(10.0, 20.0, 30.0, 40.0)
    discount, cut = array(0.5, 0.5, 0.0, 0.5), array(0.0, 1.0, 1.0, 1.0)
    found = equations.mixed_returns(reward, discount, value_next, cut, 0.9)
    second = 2 + 0.5 * 20
    np.testing.assert_allclose(found, [1 + 0.5 * (0.1 * 10 + 0.9 * second), second, 3, 4 + 0.5 * 40])
    one_step = equations.mixed_returns(reward, discount, value_next, cut, 0.0)
    np.testing.assert_allclose(one_step, reward + discount * value_next)


def test_feature_returns_by_hand():
    """Two features; step 0 is in state 0, step 1 in state 1. λ = ½, γ = 0.8, and the sequence ends after step 1."""
    phi, phi_next = jnp.eye(2), jnp.array([[1.0, 2.0], [3.0, 4.0]])
    discount, cut = array(0.8, 0.8), array(0.0, 1.0)
    last = [0.8 * 3, 1 + 0.8 * 0.5 * 4]
    one_step = equations.feature_returns(phi, phi_next, 0.5, discount, cut, 0.0)
    np.testing.assert_allclose(one_step, [[1 + 0.8 * 0.5 * 1, 0.8 * 2], last])
    mixed = equations.feature_returns(phi, phi_next, 0.5, discount, cut, 0.25)
    ahead = [0.75 * 1 + 0.25 * last[0], 0.75 * 2 + 0.25 * last[1]]
    np.testing.assert_allclose(mixed, [[1 + 0.8 * 0.5 * ahead[0], 0.8 * ahead[1]], last])
    over = equations.feature_returns(phi, phi_next, 0.5, array(0.8, 0.0), cut, 0.0)
    np.testing.assert_allclose(over[1], [0.0, 1.0])


def test_the_losses_by_hand():
    logits = jnp.log(jnp.array([[0.25, 0.75], [0.5, 0.5]]))
    found = equations.policy_loss(logits, jnp.array([1, 0]), array(2.0, -4.0))
    assert float(found) == pytest.approx(-(2 * np.log(0.75) - 4 * np.log(0.5)) / 2)
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)) / 2 + np.log(2) / 2
    assert float(equations.mean_entropy(logits)) == pytest.approx(entropy)
    assert float(equations.squared_error(array(1.0, 2.0), array(3.0, 5.0))) == pytest.approx((4 + 9) / 2)


def test_targets_and_advantages_are_constants():
    constant = jax.grad(lambda target: equations.squared_error(target, array(1.0)))(array(3.0))
    assert constant.tolist() == [0.0]
    logits = jnp.zeros((1, 2))
    assert jax.grad(lambda a: equations.policy_loss(logits, jnp.array([1]), a))(array(3.0)).tolist() == [0.0]


def test_finished_returns_by_hand():
    paid = array(1.0, 2.0, 4.0, 8.0)
    assert [float(x) for x in equations.finished_returns(paid, array(0.0, 1.0, 0.0, 0.0), 16.0)] == [19.0, 12.0]
    assert [float(x) for x in equations.finished_returns(paid, array(0.0, 0.0, 0.0, 0.0), 16.0)] == [0.0, 31.0]
    assert [float(x) for x in equations.finished_returns(paid, array(1.0, 0.0, 0.0, 1.0), 16.0)] == [31.0, 0.0]


# The network.


def test_a_step_of_the_lstm_by_hand():
    sigmoid, tanh = lambda x: 1 / (1 + np.exp(-x)), np.tanh
    carry = networks.LSTMState(array(0.5), array(-1.0))
    after = networks.advance(array(0.1, 0.2, 0.3, 0.4), carry, jnp.array([[1.0, 2.0, 3.0, 4.0]]))
    c = sigmoid(0.3 + 1.5 + 1) * -1.0 + sigmoid(0.1 + 0.5) * tanh(0.2 + 1.0)
    assert float(after.c[0]) == pytest.approx(c)
    assert float(after.h[0]) == pytest.approx(sigmoid(0.4 + 2.0) * tanh(c))


def test_the_derivative_of_unrolling_is_that_of_jax():
    rng = np.random.default_rng(0)
    recurrent, gates = (jnp.asarray(rng.normal(size=shape)) for shape in ((3, 12), (5, 2, 12)))
    keep = jnp.ones((5, 2)).at[2, 0].set(0.0).at[3].set(0.5)
    carry = networks.LSTMState(*(jnp.asarray(rng.normal(size=(2, 3))) for _ in range(2)))

    def total(function):
        return lambda *inputs: sum(jnp.sum(jnp.sin(x)) for x in function(inputs[0], inputs[1], keep, inputs[2]))

    ours, theirs = (jax.grad(total(f), (0, 1, 2))(recurrent, gates, carry) for f in (networks.unroll, networks._scan))
    for mine, its in zip(*map(jax.tree_util.tree_leaves, (ours, theirs)), strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-12)


# Sequences: recurrent states, ends of episodes.


@pytest.fixture(scope="module")
def played(quick_compilation):
    """A state and 20 steps with it in two environments. Episodes are cut off after 7 steps."""
    config = dataclasses.replace(TINY, length=20, environments=2)
    collect = jax.jit(lambda key, state: training.collect(key, state, ROOMS, config))
    state = a2c.init(KEY, ROOMS, config)
    # As if an episode were under way: a recurrent state that is not fresh must count.
    state = state._replace(position=collect(jax.random.key(5), state)[0])
    return config, state, *collect(KEY, state)


def test_unrolling_remembers_what_acting_remembered(played):
    config, state, after, data = played
    ends = np.asarray(data.steps.truncated)
    assert ends.sum() == 6
    assert not ends[-1].any()
    assert np.abs(data.carry.h).max() > 0.01
    mask = input_mask(ROOMS, config)
    for e in range(2):
        carry = jax.tree_util.tree_map(lambda leaf, e=e: leaf[e], data.carry)
        for t in range(20):
            if t and ends[t - 1, e]:
                carry = networks.fresh_state(state.params)
            carry = networks.see(state.params, data.steps.observation.x[t, e] * mask, carry, 1.0)
        np.testing.assert_allclose(carry.h, after.carry.h[e], atol=1e-12)
    said, _ = training.outputs(state.params, data, ROOMS, config)
    last = networks.heads(state.params, after.carry.h)
    np.testing.assert_allclose(said.features[-1], last.features, atol=1e-12)


def test_what_follows_a_step_is_of_the_same_episode(played):
    config, state, _, data = played
    said, after = training.outputs(state.params, data, ROOMS, config)
    goes_on = ~np.asarray(data.steps.truncated)[:-1]
    np.testing.assert_allclose(after.value[:-1][goes_on], said.value[1:][goes_on], atol=1e-12)
    assert np.abs(after.value[:-1] - said.value[1:])[~goes_on].min() > 1e-4
    t, e = np.argwhere(~goes_on)[0]
    assert data.steps.next_observation.cell[t, e] != data.steps.observation.cell[t + 1, e]


def test_without_memory_every_moment_is_the_first(played):
    config, state, _, data = played
    said, _ = training.outputs(state.params, data, ROOMS, dataclasses.replace(config, recurrent=False))
    alone = networks.see(state.params, data.steps.observation.x, networks.fresh_state(state.params), 1.0)
    np.testing.assert_allclose(said.value, networks.heads(state.params, alone.h).value, atol=1e-12)


def test_what_is_not_shown_does_not_count(played):
    config, state, _, data = played
    hidden = dataclasses.replace(config, shown=False)
    moments = data.steps.observation
    richer = moments._replace(x=moments.x.at[..., -3:].set(9.0))
    other = data._replace(steps=data.steps._replace(observation=richer))
    said = [training.outputs(state.params, each, ROOMS, hidden)[0].value for each in (data, other)]
    np.testing.assert_array_equal(*said)
    shown = training.outputs(state.params, other, ROOMS, config)[0].value
    assert np.abs(shown - said[0]).max() > 1e-3


def batch(world, cells, rewards, terminated=(), truncated=(), remaining=None):
    """A sequence of one environment, given its cells (one more than steps)."""
    steps = len(rewards)
    remaining = jnp.tile(jnp.asarray(world.rewards), (steps + 1, 1)) if remaining is None else jnp.asarray(remaining)
    moments = a2c.Moment(jnp.eye(world.n_states)[np.array(cells)], jnp.array(cells), remaining)
    now, then = (jax.tree_util.tree_map(lambda leaf, c=c: leaf[c][:, None], moments) for c in (np.s_[:-1], np.s_[1:]))
    ends = [jnp.array([[t in which] for t in range(steps)]) for which in (terminated, truncated)]
    data = Transition(now, jnp.zeros((steps, 1), int), jnp.array(rewards)[:, None], then, *ends, jnp.ones((steps, 1)))
    return Sequences(networks.LSTMState(jnp.zeros((1, 6)), jnp.zeros((1, 6))), data)


LINE = World("#####\n#a.b#\n#####", sites="ab", rewards=[4.0, 2.0], discount=0.5, horizon=9)


@pytest.mark.parametrize(
    ("arrival", "weights", "expected"),
    [
        # Step 0 leaves a, where w is 3 (initially 4) and entry a of φ_λ(s_1) is 10. Step 1 leaves no site.
        (0.0, "remaining", [0.5 * -0.5 * 3 * 10, 0.0]),
        (0.0, "initial", [0.5 * -0.5 * 4 * 10, 0.0]),
        # Step 1 enters b, where w is 1 before the step, and entry b of φ_λ(s_2) is 60.
        (1.0, "remaining", [0.0, 0.5 * -0.5 * 1 * 60]),
    ],
)
def test_the_targets_of_a_sequence_by_hand(arrival, weights, expected):
    config = dataclasses.replace(TINY, features="states", mixing=0.0, arrival=arrival, weights=weights)
    data = batch(LINE, [0, 1, 2], [7.0, 8.0], remaining=[[3.0, 2.0], [3.0, 1.0], [3.0, 0.5]])
    phi_next = jnp.array([[[10.0, 20.0, 30.0]], [[40.0, 50.0, 60.0]]])
    after = networks.Output(jnp.zeros((2, 1, 5)), jnp.array([[100.0], [200.0]]), phi_next)
    goal = training.targets(after, data, LINE, config)
    np.testing.assert_allclose(goal.value[:, 0], np.array([7 + 50.0, 8 + 100.0]) + expected)
    visited = [1, 2] if arrival else [0, 1]
    definition = [bellman_target(phi_next[t, 0], jnp.eye(3)[visited[t]], 0.5, 0.5) for t in range(2)]
    np.testing.assert_allclose(goal.features[:, 0], np.stack(definition))
    plain = training.targets(after, data, LINE, dataclasses.replace(config, correction=False))
    np.testing.assert_allclose(plain.value[:, 0], [57.0, 108.0])


def test_truncated_episodes_are_bootstrapped_and_terminated_ones_are_not():
    config = dataclasses.replace(TINY, features="states", correction=False)
    after = networks.Output(jnp.zeros((2, 1, 5)), jnp.full((2, 1), 100.0), jnp.full((2, 1, 3), 10.0))
    data = batch(LINE, [1, 1, 1], [1.0, 1.0], truncated=[0])
    np.testing.assert_allclose(training.targets(after, data, LINE, config).value[0], [1 + 0.5 * 100])
    data = batch(LINE, [1, 1, 1], [1.0, 1.0], terminated=[0])
    goal = training.targets(after, data, LINE, config)
    np.testing.assert_allclose(goal.value[0], [1.0])
    np.testing.assert_allclose(goal.features[0, 0], [0.0, 1.0, 0.0])


def test_the_number_of_each_state_s_own_feature():
    numbers, size = training.feature_numbers(ROOMS, TINY)
    assert size == 49
    assert [divmod(n, 7) for n in numbers] == [tuple(cell) for cell in ROOMS.map.cells]
    numbers, size = training.feature_numbers(ROOMS, dataclasses.replace(TINY, features="sites"))
    assert size == 3
    assert [numbers[site] for site in ROOMS.sites] == [0, 1, 2]
    assert (np.delete(numbers, ROOMS.sites) == -1).all()


# Learning.


def test_which_heads_learn(played):
    config, state, _, data = played
    off = dataclasses.replace(config, feature_weight=0.0, correction=False)
    update = jax.jit(
        lambda weight, lam: a2c.update(state, data, ROOMS, dataclasses.replace(off, feature_weight=weight, lam=lam))
    )
    (without, terms), (other_lam, _), (with_head, _) = update(0.0, 0.5), update(0.0, 0.1), update(0.1, 0.5)
    np.testing.assert_array_equal(without.params.features.weight, state.params.features.weight)
    assert not np.array_equal(with_head.params.features.weight, state.params.features.weight)
    np.testing.assert_array_equal(other_lam.params.critic.weight, without.params.critic.weight)
    assert all(np.isfinite(term) for term in terms)
    assert not np.array_equal(without.params.actor.weight, state.params.actor.weight)


def leaves_close(ours, theirs, tolerance=1e-8):
    for mine, its in zip(*map(jax.tree_util.tree_leaves, (ours, theirs)), strict=True):
        np.testing.assert_allclose(mine, its, atol=tolerance)


def test_it_learns_in_parts_as_at_once_and_batched_as_alone():
    """A corridor with a reward at each end, which each visit halves: greedy returns come near the optimum.

    Agents that differ in such settings are one program; each of them learns what it learns alone, epoch by epoch.
    """
    world = make("corridor", length=3, discount=0.9, horizon=12, observation="index+remaining")
    tiny = Config(hidden=16, length=12, environments=8, learning_rate=1e-2, epochs=4, updates=60)

    def config(lam, weight, recurrent, shown):
        return dataclasses.replace(tiny, lam=lam, feature_weight=weight, recurrent=recurrent, shown=shown)

    switch = jnp.array([True, False])
    both = jnp.array([1.0, 0.5]), jnp.array([0.0, 0.1]), switch, switch
    states, infos = jax.jit(jax.vmap(lambda *one: a2c.train(KEY, world, config(*one))))(*both)
    part = jax.jit(lambda one, state, first: a2c.train(KEY, world, config(*one), state, first, epochs=1))
    second = tuple(each[1] for each in both)
    state = a2c.init(KEY, world, config(*second))
    for epoch in range(4):
        state, info = part(second, state, epoch)
        leaves_close(info, jax.tree_util.tree_map(lambda leaf, e=epoch: leaf[1, e : e + 1], infos))
    leaves_close(state, jax.tree_util.tree_map(lambda leaf: leaf[1], states))
    best = float(world.start @ world.optimum().values)
    assert infos.sampled[0, -1] > infos.sampled[0, 0]
    assert 0.9 * best < infos.greedy[0, -1] <= best + 1e-9
    assert float(infos.returns[0, -1]) == pytest.approx(float(infos.sampled[0, -1]), abs=0.3)


def test_rewards_of_training_are_discounted_from_the_beginning_of_their_episode():
    """One environment is in step 3 and ends after two more steps, the other one begins."""
    done = jnp.array([[False, False], [True, False], [False, False]])
    world = make("corridor", length=3, discount=0.5, horizon=5)
    found = training._discounts(world, jnp.array([3, 0]), done)
    np.testing.assert_allclose(found, 0.5 ** np.array([[4, 1], [5, 2], [1, 3]]))
    departing = dataclasses.replace(world, timing="departure")
    np.testing.assert_allclose(training._discounts(departing, jnp.array([3, 0]), done), 2 * found)


def test_the_features_of_an_agent_without_memory_become_the_exact_ones():
    """In a corridor of three states that nobody rewards, the policy stays random, and its λF is that of a walk."""
    world = make("corridor", length=3, discount=0.8, horizon=12, rewards=[0.0, 0.0], observation="index")
    config = Config(hidden=8, length=12, environments=4, recurrent=False, features="states", feature_weight=1.0)
    config = dataclasses.replace(config, learning_rate=1e-2, evaluation_episodes=2)

    arriving = dataclasses.replace(config, arrival=True)

    @jax.jit
    def learn():
        def turn(state, key):
            return training.play_and_learn(key, state, world, config)[0], None

        params = jax.lax.scan(turn, a2c.init(KEY, world, config), jax.random.split(KEY, 300))[0].params
        frozen, share = probing.freeze(params, world, config), probing.visits(KEY, params, world, config)
        exact = [probing.exact_features(frozen.chances, world, each) for each in (config, arriving)]
        return params, frozen, share, exact, a2c.feature_error(KEY, params, world, config)

    params, frozen, share, found, error = learn()
    kernel = np.asarray(world.mdp.under(np.asarray(frozen.chances)).todense())
    exact = wane.lambda_representation(kernel, 0.5, discount=0.8).matrix
    np.testing.assert_allclose(found[0], exact, atol=1e-9)
    np.testing.assert_allclose(found[1], kernel @ exact, atol=1e-9)
    missed = (share[:, None] * (frozen.features - exact) ** 2).sum() / (share[:, None] * exact**2).sum()
    assert float(error) == pytest.approx(np.sqrt(missed))
    assert error < 0.1
    with pytest.raises(ValueError, match='train with features="states"'):
        probing.freeze(params, world, dataclasses.replace(config, features="sites"))


# Worlds.


def of_ones_own(cell, facing, worth):
    return jnp.append(worth, facing)


@pytest.mark.parametrize(
    ("observation", "size"),
    [("index", 21), ("index+remaining+flat", 24), ("cell+remaining", 5), ("symbolic", 49), (of_ones_own, 4)],
)
def test_any_observation_that_is_a_vector(observation, size):
    world = make("two-rooms-7", horizon=7, observation=observation, slip=0.2, threshold=0.3, start="uniform")
    config = dataclasses.replace(TINY, features="sites", environments=2)
    state, info = jax.eval_shape(lambda: a2c.train(KEY, world, config))
    assert state.params.lstm.inputs.weight.shape == (size, 24)
    assert state.params.features.weight.shape == (6, 3)
    assert info.sampled.shape == (2,)


def test_pictures_are_refused():
    for name in ("top-down+remaining", "top-down:4:unfading"):
        with pytest.raises(ValueError, match=r"is a picture, and a2c has no network for pictures: choose another"):
            a2c.init(KEY, make("two-rooms-7", observation=name), TINY)


def test_a_gymnasium_environment_gives_the_same_sequences(played):
    """The agent's actions, taken step by step in the Gymnasium form of the world, yield the data it learns from."""
    steps = jax.tree_util.tree_map(lambda leaf: np.asarray(leaf)[:, 0], played[3].steps)
    fresh = int(np.flatnonzero(steps.truncated)[0]) + 1
    steps = jax.tree_util.tree_map(lambda leaf: leaf[fresh:], steps)
    env = Environment(ROOMS)
    seen, rewards, moments, after = env.reset()[0], [], [], []

    def moment(seen):
        x = np.append(np.eye(ROOMS.n_states)[seen["view"]], seen["remaining"] / 10)
        return a2c.Moment(x, seen["view"], seen["remaining"])

    for action in steps.action:
        moments.append(moment(seen))
        seen, reward, terminated, truncated, _ = env.step(int(action))
        after.append(moment(seen))
        rewards.append(reward)
        if terminated or truncated:
            seen, _ = env.reset()
    np.testing.assert_allclose(rewards, steps.reward)
    for ours, theirs in ((steps.observation, moments), (steps.next_observation, after)):
        for part in a2c.Moment._fields:
            found = np.stack([getattr(each, part) for each in theirs])
            np.testing.assert_allclose(getattr(ours, part), found, atol=1e-6)
