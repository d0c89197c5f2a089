import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import wane
from wane.kernels import check_kernel
from wane.mdp import check_discount, check_sites

RNG = np.random.default_rng(0)
DENSE = RNG.dirichlet(np.ones(4), (4, 3))
SPARSE = [sparse.csr_array(DENSE[:, a]) for a in range(3)]
TABLE = np.array([[1, 2], [0, 2], [2, 0]])


def as_array(kernel):
    return kernel.toarray() if sparse.issparse(kernel) else np.asarray(kernel)


@pytest.mark.parametrize("transitions", [DENSE, SPARSE, jnp.asarray(DENSE)], ids=["dense", "sparse", "jax"])
def test_every_form_gives_the_same_kernels(transitions):
    mdp = wane.MDP(transitions)
    assert (mdp.n_states, mdp.n_actions) == (4, 3)
    actions, mixed = np.array([2, 0, 1, 1]), RNG.dirichlet(np.ones(3), 4)
    np.testing.assert_allclose(as_array(mdp.under(actions)), DENSE[np.arange(4), actions])
    np.testing.assert_allclose(as_array(mdp.under(mixed)), np.einsum("sa,sat->st", mixed, DENSE))
    values, columns = RNG.random((4, 2)), RNG.random((4, 3))
    np.testing.assert_allclose(mdp.backup(values), DENSE @ values)
    np.testing.assert_allclose(mdp.backup(values[:, 0]), DENSE @ values[:, 0])
    states = np.array([3, 0, 2])
    np.testing.assert_allclose(mdp.backup_at(states, columns), np.einsum("iat,ti->ia", DENSE[states], columns))
    np.testing.assert_allclose(as_array(mdp.action(1)), DENSE[:, 1])


def test_table_of_next_states():
    mdp = wane.MDP(TABLE)
    assert repr(mdp) == "MDP(3 states, 2 actions, sparse)"
    assert as_array(mdp.under([1, 0, 0])).argmax(1).tolist() == [2, 0, 2]


def test_sparse_input_stays_sparse_at_a_million_states():
    n = 1_000_000
    table = np.stack([np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)], axis=1)
    kernel = wane.MDP(table).under(np.full((n, 2), 0.5))
    assert sparse.issparse(kernel)
    assert kernel.nnz == 2 * n


def test_policies_traced_by_jax():
    mdp = wane.MDP(jnp.asarray(DENSE))
    kernel = jax.jit(lambda logits: mdp.under(jax.nn.softmax(logits)))(jnp.zeros((4, 3)))
    np.testing.assert_allclose(kernel, DENSE.mean(1))


def test_frozen_lake():
    mdp = wane.MDP(gymnasium.make("FrozenLake-v1", is_slippery=True))
    assert (mdp.n_states, mdp.n_actions) == (16, 4)
    kernel = as_array(mdp.under(np.full((16, 4), 0.25)))
    holes_and_goal = [5, 7, 11, 12, 15]
    assert np.flatnonzero(kernel.sum(1) == 0).tolist() == holes_and_goal
    np.testing.assert_allclose(kernel[0, [0, 1, 4]], [0.5, 0.25, 0.25])
    goal = wane.successor_representation(kernel, discount=1.0, sites=[15]).matrix
    assert 0 < goal[0, 0] < goal[14, 0] < 1 == goal[15, 0]


def test_taxi():
    mdp = wane.MDP(gymnasium.make("Taxi-v3" if "Taxi-v4" not in gymnasium.registry else "Taxi-v4"))
    assert (mdp.n_states, mdp.n_actions) == (500, 6)
    ended = np.flatnonzero(as_array(mdp.action(0)).sum(1) == 0)
    assert len(ended) == 4, "the passenger is delivered at one of four places"


def test_gymnasium_without_transitions():
    with pytest.raises(TypeError, match="does not publish its transitions as `P`"):
        wane.MDP(gymnasium.make("CartPole-v1"))


def broken(row, column, value):
    kernel = np.full((3, 3), 1 / 3)
    kernel[row, column] = value
    return kernel


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, jnp.asarray], ids=["dense", "sparse", "jax"])
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            np.array([[0.5, 0.5], [0.5, 0.43]]),
            r"kernel row 1 sums to 0.93, off by -0.07: rows must sum to 1.*episode ends",
        ),
        (broken(2, 1, -0.5), r"kernel row 2, column 1 is -0.5: probabilities lie in \[0, 1\]"),
        (broken(1, 0, np.nan), "kernel row 1, column 0 is nan"),
        (broken(0, 2, np.inf), "kernel row 0, column 2 is inf"),
        (np.full((4, 4), 0.2), r"kernel row 0 sums to 0.8.*\(and 3 more such rows\)"),
        (np.ones((2, 3)) / 3, r"square matrix.*got shape \(2, 3\)"),
    ],
)
def test_bad_kernels_are_named(form, kernel, message):
    with pytest.raises(ValueError, match=message):
        check_kernel(form(kernel))


def test_other_bad_kernels():
    with pytest.raises(ValueError, match="at least one state"):
        check_kernel(np.zeros((0, 0)))
    with pytest.raises(TypeError, match="real numbers, but this one has dtype complex128"):
        check_kernel(np.eye(2) * 1j)
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        check_kernel(np.ones(3))


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (aslinearoperator(np.eye(2)), TypeError, "only multiplies vectors: pass the matrix itself"),
        (lambda x: x, TypeError, "a square array or a sparse matrix, got the type function"),
        (None, TypeError, "got the type NoneType"),
        (wane.worlds.make("toy"), TypeError, r"got the type World: pass its mdp.under\(policy\)"),
        ([[1], [0, 1]], ValueError, "the rows of a kernel must have the same length"),
    ],
)
def test_what_is_no_kernel(kernel, error, message):
    with pytest.raises(error, match=message):
        check_kernel(kernel)


@pytest.mark.parametrize(
    ("transitions", "error", "message"),
    [
        (np.ones((2, 2, 3)) / 3, ValueError, r"shape \(states, actions, states\), got \(2, 2, 3\)"),
        (np.full((2, 2, 2), 0.4), ValueError, "action 0: row 0 sums to 0.8"),
        (
            np.array([[0, 5], [1, 0]]),
            ValueError,
            "state 0, action 1 leads to state 5: states are numbered 0 to 1",
        ),
        (np.array([[0.0, 1.0]]), ValueError, "holds integers"),
        (
            [sparse.eye_array(2), sparse.eye_array(3)],
            ValueError,
            r"action 1 has shape \(3, 3\), action 0 \(2, 2\)",
        ),
        ([np.eye(2)], TypeError, r"transitions are a dense .* got the type list: pass np.array\(…\) of it"),
        ([], TypeError, "transitions are a dense"),
        (lambda state, action: state, TypeError, "transitions are a dense .* got the type function"),
        (sparse.eye_array(2, format="csr"), TypeError, "a list with one sparse .* got the type csr_array"),
        (wane.worlds.make("toy"), TypeError, "got the type World, which has an MDP: pass its mdp"),
    ],
)
def test_bad_transitions(transitions, error, message):
    with pytest.raises(error, match=message):
        wane.MDP(transitions)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([0, 1, 2], "takes action 2 in state 2: actions are 0 to 1"),
        ([[0.5, 0.5], [1.0, 0.0], [0.2, 0.2]], "policy row 2 sums to 0.4"),
        ([[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]], "policy row 0 sums to 0"),
        ([0, 1], r"shape \(3, 2\); got int64 of shape \(2,\)"),
        ([0.0, 1.0, 0.0], "integer action"),
    ],
)
def test_bad_policies(policy, message):
    with pytest.raises(ValueError, match=message):
        wane.MDP(TABLE).under(policy)


@pytest.mark.usefixtures("unchecked_types")
def test_discounts_and_sites():
    assert check_discount(1) == 1.0
    for bad in (1.5, -0.1, np.nan, [0.5, 0.5]):
        with pytest.raises(ValueError, match=r"discount must be one number in \[0, 1\]"):
            check_discount(bad)
    assert check_sites(None, 3).tolist() == [0, 1, 2]
    assert check_sites([True, False, True], 3).tolist() == [0, 2]
    assert check_sites(1, 3).tolist() == [1]
    for sites, message in [
        ([0, 7], "unknown site 7: states are numbered 0 to 2"),
        ([-1], "unknown site -1"),
        ([1, 1], "site 1 is listed twice"),
        ([0.5], "state numbers"),
        ([True, False], "a mask of sites has one entry for each of the 3 states"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_sites(sites, 3)


def test_actions_that_are_not_available_everywhere():
    """The optimum of the available pairs is that of an MDP in which the other pairs copy an available one."""
    rng = np.random.default_rng(0)
    table, mask = rng.dirichlet(np.ones(4), (4, 3)), np.array([[1, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]], bool)
    state, action = np.nonzero(mask)
    pairs = wane.MDP.from_pairs(state, action, table[mask])
    garbage = wane.MDP(np.where(mask[..., None], table, np.nan), available=mask)
    copied = wane.MDP(
        np.stack([[table[s, a if mask[s, a] else np.argmax(mask[s])] for a in range(3)] for s in range(4)])
    )
    rewards, problem = np.array([1.0, -2.0, 3.0, 0.5]), dict(discount=0.9, horizon=9)
    expected = wane.optimum(copied, rewards, wane.Geometric(0.5), **problem).values
    for mdp in (pairs, garbage):
        found = wane.optimum(mdp, rewards, wane.Geometric(0.5), **problem)
        np.testing.assert_allclose(found.values, expected, rtol=1e-12)
        assert mask[np.arange(4)[:, None], found.policy[0]].all()
        policy = np.argmax(mask, 1)
        phi = wane.representation(mdp.under(policy), wane.Geometric(0.5), discount=0.9)
        assert np.array_equal(np.isneginf(phi.q_values(mdp, rewards)), ~mask)
        with pytest.raises(ValueError, match="the policy takes action 0 in state 1, where only 1 can be taken"):
            mdp.under(np.zeros(4, int))
    assert repr(pairs) == "MDP(4 states, 3 actions, sparse, 7 pairs available)"
    np.testing.assert_allclose(pairs.dense(), np.where(mask[..., None], table, 0.0), rtol=1e-15)
    np.testing.assert_allclose(garbage.dense(), pairs.dense(), rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wane.MDP(np.ones((2, 2), int), [[True, True]]), r"available is a mask of booleans.*here \(2, 2\)"),
        (lambda: wane.MDP(np.ones((2, 1), int), np.ones((2, 1))), "available is a mask of booleans"),
        (lambda: wane.MDP(np.ones((2, 1), int), [[True], [False]]), "no action is available in state 1"),
        (lambda: wane.MDP.from_pairs([0, 0], [1, 1], np.eye(2)), "state 0, action 1 is listed twice"),
        (lambda: wane.MDP.from_pairs([0, 2], [1, 1], np.eye(2)), "pair 1 is state 2, action 1: states are 0 to 1"),
        (lambda: wane.MDP.from_pairs([0], [0, 1], np.eye(2)), "one state, one action and one row"),
        (lambda: wane.MDP.from_pairs([0, 0], [0, 1], np.eye(2)), "no action is available in state 1"),
    ],
)
def test_bad_masks_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
