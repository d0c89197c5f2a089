"""Random chains in every form that users have them in, against truths that share no code with the package.

All probabilities are multiples of 1/64 and all discounts are floats, so every number is an exact fraction. With these,
the hitting equations are solved exactly (`fractions`), with γ = 1 too, and the generating function of the depletion is
summed to more digits than floats have. A second truth follows the definition step by step: it carries the distribution
over (state, memory) forward until what is left out is negligible.
"""

import warnings
from fractions import Fraction
from math import inf, isinf

import jax.numpy as jnp
import mpmath
import numpy as np
from scipy import sparse

import wane
from adversary.frame import Fuzzer, assert_in_words, one_of

ACCURACY = 1e-8
"""The relative error that is allowed. The trials of all methods stayed below 3e-10."""
EPSILON = float(np.finfo(float).eps)
PARTS = 64
DISCOUNTS = (0.0, 0.1, 0.5, 0.9, 0.97, 0.999, 1 - 1e-6, 1 - 1e-9, 1.0, 1.0, 1.0)


def random_kernel(rng: np.random.Generator) -> np.ndarray:
    """A chain of 1 to 5 states: mixing, deterministic, absorbing and ending rows, periodic or reducible at times."""
    n = int(rng.integers(1, 6))
    if rng.random() < 0.1:
        return np.roll(np.eye(n), 1, axis=1)
    kernel = np.zeros((n, n))
    for s in range(n):
        match rng.integers(6):
            case 0:
                kernel[s, rng.integers(n)] = 1
            case 1:
                kernel[s, s] = 1
            case 2 if rng.random() < 0.5:
                pass  # The episode ends.
            case _:
                kernel[s] = rng.multinomial(PARTS, rng.dirichlet(np.full(n, 0.6))) / PARTS
    if n > 2 and rng.random() < 0.3:  # Nobody reaches the last state.
        kernel[:-1, 0] += kernel[:-1, -1]
        kernel[:-1, -1] = 0
    return kernel


def random_form(rng: np.random.Generator, kernel: np.ndarray):
    """The same kernel as users have it: other memory layouts, types, sparse formats, repeated and explicit zeros."""
    whole = bool(np.isin(kernel, (0, 1)).all())
    match rng.integers(12):
        case 0:
            return np.asfortranarray(kernel)
        case 1:
            return kernel.astype(np.float32)
        case 2 if whole:
            return kernel.astype(one_of(rng, np.int64, np.int8, np.uint8, bool))
        case 3:
            return kernel.tolist()
        case 4:
            return np.repeat(np.repeat(kernel, 2, 0), 3, 1)[::2, ::3]
        case 5:
            return one_of(rng, sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.lil_array)(kernel)
        case 6 | 7:
            return _with_repeats(rng, kernel)
        case 8 if len(kernel) == 3:  # JAX compiles for every shape, so only one has its turn.
            return jnp.asarray(kernel)
        case 9:
            return sparse.csr_array(kernel.astype(np.float32))
    return kernel


def _with_repeats(rng: np.random.Generator, kernel: np.ndarray):
    """A sparse matrix that holds every entry in two halves and some zeros, in any order."""
    rows, columns = np.indices(kernel.shape).reshape(2, -1)
    keep = (kernel.ravel() > 0) | (rng.random(kernel.size) < 0.3)
    rows, columns, data = (np.tile(each[keep], 2) for each in (rows, columns, kernel.ravel() / 2))
    order = rng.permutation(len(rows))
    coo = sparse.coo_array((data[order], (rows[order], columns[order])), shape=kernel.shape)
    if rng.random() < 0.5:
        return coo
    order = np.argsort(rows, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(kernel)))])
    return sparse.csr_array((data[order], columns[order], starts), shape=kernel.shape)


def random_curve(rng: np.random.Generator) -> wane.Diminishing:
    """A depletion over visit counts."""
    match rng.integers(6):
        case 0 | 1:
            return wane.Geometric(float(one_of(rng, 0.0, 0.25, 0.5, 0.9, 0.999, 1.0, rng.integers(65) / 64)))
        case 2:
            return wane.FirstVisits(int(one_of(rng, 0, 1, 2, 3, 10, 1000)))
        case 3:
            values = [float(v) for v in rng.integers(-3, 8, rng.integers(1, 5)) / 4]
            return wane.Listed(values, tail=float(one_of(rng, 0.0, 0.0, 0.25, -0.5)))
        case 4:
            return wane.Hyperbolic(float(one_of(rng, 0.0, 0.1, 0.5, 1.0, 3.0, 50.0)))
    return wane.PowerLaw(float(one_of(rng, 0.05, 0.5, 1.0, 1.5, 2.0, 5.0, 25.0)))


def solve_fractions(matrix: list[list[Fraction]], rhs: list[Fraction]) -> list[Fraction]:
    """Gauss' elimination in fractions."""
    n = len(rhs)
    rows = [[*row, value] for row, value in zip(matrix, rhs, strict=True)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [row[n] / row[i] for i, row in enumerate(rows)]


def first_visits(kernel: np.ndarray, discount: float, site: int) -> tuple[list[Fraction], Fraction]:
    """E γ^(time of the first visit) from every state, and E γ^(time to return), exactly."""
    n, gamma = len(kernel), Fraction(discount)
    exact = [[gamma * Fraction(float(p)) for p in row] for row in kernel]
    reaching = {site}
    while more := {s for s in range(n) if s not in reaching and any(exact[s][t] for t in reaching)}:
        reaching |= more
    # Outside of these states the answer is zero, and on them the system is not singular, with γ = 1 neither.
    inner = sorted(reaching - {site})
    matrix = [[Fraction(int(s == t)) - exact[s][t] for t in inner] for s in inner]
    solved = dict(zip(inner, solve_fractions(matrix, [exact[s][site] for s in inner]), strict=True))
    found = [solved.get(s, Fraction(int(s == site))) for s in range(n)]
    return found, sum((exact[site][t] * found[t] for t in range(n)), Fraction(0))


def total_worth(curve: wane.Diminishing, back: Fraction) -> float:
    """Σₙ worth(n) · backⁿ, infinite where it is."""
    if isinstance(curve, wane.Geometric):
        rest = 1 - Fraction(curve.lam) * back
        return float(1 / rest) if rest else inf
    if isinstance(curve, wane.FirstVisits):
        return float(curve.n if back == 1 else (1 - back**curve.n) / (1 - back))
    if isinstance(curve, wane.Listed):
        listed = sum((Fraction(v) * back**i for i, v in enumerate(curve.values)), Fraction(0))
        tail = Fraction(curve.tail) * back ** len(curve.values)
        return float(listed) if not tail else inf if back == 1 else float(listed + tail / (1 - back))
    with mpmath.workdps(30):
        x = mpmath.mpf(back.numerator) / back.denominator
        if isinstance(curve, wane.PowerLaw):
            if back == 1:
                return float(mpmath.zeta(curve.p)) if curve.p > 1 else inf
            return float(mpmath.polylog(curve.p, x).real / x) if x else 1.0
        if curve.k == 0:
            return float(1 / (1 - x)) if back < 1 else inf
        k = mpmath.mpf(curve.k)
        return float(mpmath.hyp2f1(1, 1 / k, 1 + 1 / k, x).real) if back < 1 else inf


def random_sites(rng: np.random.Generator, n: int) -> np.ndarray | None:
    """Some of the states in any order, or None for all of them."""
    return None if rng.random() < 0.5 else rng.permutation(n)[: rng.integers(1, n + 1)]


def compute(kernel, depletion, discount: float, sites):
    """The package's answer, or the error in words with which it refuses."""
    try:
        phi = wane.representation(kernel, depletion, discount=discount, sites=sites)
        return np.asarray(phi.matrix), phi
    except (ValueError, wane.InaccurateSolve) as error:
        assert_in_words(error)
        return error, None


def curve_case(rng: np.random.Generator) -> None:
    """Curves over visit counts against fractions: equal to nine digits, and refused just where infinite."""
    kernel, curve, discount = random_kernel(rng), random_curve(rng), float(one_of(rng, *DISCOUNTS))
    sites = random_sites(rng, len(kernel))
    found, _ = compute(random_form(rng, kernel), curve, discount, sites)
    truth = np.zeros((len(kernel), 0))
    for site in range(len(kernel)) if sites is None else sites:
        first, back = first_visits(kernel, discount, int(site))
        total = total_worth(curve, back)
        column = [float(f) * total if f else 0.0 for f in first]
        truth = np.column_stack([truth, column])
    about = f"{curve!r}, discount {discount!r}, sites {sites}, kernel\n{kernel!r}"
    if isinstance(found, Exception):
        assert np.isinf(truth).any(), f"refused ({found}), but the truth is finite: {about}"
        return
    assert np.isfinite(truth).all(), f"the truth is infinite, the answer is {found}: {about}"
    # Near γ = 1 the system amplifies the rounding of its entries 1 / (1 − γ) times, also where the truth is 0.
    near = 0.999 < discount < 1
    allowed = max(ACCURACY, 10 * EPSILON / (1 - discount)) if near else ACCURACY
    bound = allowed * np.abs(truth) + (allowed if near else 1e-13) * np.abs(truth).max(0)
    assert (np.abs(found - truth) <= bound).all(), f"the truth is\n{truth}, the answer is\n{found}: {about}"


def many_states_case(rng: np.random.Generator) -> None:
    """Hundreds of states: copies of a small chain, shuffled, so that sparse methods have a known answer."""
    small, curve, discount = random_kernel(rng), random_curve(rng), float(one_of(rng, 0.0, 0.5, 0.97, 0.999, 1.0))
    n = len(small)
    copies = 260 // n + int(rng.integers(1, 20))
    order = rng.permutation(copies * n)
    rows, columns, data = sparse.find(sparse.kron(sparse.eye_array(copies), small))
    large = sparse.coo_array((data, (order[rows], order[columns])), shape=(copies * n, copies * n))
    if rng.random() < 0.5:
        halves = [np.tile(each, 2) for each in (order[rows], order[columns], data / 2)]
        by_row = np.argsort(halves[0], kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(halves[0], minlength=copies * n))])
        large = sparse.csr_array((halves[2][by_row], halves[1][by_row], starts), shape=large.shape)
    site = int(rng.integers(n))
    first, back = first_visits(small, discount, site)
    total = total_worth(curve, back)
    found, _ = compute(large, curve, discount, [int(order[site])])
    if isinstance(found, Exception):
        assert isinf(total), f"refused ({found}), but the truth is finite: {curve!r}, discount {discount}, {small!r}"
        return
    truth = np.zeros(copies * n)
    truth[order[:n]] = [float(f) * total if f else 0.0 for f in first]
    np.testing.assert_allclose(
        found[:, 0], truth, rtol=ACCURACY, atol=1e-12, err_msg=f"{curve!r}, {discount}, {small!r}"
    )


def definition(kernel: np.ndarray, depletion, discount: float, site: int, steps: int) -> np.ndarray:
    """Φ by its definition: the distribution over (start, visits, steps since the last visit, state), step by step."""
    n = len(kernel)
    shape = (steps + 2, steps + 2) if isinstance(depletion, wane.TimeElapsed) else (steps + 2, 1)
    held = np.zeros((n, *shape, n))
    held[np.arange(n), 0, min(1, shape[1] - 1), np.arange(n)] = 1
    visits, since = np.indices(shape)
    if shape[1] > 1:
        worth = depletion.lam ** (visits / (depletion.rate * np.maximum(since, 1)))
    else:
        worth = np.asarray(depletion.worth(visits), float)
    totals = np.zeros(n)
    for t in range(steps):
        totals += discount**t * (held[..., site] * worth).sum((1, 2))
        visited, waited = held.copy(), held.copy()
        visited[..., :site], visited[..., site + 1 :], waited[..., site] = 0, 0, 0
        after = np.zeros_like(held)
        after[:, 1:, min(1, shape[1] - 1)] += visited[:, :-1].sum(2)
        if shape[1] > 1:
            after[:, 1:, 2:] += waited[:, 1:, 1:-1]
            after[:, 0] += waited[:, 0]
        else:
            after += waited
        held = after @ kernel
    return totals


def definition_case(rng: np.random.Generator) -> None:
    """Any depletion against its own definition, at discounts that forget quickly."""
    kernel, discount = random_kernel(rng), float(one_of(rng, 0.0, 0.2, 0.4))
    elapsed = wane.TimeElapsed(float(one_of(rng, 0.0, 0.5, 0.9, 1.0)), float(one_of(rng, 0.1, 1.0, 3.0)))
    depletion = elapsed if rng.random() < 0.3 else random_curve(rng)
    site = int(rng.integers(len(kernel)))
    found, phi = compute(random_form(rng, kernel), depletion, discount, [site])
    assert phi is not None, f"refused: {found}"
    truth = definition(kernel, depletion, discount, site, steps=26)
    omitted = phi.truncation + discount**26 / (1 - discount) * depletion.bound
    np.testing.assert_allclose(found[:, 0], truth, rtol=ACCURACY, atol=1e-9 + omitted, err_msg=f"{depletion!r}")


def regrowth_case(rng: np.random.Generator) -> None:
    """Rewards that grow back, by the recursion of their expected memory over time."""
    kernel, discount = random_kernel(rng), float(one_of(rng, 0.0, 0.3, 0.8, 0.95))
    kind = one_of(rng, wane.EligibilityTrace, wane.TotalTime)
    equation = one_of(rng, "reward", "representation")
    depletion = kind(float(one_of(rng, 0.0, 0.5, 0.9, 1.0)), float(one_of(rng, 0.5, 0.9, 0.99, 1.0)), equation)
    site = int(rng.integers(len(kernel)))
    truth = _regrowth_truth(kernel, depletion, discount, site)
    found, _ = compute(random_form(rng, kernel), depletion, discount, [site])
    about = f"{depletion!r}, discount {discount}, site {site}, kernel\n{kernel!r}"
    if isinstance(found, Exception):
        assert not np.isfinite(truth).all(), f"refused ({found}), but the truth is {truth}: {about}"
    else:
        np.testing.assert_allclose(found[:, 0], truth, rtol=ACCURACY, atol=1e-9, err_msg=about)


def _regrowth_truth(kernel: np.ndarray, depletion, discount: float, site: int) -> np.ndarray:
    """The sum over all time of what is paid, where the expected memory moves on by a matrix from step to step."""
    n, at_site = len(kernel), np.diag(np.eye(len(kernel))[site])
    # What happens where the site cannot be reached from does not count, and it may grow beyond all numbers.
    step = discount * kernel * (np.linalg.matrix_power(kernel + np.eye(n), n)[:, site] > 0)
    if isinstance(depletion, wane.TotalTime):
        factor = np.where(np.diag(at_site) > 0, depletion.drop, depletion.growth)
        return _sum_of_powers(factor[:, None] * step)[:, site]
    # The probability of each state, and beside it the trace times that probability: visits add to the trace.
    fading = depletion.regrow * step
    totals = _sum_of_powers(np.block([[step, at_site @ fading], [np.zeros((n, n)), fading]]))
    lost, present = 1 - depletion.drop, 1.0 if depletion.equation == "representation" else 0.0
    return (1 - lost * present) * totals[:n, site] - lost * totals[:n, n + site]


def _sum_of_powers(matrix: np.ndarray) -> np.ndarray:
    """I + A + A² + …, by doubling the number of terms 40 times; infinite where the powers do not vanish."""
    total, power = np.eye(len(matrix)), matrix
    for _ in range(40):
        total, power = total + power @ total, power @ power
        if power.max() > 1e100:
            break
    return total if power.max() < 1e-12 else np.full_like(total, inf)


def broken_case(rng: np.random.Generator) -> None:
    """What is no kernel, no discount or no site is refused in words, and never answered."""
    kernel = random_kernel(rng)
    n, discount, sites = len(kernel), 0.9, None
    row, column = int(rng.integers(n)), int(rng.integers(n))
    match rng.integers(9):
        case 0:
            kernel[row] = 0
            kernel[row, column] = one_of(rng, 0.5, 0.999, 1.01, 2.0, 1e100)
        case 1:
            kernel[row, column] = one_of(rng, np.nan, np.inf, -np.inf, -0.25)
        case 2:
            kernel = one_of(rng, kernel[:, :0], kernel[0], kernel[None], np.zeros((0, 0)), np.ones((2, 3)) / 3)
        case 3:
            kernel = one_of(rng, kernel.astype(complex), kernel.astype(str), kernel.astype(object), np.ones((2, 2)) > 0)
        case 4 | 5:
            discount = one_of(rng, -0.1, 1.5, 5, np.nan, np.inf, -np.inf, 1 + 1e-9)
        case 6:
            sites = one_of(rng, [], [n], [-1], [0, 0], [0.5], np.array([[0]]), [np.nan])
        case 7:
            kernel = sparse.csr_array(kernel)
            kernel.data = kernel.data * one_of(rng, 0.5, -1, np.nan, 1.25)
            if not kernel.nnz:
                return
        case 8:
            kernel, sites = random_form(rng, kernel), one_of(rng, [n + 5], [2**40], "01")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            phi = wane.representation(kernel, wane.Geometric(0.5), discount=discount, sites=sites)
        except (ValueError, TypeError) as error:
            return assert_in_words(error)
    raise AssertionError(f"answered {phi.matrix} for kernel {kernel!r}, discount {discount}, sites {sites}")


FUZZERS = (
    Fuzzer("curves", curve_case, 350),
    Fuzzer("definition", definition_case, 200),
    Fuzzer("regrowth", regrowth_case, 150),
    Fuzzer("broken-chains", broken_case, 300),
    Fuzzer("many-states", many_states_case, 0),
)
