"""Conjugate gradients and BiCGSTAB on many right-hand sides at once: one sparse product a step serves all columns.

A column that has reached its goal, or broken down, is left as it is while the others go on; whoever called measures the
true residual and starts again where that is not small yet.
"""

from typing import Any

import numpy as np


def largest(x: np.ndarray) -> np.ndarray:
    """Largest magnitude in each column; long runs of memory make NumPy's reduction several times faster."""
    rows, columns = x.shape
    if rows >= 4096 and 1 < columns <= 64 and x.flags.c_contiguous:
        whole = rows - rows % 64
        folded = largest(x[:whole].reshape(-1, 64 * columns)).reshape(64, columns)
        x = np.concatenate([folded, x[whole:]])
    return np.abs(x).max(axis=0)


def _dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Column by column; einsum, because BLAS would start threads for each of these short products."""
    return np.einsum("ij,ij->j", a, b)


def _ratio(top: np.ndarray, bottom: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Quotient per column; zero on finished columns and at a breakdown, which leaves the column as it is."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=wanted & (bottom != 0.0))


class _Progress:
    """Which columns are still worked on; x's size enters the goal, and is looked up only now and then."""

    def __init__(self, r: np.ndarray, goal: np.ndarray):
        self.goal, self.start = goal, largest(r)
        self.level = goal * self.start
        self.active = np.ones(goal.size, bool)

    def update(self, iteration: int, x: np.ndarray, squared: np.ndarray) -> bool:
        if iteration % 10 == 0:
            self.level = self.goal * (2.0 * largest(x) + self.start)
        self.active &= squared > self.level**2
        return bool(self.active.any())


def conjugate_gradients(matrix: Any, r: np.ndarray, goal: np.ndarray, budget: int) -> tuple[np.ndarray, int]:
    """CG on every column at once, from zero; returns the solution and the iterations taken."""
    x, p, work = np.zeros_like(r), r.copy(), np.empty_like(r)
    progress, squared = _Progress(r, goal), _dots(r, r)
    for iteration in range(1, budget + 1):
        q = matrix @ p
        alpha = _ratio(squared, _dots(p, q), progress.active)
        x += np.multiply(p, alpha, out=work)
        r -= np.multiply(q, alpha, out=work)
        before, squared = squared, _dots(r, r)
        if not progress.update(iteration, x, squared) or not alpha.any():
            return x, iteration
        p *= _ratio(squared, before, progress.active)
        p += r
    return x, budget


def bicgstab(matrix: Any, r: np.ndarray, goal: np.ndarray, budget: int) -> tuple[np.ndarray, int]:
    """BiCGSTAB on every column at once, from zero; returns the solution and the iterations taken."""
    x, shadow, p, work = np.zeros_like(r), r.copy(), r.copy(), np.empty_like(r)
    progress, rho = _Progress(r, goal), _dots(r, r)
    for iteration in range(1, budget + 1):
        v = matrix @ p
        alpha = _ratio(rho, _dots(shadow, v), progress.active)
        r -= np.multiply(v, alpha, out=work)
        t = matrix @ r
        omega = _ratio(_dots(t, r), _dots(t, t), progress.active)
        x += np.multiply(p, alpha, out=work)
        x += np.multiply(r, omega, out=work)
        r -= np.multiply(t, omega, out=work)
        if not progress.update(iteration, x, _dots(r, r)) or not alpha.any():
            return x, iteration
        before, rho = rho, _dots(shadow, r)
        beta = _ratio(rho, before, progress.active) * _ratio(alpha, omega, progress.active)
        p -= np.multiply(v, omega, out=work)
        p *= beta
        p += r
    return x, budget
