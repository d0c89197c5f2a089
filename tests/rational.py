"""Truth in rational arithmetic: representations of tiny chains, exact at every γ and λ.

A kernel of floats stands for the rational matrix whose rows sum to one exactly: each entry divided by its row's sum. An
infinite value is None.
"""

from fractions import Fraction

import mpmath

import wane


def rational_kernel(kernel):
    rows = [[Fraction(float(p)) for p in row] for row in kernel]
    return [[p / sum(row) for p in row] if any(row) else row for row in rows]


def solved(weights, rhs):
    """x = weights · x + rhs, the smallest solution that is not negative; None where it is infinite.

    The states from which no b > 0 can be reached have x = 0. Among the others, a closed class that loses nothing makes
    x infinite, on it and wherever it can be reached from.
    """
    n = len(rhs)
    paying = _reaching(weights, [i for i in range(n) if rhs[i] > 0])
    endless = [i for i in paying if _goes_on_for_ever(weights, i, paying)]
    infinite = _reaching(weights, endless)
    finite = [i for i in paying if i not in infinite]
    table = [[(i == j) - weights[i][j] for j in finite] + [rhs[i]] for i in finite]
    x = _gauss(table)
    return [None if i in infinite else x[finite.index(i)] if i in finite else Fraction(0) for i in range(n)]


def _reaching(weights, goals):
    found = set(goals)
    while more := {i for i, row in enumerate(weights) if i not in found and any(row[j] for j in found)}:
        found |= more
    return found


def _goes_on_for_ever(weights, i, paying):
    """Whether i is in a closed class whose rows all sum to one."""
    ahead, todo = set(), [i]
    while todo:
        j = todo.pop()
        if j not in ahead:
            ahead.add(j)
            todo += [k for k, w in enumerate(weights[j]) if w]
    return all(sum(weights[j]) == 1 for j in ahead) and ahead <= paying


def _gauss(table):
    n = len(table)
    for k in range(n):
        pivot = next(i for i in range(k, n) if table[i][k])
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [a / table[k][k] for a in table[k]]
        for i in range(n):
            if i != k and table[i][k]:
                table[i] = [a - table[i][k] * b for a, b in zip(table[i], table[k], strict=True)]
    return [row[-1] for row in table]


def first_visit_and_return(kernel, discount, site):
    """F(·, site) and R(site), by stopping the chain at the site."""
    n = len(kernel)
    moves = [[discount * p if i != site else Fraction(0) for p in row] for i, row in enumerate(kernel)]
    first = solved(moves, [Fraction(i == site) for i in range(n)])
    return first, discount * sum(p * f for p, f in zip(kernel[site], first, strict=True))


def generating_function(depletion, returning):
    """Σ f(n) Rⁿ as a Fraction or an mpmath number; None if it is infinite."""
    mpmath.mp.dps = 40
    x = mpmath.mpf(returning.numerator) / returning.denominator
    match depletion:
        case wane.Geometric():
            rest = 1 - Fraction(depletion.lam) * returning
            return 1 / rest if rest else None
        case wane.FirstVisits():
            return sum(returning**n for n in range(depletion.n))
        case wane.Listed():
            n = len(depletion.values)
            listed = sum(Fraction(v) * returning**i for i, v in enumerate(depletion.values))
            if not depletion.tail:
                return listed
            return listed + Fraction(depletion.tail) * returning**n / (1 - returning) if returning < 1 else None
        case wane.PowerLaw():
            if returning == 1:
                return mpmath.zeta(depletion.p) if depletion.p > 1 else None
            return mpmath.re(mpmath.polylog(depletion.p, x)) / x if returning else 1
        case wane.Hyperbolic():
            k = mpmath.mpf(depletion.k)
            return mpmath.hyp2f1(1, 1 / k, 1 + 1 / k, x) if returning < 1 else None


def curve(kernel, depletion, discount, site):
    """The column Φ(·, site) of a curve over visit counts."""
    first, returning = first_visit_and_return(rational_kernel(kernel), Fraction(discount), site)
    paid = generating_function(depletion, returning)
    return [_times(f, paid) for f in first]


def weighted(kernel, weights, rhs):
    """x = diag(weights) · P · x + rhs. Weights are γλ on a patch, or γλ_d at a site and γq elsewhere (total time)."""
    exact = rational_kernel(kernel)
    moves = [[w * p for p in row] for w, row in zip(weights, exact, strict=True)]
    return solved(moves, [Fraction(b) for b in rhs])


def _times(f, paid):
    if not f:
        return 0.0
    if paid is None:
        return None
    return (
        float(f * paid) if isinstance(paid, Fraction | int) else float(mpmath.mpf(f.numerator) / f.denominator * paid)
    )
