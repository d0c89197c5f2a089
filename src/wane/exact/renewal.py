"""Any memory at all: the chain of (state, memory of the site), reduced to what happens between visits.

A site's reward depends only on its own visits, so the states between visits can be eliminated from that chain. They
contribute only g(τ), the discounted probability of coming back after τ steps. Write w_τ(p) = wait^(τ−1)(p) for the
memory when the agent comes back. A site that a visit has just left in memory p will pay

    B(p) = Σ_τ g(τ) [ worth(w_τ(p)) + B(visit(w_τ(p))) ].

This is one linear system over the memories p, not over states × memories. Φ(s, s'; m) is worth + B ∘ visit at the
memory of the first visit, weighted by the discounted time of that visit. It evaluates the time-elapsed scheme, of which
the paper says that it admits no closed-form recursion, and every memory that a user defines. Infinite sums are cut
where the omitted part is known to be below a tolerance, and the answer's `.truncation` is a bound on that part.

Often a visit forgets how long the wait before it was: visit(w_τ(p)) is the same p' for all τ, as in the time-elapsed
scheme. Then the memories form a line p₀, p₁, p₂, …, and B(pₙ) = Σ_τ g(τ) worth(w_τ(pₙ)) + R B(pₙ₊₁) is summed from the
end of the line. Other memories are enumerated if they take few values. B is interpolated over a memory that is a real
number: by polynomials for smooth schemes, by straight lines for others. Then `.truncation` contains an estimate, the
change under the last refinement.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse.linalg import spsolve

from wane.checks import check_tolerance, is_traced
from wane.depletion import Depletion, Memory
from wane.exact import memories as tables
from wane.exact.methods import Method
from wane.exact.occupancy import first_visit_and_escape
from wane.exact.representations import Representation, build, check_columns, check_depletion
from wane.kernels import KernelLike, Matrix, Operator, check_kernel, require_matrix
from wane.limits import require_memory
from wane.mdp import check_discount, check_sites
from wane.sums import check_bound
from wane.types import AnyArray, ArrayLike, Real, Scalar

TOLERANCE = 1e-6
LONGEST_RETURN = 100_000
MOST_MEMORIES = 4096
MOST_WORTHS = 2**28
"""The largest number of pairs of memory and return time that are evaluated, which takes about ten seconds."""
LONGEST_LINE = 1_000_000
"""The largest number of successive visits that are followed, which takes a few seconds."""
LONGEST_GROWTH = 5000


class ReturnLaw(NamedTuple):
    """The distribution of the time until a site is visited again."""

    weights: Float[np.ndarray, " times"]
    """g(τ) = γ^τ P(return after τ steps), τ = 1, …, T"""
    omitted: float
    """Σ g(τ) over τ > T"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Renewal(Representation):
    """The representation of a depletion with any memory."""

    first_visit: Float[np.ndarray, "states sites"]
    """F(s, s') = E γ^(time of the first visit to s')"""
    escape: Float[np.ndarray, " sites"]
    """1 − R(s') = 1 − E γ^(time to return to s')"""
    laws: tuple[ReturnLaw, ...]
    """one for each site"""
    tolerance: float
    fresh: Float[AnyArray, "states sites"]
    """Φ with no site visited yet"""
    omitted: float
    """a bound on the error of `fresh`"""

    @property
    def truncation(self) -> float:
        return self.omitted

    @property
    def matrix(self) -> Float[AnyArray, "states sites"]:
        return self.fresh

    def at(self, memory: Memory) -> Float[AnyArray, "states sites"]:
        phi, error = _columns(self, memory)
        _check_error(error, self.tolerance)
        return jnp.asarray(phi) if isinstance(self.kernel, jax.Array) else phi


@build.register
def _(
    depletion: Depletion, kernel: Operator, discount: Scalar, sites: Int[np.ndarray, " sites"], method: str | Method
) -> Renewal:
    matrix = require_matrix(kernel, f"a representation under {type(depletion).__name__}")
    return _renewal(depletion, matrix, discount, sites, method, TOLERANCE)


def renewal_representation(
    kernel: KernelLike,
    depletion: Depletion,
    *,
    discount: Scalar,
    sites: ArrayLike | None = None,
    tolerance: Real = TOLERANCE,
) -> Renewal:
    """Return `wane.representation` for any memory. `tolerance` limits the error from cutting infinite sums."""
    check_tolerance(tolerance)
    check_depletion(depletion)
    checked = check_kernel(kernel)
    sites = check_sites(sites, checked.shape[0])
    check_columns(checked, sites)
    return _renewal(depletion, checked, check_discount(discount), sites, "auto", float(tolerance))


def _renewal(
    depletion: Depletion,
    kernel: Matrix,
    discount: Scalar,
    sites: Int[np.ndarray, " sites"],
    method: str | Method,
    tolerance: float,
) -> Renewal:
    if is_traced(kernel, discount, *jax.tree_util.tree_leaves(depletion)):
        raise TypeError(
            f"{type(depletion).__name__} has no closed form and is solved outside of JAX: call this without jit, "
            "grad or vmap"
        )
    if not np.isfinite(depletion.bound):
        raise ValueError(f"{type(depletion).__name__}.bound must be finite: it is an upper bound of |worth|")
    plain = check_kernel(np.asarray(kernel)) if isinstance(kernel, jax.Array) else kernel
    first_visit, escape, residual, how = first_visit_and_escape(plain, float(discount), sites, method)
    first_visit, escape = np.asarray(first_visit), np.asarray(escape)
    if np.any(escape <= 0):
        raise ValueError(
            f"site {sites[np.argmin(escape)]} is certain to be visited again and again with discount 1: the value of a "
            "reward that grows back is infinite there. Discount"
        )
    # An omitted return mass ε loses at most ε · bound / escape for each of the 1 / escape expected visits.
    negligible = 0.1 * tolerance * escape**2 / depletion.bound
    laws = return_laws(plain, float(discount), sites, escape, negligible)
    # The effect of these errors is known before the sums over visits, which may take long.
    _check_error(max(_law_error(law, depletion, float(e)) for law, e in zip(laws, escape, strict=True)), tolerance)
    how = f"{how}; renewal over {max(len(law.weights) for law in laws)} return times"

    def make(fresh: Any, omitted: float) -> Renewal:
        parts = first_visit, escape, laws, tolerance, fresh, omitted
        return Renewal(kernel, depletion, discount, sites, residual, how, *parts)

    unknown = make(np.full_like(first_visit, np.nan), 0.0)
    phi, error = _columns(unknown, unknown.fresh_memory)
    _check_error(error, tolerance)
    return make(jnp.asarray(phi) if isinstance(kernel, jax.Array) else phi, error)


def _law_error(law: ReturnLaw, depletion: Depletion, escape: float) -> float:
    """Return a bound on what is lost with the returns that the law omits.

    Rounding has the same effect as an omission of a few units of the last digit.
    """
    return (law.omitted + 2 * np.finfo(float).eps) * depletion.bound / escape**2


def _check_error(error: float, tolerance: float) -> None:
    if error > tolerance:
        raise ValueError(
            f"the sums over visits and memories have an error of {error:.1e}, more than the tolerance {tolerance:.1e}: "
            "call wane.exact.renewal_representation with a larger tolerance, or use a smaller discount"
        )


def return_laws(
    kernel: Any,
    discount: float,
    sites: Int[np.ndarray, " sites"],
    escape: Float[np.ndarray, " sites"],
    negligible: Float[np.ndarray, " sites"],
) -> tuple[ReturnLaw, ...]:
    """Return g(τ) of every site, until less than `negligible` of its return mass 1 − escape remains.

    The distribution of the chain is followed from all sites together. The mass that arrives at the site is recorded and
    removed, so that only first returns are counted. Raises a ValueError if this takes too many steps.
    """
    column = np.arange(len(sites))
    transposed = kernel.T.tocsr() if sparse.issparse(kernel) else np.ascontiguousarray(kernel.T)
    negligible = np.maximum(negligible, 1e-14)
    mass = np.zeros((kernel.shape[0], len(sites)))
    mass[sites, column] = 1
    weights, remaining = [], 1 - escape
    while not weights or np.any(remaining > negligible):
        if len(weights) >= LONGEST_RETURN:
            site = sites[np.argmax(remaining - negligible)]
            raise ValueError(
                f"after {LONGEST_RETURN} steps {remaining.max():.1e} of the returns to site {site} are still to come: "
                "use a smaller discount, or call wane.exact.renewal_representation with a larger tolerance"
            )
        if len(weights) % 4096 == 0:
            sizes = (len(weights) + 4096, "return times"), (len(sites), "sites")
            require_memory(
                "the law of the returns", *sizes, copies=2, cure="name fewer `sites`, or use a smaller discount"
            )
        mass = discount * (transposed @ mass)
        weights.append(mass[sites, column])
        mass[sites, column] = 0
        remaining = remaining - weights[-1]
    table = np.array(weights)
    return tuple(ReturnLaw(table[:, j], max(float(remaining[j]), 0.0)) for j in column)


def _columns(phi: Renewal, memory: Memory) -> tuple[Float[np.ndarray, "states sites"], float]:
    """Return Φ at a memory, and a bound on its error."""
    start = jax.tree_util.tree_map(lambda leaf: np.broadcast_to(leaf, phi.sites.shape), memory)
    if not phi.depletion.per_site() and len(phi.sites) > 1 and len(np.unique(tables.keys(start))) == 1:
        # All sites share one line of memories, if there is one.
        one, chains = tables.pick(start, slice(1)), [_SiteChain.of(phi, j) for j in range(len(phi.sites))]
        along = _along_a_line(chains, one) if _waiting_changes_nothing(phi.depletion, one) else None
        if along is not None:
            return phi.first_visit * along[0], along[1]
    found = [_column(phi, j, tables.pick(start, slice(j, j + 1))) for j in range(len(phi.sites))]
    return np.stack([column for column, _ in found], axis=1), max(error for _, error in found)


def _column(phi: Renewal, j: int, start: Memory) -> tuple[Float[np.ndarray, " states"], float]:
    """Return Φ of one site at a memory, and a bound on its error."""
    kernel = np.asarray(phi.kernel) if isinstance(phi.kernel, jax.Array) else phi.kernel
    chain, first_visit, escape = _SiteChain.of(phi, j), phi.first_visit[:, j], float(phi.escape[j])
    depletion = chain.depletion
    if _waiting_changes_nothing(depletion, start):
        # The time of the first visit matters through its discount only.
        value, omitted = chain.from_visit(start)
        return first_visit * value[0], omitted
    negligible = 0.1 * phi.tolerance * escape / depletion.bound
    times, never = _hit_times(kernel, float(phi.discount), int(phi.sites[j]), first_visit, negligible)
    value, omitted = chain.from_visit(tables.waits(depletion, start, times)[0])
    column = np.zeros(len(first_visit))
    for worth, hit in zip(value, _hits(kernel, float(phi.discount), int(phi.sites[j])), strict=False):
        column += worth * hit
    return column, omitted + never * depletion.bound / escape


def _waiting_changes_nothing(depletion: Depletion, memory: Memory) -> bool:
    return np.array_equal(tables.keys(depletion.wait(memory)), tables.keys(memory))


def _hits(kernel: Any, discount: float, site: int) -> Iterator[Float[np.ndarray, " states"]]:
    """Yield γ^τ P(first visit after τ steps) from each state, for τ = 0, 1, …"""
    hit = (np.arange(kernel.shape[0]) == site).astype(float)
    while True:
        yield hit
        hit = discount * (kernel @ hit)
        hit[site] = 0


def _hit_times(
    kernel: Any, discount: float, site: int, first_visit: Float[np.ndarray, " states"], negligible: float
) -> tuple[int, float]:
    """Return the number of times τ whose first visits count, and the largest mass of first visits that come later."""
    remaining, times = first_visit, 0
    for hit in _hits(kernel, discount, site):
        remaining, times = remaining - hit, times + 1
        if remaining.max() <= max(negligible, 1e-14) or times >= LONGEST_RETURN:
            break
    return times, float(max(remaining.max(), 0.0))


def _along_a_line(chains: Sequence["_SiteChain"], start: Memory) -> tuple[Float[np.ndarray, " sites"], float] | None:
    """Return worth + B ∘ visit at a memory for sites with the same depletion, and a bound on the error.

    Returns None if a visit remembers how long the wait before it was. Raises a ValueError if it would take too long.
    """
    depletion, visits = chains[0].depletion, max(chain.generations for chain in chains)
    weights = np.zeros((max(len(chain.law.weights) for chain in chains), len(chains)))
    for j, chain in enumerate(chains):
        weights[: len(chain.law.weights), j] = chain.law.weights
    first = depletion.visit(start)
    line = tables.line_of_memories(depletion, first, min(visits, 3) + 1)
    if not tables.forgets(depletion, line, tables.waits(depletion, tables.pick(line, slice(-1)), 4)[0]):
        return None
    if visits > LONGEST_LINE or visits * len(weights) > MOST_WORTHS:
        raise ValueError(
            f"{type(depletion).__name__} would be summed over {visits} visits × {len(weights)} return times. That "
            "takes too long: use a smaller discount, or call wane.exact.renewal_representation with a larger tolerance"
        )
    pays = tables.pays_along(depletion, tables.line_of_memories(depletion, first, visits + 1), weights)
    if pays is None:
        return None
    future, returning = np.zeros(len(chains)), weights.sum(axis=0)
    for each in pays[::-1]:
        future = each + returning * future
    worth = chains[0].worth(start)[0]
    return worth + future, max(chain.omitted + chain.beyond(visits) for chain in chains)


class _SiteChain(NamedTuple):
    """The linear system over the memories that visits leave behind, for one site."""

    depletion: Depletion
    law: ReturnLaw
    escape: float
    tolerance: float

    @classmethod
    def of(cls, phi: Renewal, j: int) -> "_SiteChain":
        """Return the chain of the j-th site."""
        return cls(phi.depletion.at_sites(j), phi.laws[j], float(phi.escape[j]), phi.tolerance)

    def from_visit(self, memories: Memory) -> tuple[Float[np.ndarray, " memories"], float]:
        """Return worth + B ∘ visit at the given memories, and a bound on its error."""
        along = _along_a_line([self], memories) if tables.count(memories) == 1 else None
        if along is not None:
            return along
        after_visit = self.depletion.visit(memories)
        reachable = self._reachable(tables.distinct(after_visit))
        if reachable is None:
            future, error = self._interpolate(after_visit)
        else:
            future, error = self._enumerate(reachable, after_visit)
        return self.worth(memories) + future, error + self.omitted

    @property
    def omitted(self) -> float:
        """A bound on what is lost with the returns that the law omits."""
        return _law_error(self.law, self.depletion, self.escape)

    def beyond(self, visits: int) -> float:
        """Return a bound on what the site pays after `visits` returns."""
        return (1 - self.escape) ** visits * self.depletion.bound / self.escape

    def worth(self, memories: Memory) -> Float[np.ndarray, " memories"]:
        worth = np.asarray(self.depletion.worth(memories), dtype=float)
        check_bound(self.depletion, worth)
        return worth

    @property
    def generations(self) -> int:
        """The number k of returns after which what is still to come, (1 − escape)^k · bound / escape, is negligible."""
        if self.escape >= 1:
            return 1
        negligible = 0.1 * self.tolerance * self.escape / self.depletion.bound
        return int(np.ceil(np.log(negligible) / np.log1p(-self.escape))) + 1

    def _reachable(self, memories: Memory) -> Memory | None:
        """Return all memories that visits within `generations` returns leave behind, sorted; None if too many.

        `age` is the number of returns after which a memory first appears. A first pass waits for at most three steps
        between visits, which finds nearly all memories cheaply; the second pass uses all waiting times.
        """
        age = np.zeros(tables.count(memories), int)
        for times in (min(3, len(self.law.weights)), len(self.law.weights)):
            expanded = np.zeros(len(age), bool)
            while np.any(todo := ~expanded & (age < self.generations)):
                # The youngest come first, and their number is limited so that the table of their waits stays small.
                eldest = np.sort(age[todo])[: max(tables.AT_ONCE // times, 1)][-1]
                todo &= (age <= eldest) & (np.cumsum(todo & (age <= eldest)) <= max(tables.AT_ONCE // times, 1))
                expanded |= todo
                table, shape = tables.waits(self.depletion, tables.pick(memories, todo), times)
                found = self.depletion.visit(table)
                older = np.repeat(age[todo] + 1, shape[1])
                memories = jax.tree_util.tree_map(lambda a, b: np.concatenate([a, b]), memories, found)
                age = np.concatenate([age, older])
                expanded = np.concatenate([expanded, np.zeros(len(older), bool)])
                # `unique` keeps the first of equal memories: after this sort that is the youngest.
                order = np.argsort(age, kind="stable")
                memories, age, expanded = tables.pick(memories, order), age[order], expanded[order]
                _, index = np.unique(tables.keys(memories), return_index=True)
                memories, age, expanded = tables.pick(memories, index), age[index], expanded[index]
                if len(age) > MOST_MEMORIES:
                    return None
        return memories

    def _enumerate(self, memories: Memory, after_visit: Memory) -> tuple[Float[np.ndarray, " wanted"], float]:
        """Solve (I − moves) B = pays over the given memories. Returns B after the visits, and a bound on its error."""
        known, n = tables.keys(memories), tables.count(memories)
        pays, moves, complete = np.zeros(n), sparse.csr_array((n, n)), True
        width = max(tables.AT_ONCE // len(self.law.weights), 1)
        for start in range(0, n, width):
            rows = slice(start, start + width)
            table, shape = tables.waits(self.depletion, tables.pick(memories, rows), len(self.law.weights))
            pays[rows] = self.worth(table).reshape(shape) @ self.law.weights
            index = tables.find(known, tables.keys(self.depletion.visit(table))).reshape(shape)
            inside = index >= 0
            source = np.broadcast_to(np.arange(n)[rows, None], shape)[inside]
            weight = np.broadcast_to(self.law.weights, shape)[inside]
            moves = moves + sparse.csr_array((weight, (source, index[inside])), shape=(n, n))
            complete = complete and bool(inside.all())
        future = np.asarray(spsolve((sparse.eye_array(n) - moves).tocsc(), pays)).reshape(-1)
        # Moves to memories beyond the last generation are dropped, and with them all that they would pay later.
        lost = 0.0 if complete else self.beyond(self.generations)
        return future[tables.find(known, tables.keys(after_visit))], lost

    def _interpolate(self, after_visit: Memory) -> tuple[Float[np.ndarray, " wanted"], float]:
        """Solve for B on more and more nodes, until it changes by less than half of the tolerance.

        Returns B after the visits, and its last change. Raises a ValueError if a memory is not one real number.
        """
        if not isinstance(after_visit, np.ndarray) or after_visit.dtype.kind != "f":
            raise ValueError(
                f"{type(self.depletion).__name__} reaches more than {MOST_MEMORIES} different memories: let it forget "
                "(round or cap what it remembers), or keep one real number"
            )
        low, high = self._range(after_visit)
        best, least = np.zeros(len(after_visit)), np.inf
        for interpolate, refinements in tables.interpolations(low, high):
            before = None
            for nodes in refinements:
                table, shape = tables.waits(self.depletion, nodes, len(self.law.weights))
                pays = self.worth(table).reshape(shape) @ self.law.weights
                moves = interpolate(nodes, self.depletion.visit(table).reshape(shape), self.law.weights)
                on_nodes = np.linalg.solve(np.eye(len(nodes)) - moves, pays)
                future = interpolate(nodes, after_visit[:, None], np.ones(1)) @ on_nodes
                change = np.inf if before is None else float(np.max(np.abs(future - before)))
                best, least = (future, change) if change < least else (best, least)
                if least <= 0.5 * self.tolerance:
                    return best, least
                before = future
        return best, least

    def _range(self, after_visit: Float[np.ndarray, " memories"]) -> tuple[float, float]:
        """Return an interval that visits and waiting do not leave. Raises a ValueError if the memory grows for ever."""
        low, high = float(after_visit.min()), float(after_visit.max())
        # Short waits find nearly all of the interval at little cost.
        for times in (min(64, len(self.law.weights)), len(self.law.weights)):
            for visits in range(self.generations):
                if visits == LONGEST_GROWTH:
                    raise ValueError(
                        f"after {LONGEST_GROWTH} visits the memory of {type(self.depletion).__name__} still leaves the "
                        f"interval from {low:.3g} to {high:.3g}: let it settle (cap its memory), or use a "
                        "smaller discount"
                    )
                found = self.depletion.visit(tables.waits(self.depletion, np.linspace(low, high, 65), times)[0])
                wider = min(low, float(found.min())), max(high, float(found.max()))
                if not np.all(np.isfinite(wider)):
                    raise ValueError(f"the memory of {type(self.depletion).__name__} grows without bound")
                settled = np.allclose(wider, (low, high), rtol=1e-12, atol=1e-12)
                low, high = wider
                if settled:
                    break
        return low, high if high > low else low + 1.0
