"""solve against numpy.linalg.solve, the automatic choice, and what happens when a system cannot be solved."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from wane.exact import solve as module
from wane.exact.graph import graph_shape
from wane.exact.solve import BandedLU, DenseLU, InaccurateSolve, Krylov, SparseLU, solve
from wane.exact.system import System

METHODS = ["dense", "banded", "sparse", "krylov", "elimination", SparseLU(single=True)]


def normalised(weights):
    return weights / weights.sum(axis=1, keepdims=True)


def dense_chain(n, rng):
    return normalised(rng.random((n, n)))


def sparse_chain(n, rng, successors=5):
    rows, columns = np.repeat(np.arange(n), successors), rng.integers(0, n, n * successors)
    data = normalised(rng.random((n, successors))).ravel()
    return sp.csr_array(sp.coo_array((data, (rows, columns)), shape=(n, n)))


def cycle(n, rng):
    return np.roll(np.eye(n), 1, axis=1)


def absorbing(n, rng):
    kernel = dense_chain(n, rng)
    kernel[0] = 0.0
    kernel[1] = np.eye(n)[1]
    return kernel


def reducible(n, rng):
    kernel = dense_chain(n, rng)
    kernel[: n // 2, n // 2 :] = 0.0
    return normalised(kernel)


def nearly_uncoupled(n, rng):
    kernel = dense_chain(n, rng)
    kernel[: n // 2, n // 2 :] *= 1e-6
    kernel[n // 2 :, : n // 2] *= 1e-6
    return normalised(kernel)


def sticky(n, rng):
    stay = rng.choice([0.0, 0.9, 0.99999], n)
    return np.diag(stay) + (1.0 - stay)[:, None] * dense_chain(n, rng)


def walk(n):
    i = np.arange(n)
    ends = np.concatenate([np.minimum(i + 1, n - 1), np.maximum(i - 1, 0)])
    return sp.csr_array(sp.coo_array((np.full(2 * n, 0.5), (np.tile(i, 2), ends)), shape=(n, n)))


def grid(side):
    line, eye = walk(side), sp.eye_array(side)
    return sp.csr_array(0.5 * (sp.kron(line, eye) + sp.kron(eye, line)))


def reference(kernel, rhs, discount, scale=None):
    full = kernel.toarray() if sp.issparse(kernel) else kernel
    scale = np.ones(len(full)) if scale is None else scale
    return np.linalg.solve(np.eye(len(full)) - discount * scale[:, None] * full, rhs)


def close(x, expected, tolerance=1e-9):
    np.testing.assert_allclose(x, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("make", [dense_chain, cycle, absorbing, reducible, nearly_uncoupled, sticky])
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_every_method_agrees_with_numpy(make, method, as_sparse):
    rng = np.random.default_rng(0)
    full = make(40, rng)
    kernel = sp.csr_array(full) if as_sparse else full
    rhs = rng.standard_normal((40, 7))
    rhs[:, 3] = 0.0
    solution = solve(kernel, rhs, discount=0.95, method=method)
    close(solution.x, reference(full, rhs, 0.95))
    assert solution.residual < 1e-12
    assert not solution.x[:, 3].any()
    close(solve(kernel, rhs[:, 0], discount=0.95, method=method).x, reference(full, rhs[:, 0], 0.95))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    n=st.integers(1, 30),
    seed=st.integers(0, 10**6),
    discount=st.floats(0.0, 0.999),
    columns=st.integers(1, 5),
    method=st.sampled_from(["auto", *METHODS]),
    scaled=st.booleans(),
)
def test_random_chains(n, seed, discount, columns, method, scaled):
    rng = np.random.default_rng(seed)
    kernel = sparse_chain(n, rng, 3)
    rhs, scale = rng.standard_normal((n, columns)), rng.random(n) if scaled else None
    solution = solve(kernel, rhs, discount=discount, scale=scale, method=method)
    close(solution.x, reference(kernel, rhs, discount, scale), 1e-8)


@pytest.mark.parametrize("method", ["auto", *METHODS], ids=str)
@pytest.mark.parametrize("kernel", [dense_chain(80, np.random.default_rng(1)), grid(9)], ids=["dense", "grid"])
def test_identity_and_zero_discount(method, kernel):
    n = kernel.shape[0]
    close(solve(kernel, None, discount=0.9, method=method).x, reference(kernel, np.eye(n), 0.9))
    np.testing.assert_array_equal(solve(kernel, None, discount=0.0, method=method).x, np.eye(n))


def test_identity_in_several_blocks():
    kernel = grid(24)
    for method in ("sparse", "krylov"):
        close(solve(kernel, None, discount=0.99, method=method).x, reference(kernel, np.eye(576), 0.99))


@pytest.mark.parametrize("method", ["dense", "sparse", "krylov"])
def test_scale_may_exceed_one(method):
    rng = np.random.default_rng(2)
    kernel, scale, rhs = dense_chain(30, rng), rng.random(30) * 1.5, rng.random((30, 2))
    close(solve(kernel, rhs, discount=0.8, scale=scale, method=method).x, reference(kernel, rhs, 0.8, scale))


@pytest.mark.parametrize("method", ["auto", "dense", "sparse", "krylov"])
def test_undiscounted_transient_states(method):
    n = 50
    kernel = sp.csr_array(sp.diags_array([np.full(n - 1, 0.5)] * 2, offsets=[-1, 1]))
    solution = solve(kernel, np.ones(n), discount=1.0, method=method)
    i = np.arange(1, n + 1)
    close(solution.x, i * (n + 1.0 - i))  # gambler's ruin


@pytest.mark.parametrize(
    ("kernel", "columns", "expected"),
    [
        (grid(50), 1, "sparse LU (symmetric minimum degree, float64)"),
        (grid(50), 10, "sparse LU (symmetric minimum degree, float64)"),
        (walk(3000), 1, "banded LU (1 + 1 diagonals)"),
        (sparse_chain(2500, np.random.default_rng(3)), 1, "BiCGSTAB, Jacobi"),
        (sparse_chain(2500, np.random.default_rng(3)), 10, "BiCGSTAB, Jacobi"),
        (grid(8), 1, "dense LU"),
        (dense_chain(300, np.random.default_rng(4)), 3, "dense LU"),
        (sp.csr_array(dense_chain(300, np.random.default_rng(4))), 3, "dense LU"),
    ],
)
@pytest.mark.parametrize("discount", [0.99, 0.9999])
def test_automatic_choice(kernel, columns, expected, discount):
    rhs = np.random.default_rng(5).random((kernel.shape[0], columns))
    solution = solve(kernel, rhs, discount=discount)
    assert solution.method.startswith(expected)
    close(solution.x, reference(kernel, rhs, discount))


@pytest.mark.parametrize(
    ("kernel", "applying"),
    [
        (dense_chain(30, np.random.default_rng(0)), {DenseLU()}),
        (walk(500), {DenseLU(), BandedLU(), SparseLU(), Krylov()}),
        (grid(20), {DenseLU(), SparseLU(), Krylov()}),
        (walk(250_000), {BandedLU(), SparseLU(), SparseLU(single=True), Krylov()}),
    ],
    ids=["dense", "short walk", "grid", "long walk"],
)
def test_methods_know_when_they_apply_and_what_they_cost(kernel, applying):
    system = System(kernel, 0.99, None)
    every = {DenseLU(), BandedLU(), Krylov()} | ({SparseLU(), SparseLU(single=True)} if sp.issparse(kernel) else set())
    assert {method for method in every if method.applies(system, 1)} == applying
    for method in applying:
        one, many = method.cost(system, 1), method.cost(system, 100)
        assert 0 < one < many


@pytest.mark.parametrize("n", [1, 2, 68, 128, 129])
@pytest.mark.parametrize("columns", [None, 1, 2, 64, 65])
def test_small_and_large_dense_systems_agree_with_numpy(n, columns):
    """Up to 128 states other LAPACK routines are used than above."""
    rng = np.random.default_rng(n)
    kernel = dense_chain(n, rng)
    rhs = None if columns is None else rng.random((n, columns))
    solution = solve(kernel, rhs, discount=0.97)
    close(solution.x, reference(kernel, np.eye(n) if rhs is None else rhs, 0.97), 1e-12)
    assert solution.residual < 1e-12


def test_symmetric_kernels_get_conjugate_gradients():
    assert solve(grid(20), np.ones(400), discount=0.9, method="krylov").method.startswith("CG, Jacobi")


def test_tree_is_not_taken_for_a_random_graph():
    n = 4095
    i = np.arange(1, n)
    up = sp.coo_array((np.ones(n - 1), (i, (i - 1) // 2)), shape=(n, n))
    kernel = sp.csr_array(up + up.T)
    kernel = sp.csr_array(sp.diags_array(1.0 / kernel.sum(axis=1)) @ kernel)
    width, _, _ = graph_shape(kernel)
    assert width <= 2.0
    assert solve(kernel, np.ones(n), discount=0.9999).method.startswith("sparse LU")


@pytest.mark.parametrize("method", ["auto", "dense", "sparse", "krylov"])
@pytest.mark.parametrize("make", [dense_chain, cycle, absorbing])
def test_singular_system_is_refused(method, make):
    kernel = make(20, np.random.default_rng(6))
    for given_kernel in (kernel, sp.csr_array(kernel)):
        with pytest.raises(InaccurateSolve, match="closed class"):
            solve(given_kernel, np.ones(20), discount=1.0, method=method)


@pytest.mark.parametrize("method", ["dense", "sparse", "krylov"])
def test_singular_through_scale_is_refused(method):
    kernel = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InaccurateSolve):
        solve(kernel, np.array([1.0, 0.0]), discount=1.0, scale=np.array([2.0, 0.5]), method=method)


def test_krylov_on_too_small_a_budget():
    kernel = grid(40)
    with pytest.raises(InaccurateSolve, match=r"CG, Jacobi, 5 iterations, residual .*Try another method"):
        solve(kernel, np.arange(1600.0), discount=0.9999, method=Krylov(max_iterations=5))


def test_fallback_from_krylov(monkeypatch):
    kernel, rhs = sparse_chain(1500, np.random.default_rng(7)), np.random.default_rng(8).random(1500)
    plans = [Krylov(max_iterations=2), SparseLU(), DenseLU()]
    monkeypatch.setattr(module, "_cheapest_first", lambda system, columns: plans)
    solution = solve(kernel, rhs, discount=0.99)
    assert solution.method.startswith("sparse LU")
    assert "after BiCGSTAB, Jacobi, 2 iterations" in solution.method
    close(solution.x, reference(kernel, rhs, 0.99))


def test_float32_factor_is_refined_to_float64():
    kernel, rhs = grid(60), np.random.default_rng(9).random((3600, 3)) * 1e-60
    solution = solve(kernel, rhs, discount=0.9999, method=SparseLU(single=True))
    assert "refinement" in solution.method
    assert solution.residual <= 1e-14
    np.testing.assert_allclose(solution.x, reference(kernel, rhs, 0.9999), rtol=1e-9)


def test_unknown_method():
    with pytest.raises(ValueError, match="'magic' is unknown"):
        solve(np.eye(2), np.ones(2), discount=0.5, method="magic")
