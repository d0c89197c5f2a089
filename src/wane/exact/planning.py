"""The best possible return: optimal control over (state × what the sites remember).

`wane.exact.product` solves the MDP over states and levels of memory; this module chooses the levels, with a bound on
what they leave out.

If rewards only wear off, the levels are visit counts. There are n · Π (mᵢ + 1) pairs of state and counts if the i-th
site is counted up to mᵢ. From there on it pays the limit of its curve, which is 0 for the paper's λⁿ: a cap that went
on paying λ^m would add value that does not exist. The caps are chosen so that what they leave out stays below a
tolerance.

If rewards grow back, low and high levels enclose the memory of each site (`wane.exact.levels`). The answer is the value
of the low levels, which the policy is sure to earn. Its error is at most the difference from the value of the high
levels.

There are two ways to time rewards. "departure" is the definition, Σ_{t≥0} γᵗ r(s_t): the start pays. "arrival" is what
the paper's experiments do, Σ_{t≥1} γᵗ rₜ: the first action's reward is discounted once, and the start pays nothing.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from wane.checks import check_tolerance, check_whole, is_traced
from wane.depletion import Depletion, Memory
from wane.exact.levels import Levels, counted_levels, enclosing_levels
from wane.exact.product import Product, require_product, strides_of
from wane.exact.representations import check_parameters
from wane.limits import require_memory
from wane.mdp import MDP, Sites, check_discount, check_patches, kept_sites
from wane.sums import check_bound
from wane.types import ArrayLike, Integer, Real, Scalar

LONGEST = 10_000_000
"""The largest horizon, and the longest curve over visit counts."""
MOST_LEVELS = 2048
USUAL_PAIRS = 500_000
"""The number of pairs of state and levels if `grid` is not given: value iteration then takes seconds, not minutes."""


class Optimum(NamedTuple):
    """What `optimum` returns."""

    values: Float[np.ndarray, " states"]
    """the best return from every state, with no site visited yet"""
    policy: Int[np.ndarray, "times states combinations"]
    """best actions by time, state and combination of the sites' levels (in the order of `itertools.product`); without a
    horizon there is only one time"""
    levels: tuple[Levels, ...]
    """what each site remembers: its visit counts, or for a reward that grows back a grid of memories"""
    error: float
    """a bound on the error of `values`; for rewards that grow back, the optimum exceeds them by at most this amount"""
    sites: Sites
    horizon: int | None

    def __repr__(self) -> str:
        least, most = f"{self.values.min():.6g}", f"{self.values.max():.6g}"
        sizes = f"{len(self.values)} states, {len(self.sites)} sites, {self.policy.shape[-1]} combinations of levels"
        return f"Optimum({sizes}, horizon={self.horizon}, values from {least} to {most}, error={self.error:.1e})"

    @property
    def caps(self) -> tuple[int, ...]:
        """The number of the last level of each site: for visit counts, larger counts are treated as this one."""
        return tuple(len(each.worth) - 1 for each in self.levels)

    def action(self, state: Integer, memory: Memory, time: Integer = 0) -> int:
        """Return the best action in a state at a time.

        `memory` is what each site remembers once the present visit is counted: the visits so far, or the memory of a
        depletion that grows back. Raises a ValueError if there is no such state, time or memory.
        """
        if len(self.policy) == 0:
            raise ValueError("with a horizon of one reward, paid at departure, no action is ever taken")
        state = check_whole("state", state, 0, self.policy.shape[1] - 1)
        time = check_whole("time", time, 0, None if self.horizon is None else len(self.policy) - 1)
        numbers = len(self.levels[0].order) if self.levels else 1
        # Lists count as arrays here. So do tuples, unless a memory consists of several arrays.
        arrays = [memory] if numbers == 1 else jax.tree_util.tree_leaves(memory, is_leaf=lambda x: isinstance(x, list))
        leaves = [_check_memory(each, len(self.sites)) for each in arrays]
        placed = [each.place([leaf[i] for leaf in leaves]) for i, each in enumerate(self.levels)]
        combination = strides_of(self.levels) @ np.array(placed, np.int64)
        return int(self.policy[min(time, len(self.policy) - 1), state, combination])


def optimum(
    mdp: MDP,
    rewards: ArrayLike,
    depletion: Depletion,
    *,
    discount: Scalar,
    sites: ArrayLike | Sequence[Any] | None = None,
    horizon: Integer | None = None,
    timing: Literal["departure", "arrival"] = "departure",
    action_rewards: ArrayLike | None = None,
    tolerance: Real = 1e-6,
    caps: ArrayLike | None = None,
    grid: Integer | None = None,
) -> Optimum:
    """Return the optimal return and policy when every site's reward changes with its visits.

    `rewards` are the r̄ of the `sites`. A site is a state, or a set of states whose visits wear off the same reward, as
    in `sites=[0, {3, 4}]`. `action_rewards` (states, actions) never wear off and are paid with the arrival.
    With a `horizon`, exactly `horizon` rewards are received, else infinitely many. `caps` overrides the largest counts,
    which are otherwise chosen from `tolerance`. For rewards that grow back, `grid` is the number of memories of each
    site: more memories make the answer's `error` smaller, at a cost that grows as `grid` to the power of the number of
    sites. Raises a ValueError if there are too many pairs of state and memories.
    """
    if not isinstance(mdp, MDP):
        raise TypeError(
            f"the optimum is over the actions of an MDP, got {type(mdp).__name__}: pass wane.MDP(transitions)"
        )
    if is_traced(mdp._dense, rewards, discount, action_rewards, *jax.tree_util.tree_leaves(depletion)):
        raise TypeError(
            "the optimum is found outside of JAX: call this without jit, grad or vmap. For the gradient of its value, "
            "differentiate wane.evaluate under a fixed policy"
        )
    gamma, patches = float(check_discount(discount)), check_patches(sites, mdp.n_states)
    pay = np.asarray(rewards, dtype=float)
    _check_rewards(pay, len(patches), depletion)
    horizon = None if horizon is None else check_whole("horizon", horizon, 1, LONGEST)
    _check_arguments(gamma, horizon, timing, action_rewards, tolerance)
    extra = None if action_rewards is None else _check_action_rewards(action_rewards, mdp)
    problem = _Problem(mdp, patches, pay, gamma, horizon, timing, extra, float(tolerance) / 2)
    if depletion.counts_visits:
        if grid is not None:
            raise ValueError("grid is for rewards that grow back: choose the largest visit counts with `caps`")
        return problem.solve_counts(depletion, caps)
    if caps is not None:
        raise ValueError("caps are largest visit counts: for a reward that grows back choose a `grid` of memories")
    return problem.solve_levels(depletion, grid)


class _Problem(NamedTuple):
    """The arguments of `optimum`, checked."""

    mdp: MDP
    patches: tuple[Int[np.ndarray, " _states"], ...]
    rewards: Float[np.ndarray, " sites"]
    discount: float
    horizon: int | None
    timing: str
    action_rewards: Float[np.ndarray, "states actions"] | None
    tolerance: float

    @property
    def steps(self) -> int | None:
        """The number of actions that are taken."""
        return None if self.horizon is None else self.horizon - (self.timing == "departure")

    def solve_counts(self, depletion: Depletion, caps: ArrayLike | None) -> Optimum:
        """Return the optimum over visit counts."""
        self.check_size([])
        tables, omitted = _worth_tables(self, depletion, caps)
        found = self.solve(tuple(counted_levels(table) for table in tables))
        return found._replace(error=omitted + found.error)

    def solve_levels(self, depletion: Depletion, grid: Integer | None) -> Optimum:
        """Return the optimum of the low levels, for rewards that grow back.

        Its values are a lower bound, and its `error` is the difference from the upper bound of the high levels.
        """
        k = len(self.patches)
        size = self.usual_grid() if grid is None else check_whole("grid", grid, 4)
        self.check_size([size] * k)
        enclosing = [
            enclosing_levels(depletion.at_sites(i), size, self.horizon, cost=bool(self.rewards[i] < 0))
            for i in range(k)
        ]
        found = self.solve(tuple(lower for lower, _ in enclosing))
        if all(lower is upper for lower, upper in enclosing):
            return found
        bound = self.solve(tuple(upper for _, upper in enclosing))
        difference = float(np.max(bound.values - found.values, initial=0.0))
        return found._replace(error=difference + found.error + bound.error)

    def usual_grid(self) -> int:
        """Return the number of levels of a site with which value iteration takes seconds."""
        pairs = USUAL_PAIRS / self.mdp.n_states / max((self.steps or 1) / 1000, 1)
        return int(np.clip(pairs ** (1 / max(len(self.patches), 1)), 4, MOST_LEVELS))

    def check_size(self, sizes: list[int]) -> None:
        """Raise a ValueError if the given numbers of levels of the sites take too much memory."""
        cure = "raise `tolerance`, give smaller `caps`, a smaller `grid`, a shorter `horizon`, or fewer sites"
        require_product(self.mdp, sizes, self.steps, cure)

    def solve(self, levels: tuple[Levels, ...]) -> Optimum:
        """Return the optimum for given levels of the sites. Its `error` is only that of the value iteration."""
        self.check_size([len(each.worth) for each in levels])
        product = Product(self.mdp, self.patches, self.rewards, levels, self.discount, self.action_rewards)
        best, policy, unsettled = product.value_iteration(self.steps, self.tolerance)
        values = product.fresh_values(best, start_pays=self.timing == "departure")
        return Optimum(values, policy, levels, unsettled, kept_sites(self.patches), self.horizon)


def _worth_tables(
    problem: _Problem, depletion: Depletion, caps: ArrayLike | None
) -> tuple[list[Float[np.ndarray, " _counts"]], float]:
    """Return f(0), …, f(m − 1), f(∞) for every site, and a bound on what these leave out.

    The tables are made site by site, and the size of the product is checked after each site: the curve of one site can
    be long, and too many sites are noticed after a few of them.
    """
    k, sizes = len(problem.patches), np.abs(problem.rewards)
    largest = max(float(sizes.max(initial=0.0)) * depletion.bound, 1e-300)
    longest, cut = _longest_count(largest, problem.discount, problem.horizon, problem.tolerance)
    given = None if caps is None else _check_caps(caps, k)
    # If counting is cut off, f(longest) replaces f(∞), and the error from that time on is up to twice the bound.
    omitted = 2 * largest * problem.discount**longest / (1 - problem.discount) if cut else 0.0
    shared = np.size(depletion.worth(np.zeros((1, 1), np.int64))) == 1
    tables, curve = [], None
    for i, size in enumerate(sizes):
        curve = _curve(problem, depletion, i, longest, cut) if curve is None or not shared else curve
        worth, left_out = curve
        wanted = 0.5 * problem.tolerance / k / size if size else np.inf
        # It never rises with the count, so this is the first count that leaves out little enough.
        chosen = int(np.count_nonzero(left_out > wanted)) if given is None else int(given[i])
        chosen = min(chosen, longest)
        tables.append(np.append(worth[:chosen], worth[-1]))
        omitted += size * float(left_out[chosen])
        problem.check_size([len(table) for table in tables])
    return tables, omitted


def _curve(
    problem: _Problem, depletion: Depletion, site: int, longest: int, cut: bool
) -> tuple[Float[np.ndarray, " counts"], Float[np.ndarray, " counts"]]:
    """Return f(0), …, f(longest) of a site, and the most that each count leaves out per unit of r̄ if it is the last.

    The (m + 1)-th visit to a site comes at time m at the earliest. From there on the error is at most |f(n) − f(∞)| for
    each visit, and also at most the largest such value for each step: the smaller of the two sums is the bound.
    """
    require_memory("a curve over visit counts", (longest + 1, "visits"), copies=6, cure="give a shorter `horizon`")
    n = np.arange(longest + 1)
    columns = np.asarray(depletion.at_sites(site).worth(n[:, None]), dtype=float)
    worth = np.broadcast_to(columns, (len(n), max(columns.shape[-1], 1)))[:, -1 if columns.shape[-1] == 1 else site]
    check_bound(depletion, worth)
    discounted_steps = problem.discount**n
    if cut:
        discounted_steps /= 1 - problem.discount
    else:
        discounted_steps = np.cumsum((discounted_steps * (n < longest))[::-1])[::-1]
    deviation = np.abs(worth - worth[-1])
    largest_from = np.maximum.accumulate(deviation[::-1])[::-1]
    sum_from = np.cumsum(deviation[::-1])[::-1]
    return worth, np.minimum(largest_from * discounted_steps, sum_from)


def _longest_count(size: float, discount: float, horizon: int | None, tolerance: float) -> tuple[int, bool]:
    """Return the number of visits that can matter, and whether later ones are cut off because of their discount."""
    if discount == 0:
        return (1, True) if horizon is None else (min(horizon, 1), False)
    negligible = max(tolerance * (1 - discount) / (8 * size), 1e-300)
    ahead = math.inf if discount == 1 else max(math.ceil(math.log(negligible) / math.log(discount)), 1)
    longest = min(ahead, math.inf if horizon is None else horizon)
    if longest > LONGEST:
        raise ValueError(
            f"discount {discount} looks {longest:.1e} visits ahead, and {LONGEST:.0e} are the most: give a "
            "(shorter) horizon, a smaller discount, or raise `tolerance`"
        )
    return int(longest), ahead < (math.inf if horizon is None else horizon)


def _check_memory(leaf: Any, k: int) -> Float[np.ndarray, " sites"]:
    checked = np.asarray(leaf)
    if checked.shape != (k,) or (k and checked.dtype.kind not in "iuf") or not np.all(np.isfinite(checked)):
        raise ValueError(
            f"memory must hold a finite number for each of the {k} sites (how often it was visited, or what a reward "
            f"that grows back remembers), got {leaf}"
        )
    return checked.astype(float)


def _check_action_rewards(action_rewards: ArrayLike, mdp: MDP) -> Float[np.ndarray, "states actions"]:
    """Return finite rewards, one for each state and action, and zero where the episode has ended."""
    checked = np.asarray(action_rewards, dtype=float)
    shape = (mdp.n_states, mdp.n_actions)
    if checked.shape != shape or not np.all(np.isfinite(checked)):
        raise ValueError(f"action_rewards must be finite numbers of shape {shape}, got shape {checked.shape}")
    goes_on = np.asarray(mdp.backup(np.ones(mdp.n_states)))
    return np.where(goes_on > 0, checked, 0.0)


def _check_caps(caps: ArrayLike, k: int) -> Int[np.ndarray, " sites"]:
    if np.ndim(caps) and np.shape(caps) != (k,):
        raise ValueError(f"caps must be one number, or one for each of the {k} sites, got {caps}")
    checked = np.broadcast_to(np.asarray(caps), (k,))
    if checked.dtype.kind not in "iu" or np.any(checked < 1):
        raise ValueError(f"caps are whole numbers of visits from 1 on, one or one for each site, got {caps}")
    return checked


def _check_rewards(rewards: Float[np.ndarray, "..."], n_sites: int, depletion: Depletion) -> None:
    check_parameters(depletion, n_sites)
    if rewards.shape != (n_sites,) or not np.all(np.isfinite(rewards)):
        raise ValueError(f"rewards must be one finite r̄ for each of the {n_sites} sites, got {rewards}")


def _check_arguments(
    discount: float, horizon: int | None, timing: str, action_rewards: ArrayLike | None, tolerance: Real
) -> None:
    check_tolerance(tolerance)
    if timing not in ("departure", "arrival"):
        raise ValueError(f'timing is "departure" or "arrival", got {timing!r}')
    if action_rewards is not None and timing == "departure":
        raise ValueError('action_rewards are paid on arrival: use timing="arrival"')
    if horizon is None and discount == 1:
        raise ValueError("without a horizon the discount must be below 1: pass horizon=…")
