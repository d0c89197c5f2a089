"""Random chains with sites of all kinds, and their values in extended precision, for `tests/exact/test_local.py`."""

from typing import NamedTuple

import numpy as np

import wane

Long = np.longdouble
DISCOUNTS = (0.0, 0.5, 0.9, 0.97, 0.99, 0.999)


class Case(NamedTuple):
    kernel: np.ndarray
    rewards: dict
    depletion: wane.Diminishing
    discount: float
    starts: np.ndarray


def random_kernel(rng, n):
    match rng.choice(["dense", "sparse", "periodic", "absorbing", "reducible", "line", "mixed"]):
        case "dense":
            kernel = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0, 10.0])), n)
        case "sparse":
            kernel = rng.random((n, n)) * (rng.random((n, n)) < 2.5 / n)
            kernel[np.arange(n), rng.integers(n, size=n)] += 0.1
        case "periodic":
            kernel = np.roll(np.eye(n), 1, axis=1)
        case "absorbing":
            kernel = rng.dirichlet(np.full(n, 0.3), n)
            end = rng.random(n) < 0.3
            kernel[end] = np.eye(n)[end]
        case "reducible":
            kernel = rng.dirichlet(np.full(n, 0.5), n)
            kernel[: n // 2, n // 2 :] = 0
            kernel[np.arange(n), np.arange(n)] += 0.01
        case "line":
            kernel = 0.5 * (np.eye(n, k=1) + np.eye(n, k=-1))
            kernel[0, 0] += 0.5
            kernel[-1, -1] += 0.5
        case _:
            kernel = rng.dirichlet(np.full(n, 0.2), n)
            kernel[rng.random(n) < 0.2] = 0  # episodes end here
    sums = kernel.sum(1, keepdims=True)
    return np.divide(kernel, sums, out=np.zeros_like(kernel), where=sums > 0)


def random_depletion(rng, sites):
    per_site = rng.random() < 0.4
    lam = rng.choice([0.0, 0.3, 0.5, 0.9, 1.0], sites if per_site else None)
    match rng.integers(8):
        case 0 | 1 | 2:
            return wane.Geometric(lam)
        case 3:
            return wane.FirstVisits(rng.integers(0, 6, sites) if per_site else int(rng.integers(0, 6)))
        case 4:
            return wane.Hyperbolic(rng.choice([0.1, 1.0, 5.0], sites) if per_site else 1.0)
        case 5:
            return wane.PowerLaw(rng.choice([0.3, 1.0, 2.5], sites) if per_site else 0.5)
        case 6:
            return wane.Listed([0.0, 1.0, 1.0, 0.0])
        case _:
            return wane.Listed(rng.normal(size=4).round(2), tail=float(rng.choice([0.0, -0.3, 0.2])))


def random_case(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 24))
    kernel, free = random_kernel(rng, n), list(rng.permutation(n))
    rewards = {}
    for _ in range(int(rng.integers(1, 5))):
        size = int(rng.integers(2, 4)) if rng.random() < 0.25 else 1
        chosen, free = free[:size], free[size:]
        if chosen:
            name = int(chosen[0]) if len(chosen) == 1 else frozenset(map(int, chosen))
            rewards[name] = round(float(rng.normal()), 2)
    depletion = random_depletion(rng, len(rewards))
    has_patch = any(isinstance(name, frozenset) for name in rewards)
    discounts = DISCOUNTS[:-1] if has_patch and depletion.common_ratio is None else DISCOUNTS
    starts = rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False)
    return Case(kernel, rewards, depletion, float(rng.choice(discounts)), starts)


def inverse(matrix):
    """Gauss–Jordan in extended precision."""
    n = len(matrix)
    work = np.concatenate([np.asarray(matrix, Long), np.eye(n, dtype=Long)], axis=1)
    for i in range(n):
        pivot = i + int(np.argmax(np.abs(work[i:, i])))
        work[[i, pivot]] = work[[pivot, i]]
        work[i] /= work[i, i]
        others = np.arange(n) != i
        work[others] -= np.outer(work[others, i], work[i])
    return work[:, n:]


def true_values(case):
    """Σ r̄ M_·X M_XX⁻¹ Σₙ f(n) Kⁿ 1 with K = I − M_XX⁻¹, in extended precision."""
    n = len(case.kernel)
    visits = inverse(np.eye(n, dtype=Long) - Long(case.discount) * np.asarray(case.kernel, Long))
    values = np.zeros(n, Long)
    for i, (name, r) in enumerate(case.rewards.items()):
        states = sorted(name) if isinstance(name, frozenset) else [name]
        among = inverse(visits[np.ix_(states, states)])
        returns = np.eye(len(states), dtype=Long) - among
        paid = over_visits(case.depletion.at_sites(i), returns, case.discount)
        values += Long(r) * (visits[:, states] @ (among @ paid))
    return values[case.starts]


def over_visits(depletion, returns, discount):
    ones = np.ones(len(returns), Long)
    if depletion.common_ratio is not None:
        return inverse(np.eye(len(returns), dtype=Long) - Long(float(depletion.common_ratio)) * returns) @ ones
    terms = 1 if discount == 0 else int(45 / -np.log(discount)) + 2
    worths = np.broadcast_to(np.asarray(depletion.worth(np.arange(terms)), float), terms).astype(Long)
    if len(returns) == 1:
        return np.array([np.sum(worths * returns[0, 0] ** np.arange(terms))])
    total = np.zeros_like(ones)
    for worth in worths:
        total, ones = total + worth * ones, returns @ ones
    return total
