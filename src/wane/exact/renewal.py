"""Any memory at all: the chain of (state, memory of the site), reduced to what happens between visits.

A site's reward depends on its own visits only, so the states in between can be eliminated from that chain: all they
contribute is g(τ), the discounted probability of coming back after τ steps. With w_τ(p) = wait^(τ−1)(p), a site that
a visit has just left in memory p is going to pay

    B(p) = Σ_τ g(τ) [ worth(w_τ(p)) + B(visit(w_τ(p))) ],

one linear system over the memories p instead of states × memories; and Φ(s, s'; m) is worth + B ∘ visit at the memory
of the first visit, weighted by its discounted time. This evaluates the time-elapsed scheme, of which the paper says
that it admits no closed-form recursion, and every memory that a user writes. Sums are cut where what is left out is
known to be below a tolerance, and the answer states that bound as `.truncation`.

Memories that take few values are enumerated. One that is a real number is interpolated: polynomials for smooth
schemes, straight lines for others; what is stated then is the change under the last refinement.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.interpolate import BarycentricInterpolator
from scipy.sparse.linalg import spsolve

from wane.depletion import Depletion, check_bound, is_traced
from wane.exact.occupancy import first_and_gap
from wane.exact.representation import Representation, build
from wane.mdp import check_discount, check_kernel, check_sites

TOLERANCE = 1e-6
LONGEST_RETURN = 100_000
MOST_MEMORIES = 4096


class Law(NamedTuple):
    """When a site is visited again."""

    weights: np.ndarray
    """g(τ) = γ^τ P(return after τ steps), τ = 1, …, T"""
    rest: float
    """Σ g(τ) over τ > T"""


class Renewal(Representation):
    """Representation of a depletion with any memory."""

    first: Any
    gap: Any
    laws: tuple[Law, ...]
    tolerance: float
    fresh: Any
    """Φ with no site visited yet"""
    left_out: float

    @property
    def truncation(self) -> float:
        return self.left_out

    @property
    def matrix(self) -> Any:
        return self.fresh

    def at(self, memory: Any) -> Any:
        phi, error = _columns(self, memory)
        if error > self.tolerance:
            raise ValueError(_too_coarse(error, self.tolerance))
        return jnp.asarray(phi) if isinstance(self.kernel, jax.Array) else phi


@build.register
def _(depletion: Depletion, kernel: Any, discount: Any, sites: np.ndarray, method: Any) -> Renewal:
    return _renewal(depletion, kernel, discount, sites, method, TOLERANCE)


def renewal(
    kernel: Any, depletion: Depletion, *, discount: float, sites: Any = None, tolerance: float = TOLERANCE
) -> Renewal:
    """`wane.representation` for any memory, with a say in how much may be left out of infinite sums."""
    kernel = check_kernel(kernel)
    return _renewal(depletion, kernel, check_discount(discount), check_sites(sites, kernel.shape[0]), "auto", tolerance)


def _renewal(depletion, kernel, discount, sites, method, tolerance) -> Renewal:
    if is_traced(kernel, discount, *jax.tree_util.tree_leaves(depletion)):
        raise TypeError(
            f"{type(depletion).__name__} has no closed form and is solved outside of JAX: call this without jit, "
            "grad or vmap"
        )
    if not np.isfinite(depletion.bound):
        raise ValueError(f"{type(depletion).__name__}.bound must be finite: an upper bound of |worth|")
    plain = check_kernel(np.asarray(kernel)) if isinstance(kernel, jax.Array) else kernel
    first, gap, residual, how = first_and_gap(plain, float(discount), sites, method)
    if np.any(gap <= 0):
        raise ValueError(
            f"site {sites[np.argmin(gap)]} is certain to be visited again and again with discount 1: the value of "
            "a reward "
            "that grows back is infinite there. Discount"
        )
    laws = return_laws(plain, float(discount), sites, gap, 0.1 * tolerance * gap**2 / depletion.bound)
    how = f"{how}; renewal over {max(len(law.weights) for law in laws)} return times"
    made = Renewal(kernel, depletion, discount, sites, residual, how, first, gap, laws, tolerance, None, 0.0)
    phi, error = _columns(made, made.fresh_memory)
    if error > tolerance:
        raise ValueError(_too_coarse(error, tolerance))
    phi = jnp.asarray(phi) if isinstance(kernel, jax.Array) else phi
    return Renewal(kernel, depletion, discount, sites, residual, how, first, gap, laws, tolerance, phi, error)


def _too_coarse(error: float, tolerance: float) -> str:
    return (
        f"the sums over visits and memories can be had with an error of {error:.1e} only, more than the tolerance "
        f"{tolerance:.1e}: "
        "call wane.exact.renewal.renewal with a larger tolerance, or discount more"
    )


def return_laws(kernel: Any, discount: float, sites: np.ndarray, gap: np.ndarray, rest: np.ndarray) -> tuple[Law, ...]:
    """g(τ) of every site, until less than `rest` of its return mass 1 − gap is to come."""
    k = np.arange(len(sites))
    transposed = kernel.T.tocsr() if sparse.issparse(kernel) else np.ascontiguousarray(kernel.T)
    rest = np.maximum(rest, 1e-14)
    at = np.zeros((kernel.shape[0], len(sites)))
    at[sites, k] = 1
    weights, left = [], 1 - gap
    while not weights or np.any(left > rest):
        if len(weights) >= LONGEST_RETURN:
            raise ValueError(
                f"after {LONGEST_RETURN} steps site {sites[np.argmax(left - rest)]} still has {left.max():.1e} of "
                "its returns "
                "to come: discount more, or call wane.exact.renewal.renewal with a larger tolerance"
            )
        at = discount * (transposed @ at)
        weights.append(at[sites, k])
        at[sites, k] = 0
        left = left - weights[-1]
    table = np.array(weights)
    return tuple(Law(table[:, j], max(float(left[j]), 0.0)) for j in k)


def _columns(phi: Renewal, memory: Any) -> tuple[np.ndarray, float]:
    """Φ at a memory, and a bound on its error."""
    kernel = np.asarray(phi.kernel) if isinstance(phi.kernel, jax.Array) else phi.kernel
    columns, error = [], 0.0
    for j, site in enumerate(phi.sites):
        depletion = phi.depletion.at_sites(j)
        start = _map(lambda leaf, j=j: np.broadcast_to(leaf, phi.sites.shape)[j : j + 1], memory)
        chain = _SiteChain(depletion, phi.laws[j], float(phi.gap[j]), phi.tolerance)
        first = phi.first[:, j]
        if np.array_equal(_keys(depletion.wait(start)), _keys(start)):
            value, cut = chain.from_visit(start)
            columns.append(first * value[0])
        else:
            negligible = 0.1 * phi.tolerance * float(phi.gap[j]) / depletion.bound
            hits, rest = _first_hits(kernel, float(phi.discount), int(site), first, negligible)
            value, cut = chain.from_visit(_waits(depletion, start, hits.shape[1])[0])
            columns.append(hits @ value)
            cut += rest * depletion.bound / float(phi.gap[j])
        error = max(error, cut)
    return np.stack(columns, axis=1), error


def _first_hits(
    kernel: Any, discount: float, site: int, first: np.ndarray, negligible: float
) -> tuple[np.ndarray, float]:
    """γ^τ P(first visit after τ steps), an array (states, times), and the largest mass left out."""
    at = (np.arange(len(first)) == site).astype(float)
    hits, left = [at], first - at
    while left.max() > max(negligible, 1e-14) and len(hits) < LONGEST_RETURN:
        at = discount * (kernel @ at)
        at[site] = 0
        hits.append(at)
        left = left - at
    return np.stack(hits, axis=1), float(max(left.max(), 0.0))


class _SiteChain(NamedTuple):
    """The linear system over the memories that visits leave behind, for one site."""

    depletion: Depletion
    law: Law
    gap: float
    tolerance: float

    def from_visit(self, memories: Any) -> tuple[np.ndarray, float]:
        """worth + B ∘ visit at the given memories, and a bound on its error."""
        left = self.depletion.visit(memories)
        reachable = self._reachable(_pick(left, np.unique(_keys(left), return_index=True)[1]))
        ahead, error = self._interpolate(left) if reachable is None else self._enumerate(reachable, left)
        return self._worth(memories) + ahead, error + self.law.rest * self.depletion.bound / self.gap**2

    def _worth(self, memories: Any) -> np.ndarray:
        worth = np.asarray(self.depletion.worth(memories), dtype=float)
        check_bound(self.depletion, worth)
        return worth

    @property
    def generations(self) -> int:
        """After so many returns, what is still to come is negligible."""
        if self.gap >= 1:
            return 1
        return int(np.ceil(np.log(0.1 * self.tolerance * self.gap / self.depletion.bound) / np.log1p(-self.gap))) + 1

    def _reachable(self, memories: Any) -> Any | None:
        """All memories that the visits that count leave behind, sorted by key; None if there are too many.

        Scouts with waits of up to three steps first: that finds nearly all of them cheaply.
        """
        age = np.zeros(_count(memories), int)
        for waits in (min(3, len(self.law.weights)), len(self.law.weights)):
            expanded = np.zeros(len(age), bool)
            while np.any(todo := ~expanded & (age < self.generations)):
                expanded |= todo
                table, shape = _waits(self.depletion, _pick(memories, todo), waits)
                after = self.depletion.visit(table)
                older = np.repeat(age[todo] + 1, shape[1])
                memories = _map(lambda a, b: np.concatenate([a, b]), memories, after)
                age = np.concatenate([age, older])
                expanded = np.concatenate([expanded, np.zeros(len(older), bool)])
                order = np.argsort(age, kind="stable")
                memories, age, expanded = _pick(memories, order), age[order], expanded[order]
                _, index = np.unique(_keys(memories), return_index=True)
                memories, age, expanded = _pick(memories, index), age[index], expanded[index]
                if len(age) > MOST_MEMORIES:
                    return None
        return memories

    def _enumerate(self, memories: Any, left: Any) -> tuple[np.ndarray, float]:
        table, shape = _waits(self.depletion, memories, len(self.law.weights))
        pays = self._worth(table).reshape(shape) @ self.law.weights
        keys = _keys(memories)
        index = _find(keys, _keys(self.depletion.visit(table))).reshape(shape)
        inside = index >= 0
        source = np.broadcast_to(np.arange(shape[0])[:, None], shape)[inside]
        weight = np.broadcast_to(self.law.weights, shape)[inside]
        moves = sparse.csr_array((weight, (source, index[inside])), shape=(shape[0], shape[0]))
        ahead = np.asarray(spsolve((sparse.eye_array(shape[0]) - moves).tocsc(), pays)).reshape(-1)
        lost = 0.0 if inside.all() else (1 - self.gap) ** self.generations * self.depletion.bound / self.gap
        return ahead[_find(keys, _keys(left))], lost

    def _interpolate(self, left: Any) -> tuple[np.ndarray, float]:
        if not isinstance(left, np.ndarray) or left.dtype.kind != "f":
            raise ValueError(
                f"{type(self.depletion).__name__} reaches more than {MOST_MEMORIES} different memories: let it "
                "forget (round or cap "
                "what it remembers), or keep one real number"
            )
        low, high = self._range(left)
        best, least = np.zeros(len(left)), np.inf
        for moves, nodes in _interpolations(low, high):
            before = None
            for x in nodes:
                table, shape = _waits(self.depletion, x, len(self.law.weights))
                pays = self._worth(table).reshape(shape) @ self.law.weights
                on_nodes = moves(x, self.depletion.visit(table).reshape(shape), self.law.weights)
                values = np.linalg.solve(np.eye(len(x)) - on_nodes, pays)
                ahead = moves(x, left[:, None], np.ones(1)) @ values
                change = np.inf if before is None else float(np.max(np.abs(ahead - before)))
                best, least = (ahead, change) if change < least else (best, least)
                if least <= 0.5 * self.tolerance:
                    return best, least
                before = ahead
        return best, least

    def _range(self, left: np.ndarray) -> tuple[float, float]:
        low, high = float(left.min()), float(left.max())
        for _ in range(self.generations):
            after = self.depletion.visit(_waits(self.depletion, np.linspace(low, high, 65), len(self.law.weights))[0])
            wider = min(low, float(after.min())), max(high, float(after.max()))
            if not np.all(np.isfinite(wider)):
                raise ValueError(f"the memory of {type(self.depletion).__name__} grows without bound")
            settled = np.allclose(wider, (low, high), rtol=1e-12, atol=1e-12)
            low, high = wider
            if settled:
                break
        return low, high if high > low else low + 1.0


def _interpolations(low: float, high: float):
    """Ways to interpolate on [low, high], each a function (nodes, points, weights) → matrix and ever finer nodes."""
    chebyshev = [np.cos(np.pi * np.arange(n) / (n - 1)) for n in (9, 17, 33, 65)]
    yield _polynomial, [low + (high - low) * (1 - x) / 2 for x in chebyshev]
    yield _piecewise_linear, [np.linspace(low, high, n) for n in (257, 513, 1025)]


def _polynomial(nodes: np.ndarray, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_τ weights(τ) ℓ_j(points(i, τ)) for the Lagrange polynomials ℓ_j of the nodes."""
    lagrange = BarycentricInterpolator(nodes, np.eye(len(nodes)))
    points = np.clip(points, nodes.min(), nodes.max())
    return np.stack([weights @ lagrange(row) for row in points])


def _piecewise_linear(nodes: np.ndarray, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    n, place = len(nodes), (np.clip(points, nodes[0], nodes[-1]) - nodes[0]) / (nodes[1] - nodes[0])
    cell = np.minimum(place.astype(int), n - 2)
    part = place - cell
    start = np.arange(len(points))[:, None] * n + cell
    size = len(points) * n
    below = np.bincount(start.ravel(), ((1 - part) * weights).ravel(), size)
    above = np.bincount(start.ravel() + 1, (part * weights).ravel(), size)
    return (below + above).reshape(-1, n)


def _waits(depletion: Depletion, memories: Any, times: int) -> tuple[Any, tuple[int, int]]:
    """The memories after 0, …, times − 1 steps of waiting, flattened from (memories, times)."""
    steps = [memories]
    for _ in range(times - 1):
        steps.append(depletion.wait(steps[-1]))
    return _map(lambda *leaves: np.stack(leaves, axis=1).ravel(), *steps), (_count(memories), times)


_map = jax.tree_util.tree_map


def _pick(memories: Any, index: Any) -> Any:
    return _map(lambda leaf: np.asarray(leaf)[index], memories)


def _count(memories: Any) -> int:
    return len(jax.tree_util.tree_leaves(memories)[0])


def _keys(memories: Any) -> np.ndarray:
    """One sortable key for each memory: a real number, a complex one for two numbers, else a record."""
    leaves = [np.asarray(leaf, dtype=np.float64) + 0.0 for leaf in jax.tree_util.tree_leaves(memories)]
    if len(leaves) == 1:
        return leaves[0]
    if len(leaves) == 2 and np.isfinite(leaves[1]).all():
        return leaves[0] + 1j * leaves[1]
    return np.ascontiguousarray(np.stack(leaves, axis=1)).view([("", np.float64)] * len(leaves)).ravel()


def _find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted key stands among the sorted ones, −1 if nowhere."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)
