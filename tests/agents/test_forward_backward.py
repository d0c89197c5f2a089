import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents.common import replay
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import play
from wane.agents.forward_backward import acting, probing, training
from wane.agents.forward_backward.lambda_learning import Step
from wane.agents.forward_backward.model import LITERAL, Config, Schedule, all_features, sample_z, softmax_policy
from wane.agents.forward_backward.tasks import random_goals, sample_tasks, undiscounted_returns, with_rewards
from wane.worlds import make

WORLD = make("corridor", length=5, horizon=20)
SMALL = Config(
    dimension=8,
    width=32,
    depth=1,
    discount=0.9,
    batch=64,
    horizon=20,
    learning_rate=3e-3,
    polyak=0.8,
    replay=4000,
    schedule=Schedule(epochs=200, cycles=1, episodes=2, batches=10),
)
F = jnp.array([[1.0, 2.0], [0.0, -1.0]])
B = jnp.array([[1.0, 0.0], [1.0, 1.0]])
KEY = jax.random.key(0)
KEYS, LAMS = jax.random.split(KEY, 2), jnp.array([0.5, 1.0])


@pytest.fixture(scope="module")
def trained():
    """One run with λ = ½ and one with λ = 1, as one program."""
    return jax.jit(jax.vmap(lambda key, lam: training.train(key, WORLD, dataclasses.replace(SMALL, lam=lam))))(
        KEYS, LAMS
    )


def pick(tree, i):
    return jax.tree_util.tree_map(lambda leaf: leaf[i], tree)


def test_bellman_term_by_hand():
    # F Bᵀ = [[1, 3], [0, −1]]; less ½ · target = [[0, 2], [0, −2]]; squares 0, 4, 0, 4; half of their mean is 1.
    target = jnp.array([[2.0, 2.0], [0.0, 2.0]])
    assert training.bellman_term(F, B, target, 0.5) == 1.0


def test_diagonal_term_by_hand():
    assert training.diagonal_term(jnp.array([1.0, -1.0, 6.0])) == -2.0


@pytest.mark.parametrize(("lam", "value"), [(0.5, 0.875), (0.0, 1.75), (1.0, 0.0)])
def test_correction_term_by_hand(lam, value):
    # γ μ mean(own · target_own) = ½ · ½ · mean(3 · 4, 2 · 1) = 1.75
    own, target_own = jnp.array([3.0, 2.0]), jnp.array([4.0, 1.0])
    assert training.correction_term(own, target_own, lam, 0.5, 0.5) == value


def test_correction_term_takes_a_lam_for_each_sample():
    # γ μ mean(½ · 12, 1 · 2) = ¼ · 4
    assert (
        training.correction_term(jnp.array([3.0, 2.0]), jnp.array([4.0, 1.0]), jnp.array([0.5, 0.0]), 0.5, 0.5) == 1.0
    )


def test_orthonormality_term_by_hand():
    # B Bᵀ of the pairs: [[1, 1], [1, 2]]; mean of squares 7/4, less the mean of |B_j|² = 3/2.
    assert training.orthonormality_term(B, B) == 0.25


def test_orthonormality_term_has_a_quarter_of_the_gradient_of_the_norm():
    b = jax.random.normal(KEY, (6, 3))

    def norm(b):
        return jnp.sum((b.T @ b / len(b) - jnp.eye(3)) ** 2)

    np.testing.assert_allclose(jax.grad(training.orthonormality_term)(b, b), jax.grad(norm)(b) / 4, atol=1e-12)


@pytest.mark.parametrize(
    ("lam", "discount"),
    [(0.0, 0.9), (0.5, 0.9), (1.0, 0.9), (np.array([0.0, 0.3, 1.0, 0.5, 0.9]), 0.9), (0.5, 1.0)],
)
def test_the_exact_representation_is_where_the_loss_has_no_slope(lam, discount):
    """With B = I, F_jᵀ B is a row of φ = Φ / μ, and all (s, a) and s' are the whole expectation."""
    n, a = WORLD.n_states, WORLD.n_actions
    chances = jax.nn.softmax(jax.random.normal(KEY, (n, a)))
    phi = n * probing.representation_of(WORLD, chances, lam, discount)
    ahead = jnp.einsum("sa,sat->st", chances, phi)[WORLD.map.next_states(a)].reshape(n * a, n)
    cell = jnp.repeat(jnp.arange(n), a)
    lam_here = jnp.broadcast_to(jnp.asarray(lam), (n,))[cell]

    def loss(f):
        own, target_own = f[jnp.arange(n * a), cell], ahead[jnp.arange(n * a), cell]
        correction = training.correction_term(own, target_own, lam_here, 1 / n, discount)
        return training.bellman_term(f, jnp.eye(n), ahead, discount) + training.diagonal_term(own) + correction

    np.testing.assert_allclose(jax.grad(loss)(phi.reshape(n * a, n)), 0, atol=1e-13)


def test_loss_is_the_papers_double_sum():
    """All of it, target networks and policy included, from the algorithm box with loops."""
    config = dataclasses.replace(SMALL, batch=3, temperature=2.0, regulariser=0.7)
    online, target = (training.init(jax.random.key(i), WORLD, config).params for i in (1, 2))
    none = jnp.zeros(3)
    step = Step(jnp.array([0, 3, 3]), jnp.array([1, 3, 2]), none, none, jnp.array([1, 4, 3]))
    z = jax.random.normal(KEY, (3, 8))
    batch = training.Samples(step, jnp.array([4, 0, 2]), jnp.array([1, 1, 2]), z, None, step)
    lam = np.array([0.5, 0.2, 0.2])
    total, terms = training.loss(online, training.with_targets(batch, target, config), jnp.asarray(lam), config)

    def f(params, j, cell):
        return np.asarray(params.forward(cell, z[j]))

    b, b_target = (np.asarray(params.backward()) for params in (online, target))
    expected = 0.0
    for j in range(3):
        f_j = f(online, j, step.cell[j])[step.action[j]]
        ahead = f(target, j, step.next_cell[j])
        chances = np.exp(ahead @ np.asarray(z[j]) / 2.0)
        ahead = chances / chances.sum() @ ahead
        s = step.cell[j]
        expected -= f_j @ b[s] / 3
        expected += 0.9 * (1 - lam[j]) / 3 * (1 / 5) * (f_j @ b[s]) * (ahead @ b_target[s])
        expected -= 0.7 * b[s] @ b[s] / 3
        for k in range(3):
            column, other = batch.column[k], batch.other[k]
            expected += (f_j @ b[column] - 0.9 * ahead @ b_target[column]) ** 2 / (2 * 9)
            expected += 0.7 * (b[s] @ b[other]) ** 2 / 9
    assert total == pytest.approx(expected, rel=1e-12)
    without = training.loss(online, training.with_targets(batch, target, config), 1.0, config)[1]
    assert without.correction == 0
    assert without[:2] == terms[:2]


def test_training_finds_the_exact_representation(trained):
    error = np.median(trained[1].misfit.rms, axis=-1)
    assert error.shape == (2, 200)
    assert (error[:, 0] > 0.9).all()
    assert (error[:, -10:] < 0.08).all()
    assert (np.median(trained[1].misfit.largest, axis=-1)[:, -10:] < 0.15).all()


def test_what_is_learned_is_the_lam_asked_for(trained):
    """Measured against the other λ, the error is large."""
    z = jax.random.normal(KEY, (8,))
    for i, (right, wrong) in enumerate([(0.5, 1.0), (1.0, 0.5)]):
        params = pick(trained[0].params, i)
        good, bad = (probing.misfit(params, z, lam, WORLD, SMALL).rms for lam in (right, wrong))
        assert good < 0.1 < 0.3 < bad


def test_trained_agent_collects_both_rewards(trained):
    """From the middle of five cells, 20 steps: two steps to one end, visits there, four to the other."""
    for i in range(2):
        _, episode = play(KEY, WORLD, acting.policy(pick(trained[0].params, i), WORLD))
        assert {0, 4} <= set(np.asarray(episode.cells).tolist())
        assert episode.rewards.sum() > 3.9
    staying = dataclasses.replace(WORLD, depletion=wane.Geometric(1.0))
    _, episode = play(KEY, staying, acting.policy(pick(trained[0].params, 1), staying))
    assert episode.rewards.sum() == 19


def test_training_in_parts_is_training_at_once_and_targets_follow(trained):
    def part(key, lam, state, e):
        return training.train(key, WORLD, dataclasses.replace(SMALL, lam=lam), state, e, epochs=1)

    program, state = jax.jit(jax.vmap(part, (0, 0, 0, None))), before_all(KEYS, LAMS)
    for e in range(200):
        before = state
        state, info = program(KEYS, LAMS, state, e)
    followed = jax.tree_util.tree_map(lambda old, new: 0.8 * old + 0.2 * new, before.target, state.params)
    assert_close(state.target, followed)
    assert not np.allclose(before.target.backward.first.weight, state.target.backward.first.weight)
    whole, infos = trained
    assert all(leaf.dtype.kind in "fi" for leaf in jax.tree_util.tree_leaves(whole))
    assert_close(state, whole)
    assert_close(info, jax.tree_util.tree_map(lambda leaf: leaf[:, -1:], infos))


def before_all(keys, lams):
    return jax.vmap(lambda key, lam: training.init(key, WORLD, dataclasses.replace(SMALL, lam=lam)))(keys, lams)


def assert_close(tree, other):
    for a, b in zip(*map(jax.tree_util.tree_leaves, (tree, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_schedules():
    steps = [s.epochs * s.cycles * s.batches for s in (LITERAL, Schedule())]
    episodes = [s.epochs * s.cycles * s.episodes for s in (LITERAL, Schedule())]
    assert steps == [2_500, 100_000]
    assert episodes == [10_000, 10_000]


def test_collection_is_uniform_and_reads_what_is_left_where_the_agent_is():
    steps = jax.jit(lambda: training.collect(KEY, None, WORLD, SMALL, 100))()
    np.testing.assert_array_equal(WORLD.map.next_states(5)[steps.cell, steps.action], steps.next_cell)
    np.testing.assert_array_equal(steps.cell[:, 1:], steps.next_cell[:, :-1])
    shares = np.bincount(np.ravel(steps.action), minlength=5) / steps.action.size
    np.testing.assert_allclose(shares, 0.2, atol=0.04)
    for e in range(3):
        remaining = np.zeros(5)
        remaining[WORLD.sites] = WORLD.rewards
        for t in range(20):
            assert steps.reward[e, t] == remaining[steps.cell[e, t]]
            remaining[steps.next_cell[e, t]] *= 0.5
            assert steps.next_reward[e, t] == remaining[steps.next_cell[e, t]]


def test_collection_without_chance_is_greedy():
    params = training.init(KEY, WORLD, SMALL).params
    steps = jax.jit(lambda: training.collect(KEY, params, WORLD, dataclasses.replace(SMALL, epsilon=0.0), 4))()
    for cells, actions in zip(np.asarray(steps.cell), np.asarray(steps.action), strict=True):
        assert all(len(set(actions[cells == cell])) <= 1 for cell in range(5))


def test_the_replay_is_a_ring():
    def numbered(*values):
        column = jnp.array(values)
        return Step(column, column, column * 1.0, column * 1.0, column)

    example = jax.tree_util.tree_map(lambda leaf: leaf[0], numbered(0))
    kept = replay.add(replay.empty(example, 4), numbered(1, 2, 3))
    assert set(replay.sample(kept, jnp.linspace(0, 0.999, 50)).cell.tolist()) == {1, 2, 3}
    kept = replay.add(kept, numbered(4, 5, 6))
    assert kept.items.cell.tolist() == [5, 6, 3, 4]
    assert int(kept.added) == 6
    assert set(replay.sample(kept, jnp.linspace(0, 0.999, 50)).reward.tolist()) == {3.0, 4.0, 5.0, 6.0}
    with pytest.raises(ValueError, match="make the replay larger"):
        replay.add(kept, numbered(*range(5)))


def test_distribution_of_z():
    z = sample_z(KEY, (4000,), 10, 0.5)
    length = jnp.linalg.norm(z, axis=-1) / np.sqrt(10)
    assert jnp.median(length) == pytest.approx(0.5, rel=0.1)  # the median of |Cauchy(0, ½)|
    np.testing.assert_allclose((z / length[:, None]).mean(0), 0, atol=0.1)


@pytest.mark.parametrize("lam", [0.5, np.array([0.1, 0.5, 0.9, 0.0, 0.3])])
@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_exact_is_the_package_exact_answer(lam, discount):
    config = dataclasses.replace(SMALL, discount=discount, temperature=5.0, lam=lam)
    params, z = training.init(KEY, WORLD, config).params, 3 * jax.random.normal(KEY, (8,))
    chances = np.asarray(softmax_policy(all_features(params, z), z, 5.0))
    truth = wane.lambda_representation(WORLD.mdp.under(chances), lam, discount=discount).action_matrix(WORLD.mdp)
    np.testing.assert_allclose(probing.exact_representation(params, z, lam, WORLD, config), truth, rtol=1e-9)
    found = probing.learned_representation(params, z)
    error = probing.misfit(params, z, lam, WORLD, config)
    assert error.rms == pytest.approx(np.sqrt(((found - truth) ** 2).sum() / (truth**2).sum()))
    assert error.largest == pytest.approx(np.abs(found - truth).max() / truth.max())


def test_goals_are_as_many_as_asked_and_return_is_undiscounted():
    rewards = random_goals(KEY, WORLD.n_states, 2)
    assert rewards.sum() == 2
    assert set(rewards.tolist()) == {0.0, 1.0}
    assert with_rewards(WORLD, rewards).n_sites == WORLD.n_states
    staying = Policy(lambda params, carry, observation, key: (jnp.int32(4), carry, None))
    lasting = dataclasses.replace(WORLD, depletion=wane.Geometric(1.0), start="uniform")
    tasks = sample_tasks(KEY, lasting, 6, 5)
    assert undiscounted_returns(lasting, staying, tasks).tolist() == [20.0] * 6
    again = sample_tasks(KEY, lasting, 6, 5)
    assert again.starts.tolist() == tasks.starts.tolist()
    assert len(set(tasks.starts.tolist())) > 1
    with pytest.raises(ValueError, match="1 to 5, got 6"):
        random_goals(KEY, WORLD.n_states, 6)


def test_with_the_exact_representation_a_wrong_lam_costs_nothing_on_the_papers_task():
    """Two random goals of FourRooms wear off by half, the ceiling is 4. Softmax policies are all but uniform at the
    paper's temperature; as rewards are refreshed at each step, Φ of λ̂ = 1 serves as well as that of ½. What a λ̂ is
    worth in learning is how hard its Φ is to learn."""
    world = make("four-rooms", horizon=50, threshold=None, wall_penalty=0.0)
    phi = jnp.stack([probing.representation_of(world, jnp.full((68, 5), 0.2), lam, 0.99) for lam in (0.0, 0.5, 1.0)])
    tasks = sample_tasks(KEY, world, 200, 2)

    def choose(phi, cell, rewards):
        return jnp.argmax(phi[cell] @ rewards)

    def mean_return(phi):
        return undiscounted_returns(world, acting.acting_on(choose, phi, world), tasks).mean()

    zero, half, one = jax.jit(jax.vmap(mean_return))(phi)
    assert half > 3.99
    assert abs(half - one) < 0.005
    assert zero < half


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(discount=1.0, lam=1.0), "discount = 1: a discount below 1 is needed, because Φ is infinite"),
        (dict(discount=1.0, lam=np.array([0.5, 1.0])), "a discount below 1 is needed"),
        (dict(discount=1.0, condition="uniform"), "discount = 1"),
        (dict(lam=1.5), "lam = 1.5: a λ between 0 and 1 is needed"),
        (dict(epsilon=2.0), "epsilon = 2: a probability between 0 and 1 is needed"),
        (dict(condition="both"), 'condition = both: "nothing", "uniform" or "per state" is needed'),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Config(**settings)
