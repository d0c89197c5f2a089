"""The best possible return: optimal control over (state × visit counts).

Rewards that depend on how often each site was visited make the optimal policy depend on it too. With the counts c added
to the state the problem is an ordinary MDP again. Let A(s, c) be the best return from acting in s, after the visit to s
has been paid and counted:

    A(s, c) = max_a { ρ(s, a) + E[ r̄(s') f(c(s')) + γ A(s', c + 1_s') ] },        s' ~ p(·|s, a).

There are n · Π (mᵢ + 1) pairs when the i-th site is counted up to mᵢ. From there on it pays the limit of its curve,
which is nothing for the paper's λⁿ: a cap that went on paying λ^m would add value that does not exist. The caps are
chosen so that what they leave out stays below a tolerance.

There are two ways to time rewards. "departure" is the definition, Σ_{t≥0} γᵗ r(s_t): the start pays. "arrival" is what
the paper's experiments do, Σ_{t≥1} γᵗ rₜ: the first action's reward is discounted once, and the start pays nothing.
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from wane.depletion import Diminishing, check_bound
from wane.exact.representations import check_parameters
from wane.mdp import MDP, check_discount, check_sites
from wane.types import ArrayLike, Integer, Real, Scalar

MOST_PAIRS = 50_000_000
LONGEST_CURVE = 10_000_000
PayTables = list[Float[np.ndarray, " _counts"]]
"""for every site r̄ f(c) by its count c, with the limit of the curve as the last entry"""


class Optimum(NamedTuple):
    """What `optimum` returns."""

    values: Float[np.ndarray, " states"]
    """the best return from every state, with no site visited yet"""
    policy: Int[np.ndarray, "times states *counts"]
    """best actions by time, state and visits to each site so far; without a horizon there is one time only"""
    caps: tuple[int, ...]
    """the largest count of each site; larger counts use the same entries of `policy`"""
    error: float
    """a bound on what capping and stopping leave out of `values`"""
    sites: Int[np.ndarray, " sites"]

    def action(self, state: Integer, visits: ArrayLike, time: Integer = 0) -> int:
        """Return the best action in a state, given the visits to each site so far (the present one included)."""
        counted = np.asarray(visits, dtype=np.int64)
        if counted.shape != self.sites.shape or np.any(counted < 0):
            raise ValueError(f"visits must be a count from 0 on for each of the {len(self.sites)} sites, got {visits}")
        if len(self.policy) == 0:
            raise ValueError("with a horizon of one reward, paid at departure, no action is ever taken")
        counts = tuple(np.minimum(counted, self.caps))
        return int(self.policy[(min(time, len(self.policy) - 1), state, *counts)])


def optimum(
    mdp: MDP,
    rewards: ArrayLike,
    depletion: Diminishing,
    *,
    discount: Scalar,
    sites: ArrayLike | None = None,
    horizon: Integer | None = None,
    timing: Literal["departure", "arrival"] = "departure",
    action_rewards: ArrayLike | None = None,
    tolerance: Real = 1e-6,
    caps: ArrayLike | None = None,
) -> Optimum:
    """Return the optimal return and policy when every site's reward wears off with its visits.

    `rewards` are the r̄ of the `sites`. `action_rewards` (states, actions) never wear off and are paid with the arrival.
    With a `horizon` exactly so many rewards are received, else infinitely many. `caps` overrides the largest counts,
    which are otherwise chosen from `tolerance`. Raises a ValueError if there are too many pairs of state and counts.
    """
    if not isinstance(mdp, MDP):
        raise TypeError(
            f"the optimum is over the actions of an MDP, got {type(mdp).__name__}: pass wane.MDP(transitions)"
        )
    gamma, sites = float(check_discount(discount)), check_sites(sites, mdp.n_states)
    pay = np.asarray(rewards, dtype=float)
    _check_rewards(pay, sites, depletion)
    _check_settings(gamma, horizon, timing, action_rewards, tolerance)
    extra = None if action_rewards is None else _check_action_rewards(action_rewards, mdp)
    steps = None if horizon is None else int(horizon) - (timing == "departure")
    _check_size((mdp.n_states,), steps)
    tables, omitted = _pay_tables(pay, depletion, gamma, horizon, float(tolerance) / 2, caps)
    shape = (mdp.n_states, *(len(table) for table in tables))
    _check_size(shape, steps)
    problem = _Counted(mdp, tables, sites, gamma, extra)
    best, policy, unsettled = problem.value_iteration(np.zeros(shape), steps, float(tolerance) / 2)
    from_start = problem.arrival_values(best) if timing == "departure" else gamma * best
    values = from_start[(slice(None), *(0,) * len(sites))]
    return Optimum(values, policy, tuple(len(table) - 1 for table in tables), omitted + unsettled, sites)


class _Counted(NamedTuple):
    """The MDP over (state, counts)."""

    mdp: MDP
    pay_tables: PayTables
    sites: Int[np.ndarray, " sites"]
    discount: float
    action_rewards: Float[np.ndarray, "states actions"] | None

    def arrival_values(self, best: Float[np.ndarray, " states *counts"]) -> Float[np.ndarray, " states *counts"]:
        """Return what arriving in each state with counts c is worth: its site pays, and one more visit is counted."""
        values = self.discount * best
        for i, (site, pay) in enumerate(zip(self.sites, self.pay_tables, strict=True)):
            # At the cap the count stays where it is.
            counted = np.minimum(np.arange(len(pay)) + 1, len(pay) - 1)
            pay_by_count = pay.reshape([-1 if j == i else 1 for j in range(len(self.pay_tables))])
            values[site] = pay_by_count + self.discount * np.take(best[site], counted, axis=i)
        return values

    def improve(self, best: Float[np.ndarray, " states *counts"]) -> tuple[np.ndarray, np.ndarray]:
        """Return A after one step of value iteration, and the actions that attain it (the lowest of equals)."""
        arrival = self.arrival_values(best).reshape(len(best), -1)
        highest = np.full(arrival.shape, -np.inf)
        actions = np.zeros(arrival.shape, np.min_scalar_type(self.mdp.n_actions))
        for a in range(self.mdp.n_actions):
            kernel: Any = self.mdp.action(a)
            q = np.asarray(kernel @ arrival)
            if self.action_rewards is not None:
                q = q + self.action_rewards[:, a, None]
            better = q > highest
            highest[better], actions[better] = q[better], a
        return highest.reshape(best.shape), actions.reshape(best.shape)

    def value_iteration(
        self, best: Float[np.ndarray, " states *counts"], steps: int | None, tolerance: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return A, the policy and the error, after `steps` steps or once A can change by `tolerance` at most."""
        if steps is not None:
            policies = []
            for _ in range(steps):
                best, actions = self.improve(best)
                policies.append(actions)
            return best, np.array(policies[::-1]), 0.0
        while True:
            improved, actions = self.improve(best)
            # Each further step changes A by γ times the last change at most; the sum of all of them bounds the error.
            unsettled = float(np.abs(improved - best).max()) * self.discount / (1 - self.discount)
            best = improved
            if unsettled <= tolerance:
                return best, actions[None], unsettled


def _pay_tables(
    rewards: Float[np.ndarray, " sites"],
    depletion: Diminishing,
    discount: float,
    horizon: Integer | None,
    tolerance: float,
    caps: ArrayLike | None,
) -> tuple[PayTables, float]:
    """Return r̄ f(0), …, r̄ f(m − 1), r̄ f(∞) for every site, and a bound on what that leaves out.

    The (m + 1)-th visit to a site comes at time m at the earliest. From there on the error is at most |f(n) − f(∞)| for
    each visit, and also at most its largest value for each step: the smaller of the two sums bounds the loss.
    """
    k = len(rewards)
    size = max(float(np.abs(rewards).max(initial=0.0)) * depletion.bound, 1e-300)
    longest = _longest_count(size, discount, horizon, tolerance)
    n = np.arange(longest + 1)
    worth = np.broadcast_to(np.asarray(depletion.worth(n[:, None]), dtype=float), (len(n), k))
    check_bound(depletion, worth)
    if horizon is None:
        discounted_steps = discount**n / (1 - discount)
    else:
        discounted_steps = np.cumsum((discount**n * (n < longest))[::-1])[::-1]
    deviation = np.abs(worth - worth[-1])
    largest_from = np.maximum.accumulate(deviation[::-1])[::-1]
    sum_from = np.cumsum(deviation[::-1], axis=0)[::-1]
    loss = np.abs(rewards) * np.minimum(largest_from * discounted_steps[:, None], sum_from)
    chosen = np.argmax(loss <= 0.5 * tolerance / max(k, 1), axis=0) if caps is None else _check_caps(caps, k)
    chosen = np.minimum(chosen, longest)
    tables = [rewards[i] * np.append(worth[:m, i], worth[-1, i]) for i, m in enumerate(chosen)]
    # Without a horizon f(longest) stands for f(∞), which costs up to twice the bound from that time on.
    beyond = 0.0 if horizon is not None else 2 * size * discount**longest / (1 - discount)
    return tables, float(loss[chosen, np.arange(k)].sum()) + beyond


def _longest_count(size: float, discount: float, horizon: Integer | None, tolerance: float) -> int:
    """Return how many visits can matter: as many as the horizon, or until their discount makes them negligible."""
    if horizon is not None:
        return int(horizon)
    if discount == 0:
        return 1
    negligible = max(tolerance * (1 - discount) / (8 * size), 1e-300)
    longest = max(int(np.ceil(np.log(negligible) / np.log(discount))), 1)
    if longest > LONGEST_CURVE:
        raise ValueError(f"discount {discount} looks {longest:.1e} visits ahead: give a horizon, or raise `tolerance`")
    return longest


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


def _check_rewards(rewards: Float[np.ndarray, "..."], sites: Int[np.ndarray, " sites"], depletion: Diminishing) -> None:
    if not isinstance(depletion, Diminishing):
        raise TypeError(
            f"the optimum is over visit counts: {type(depletion).__name__} remembers more. Use a Diminishing depletion"
        )
    check_parameters(depletion, len(sites))
    if rewards.shape != sites.shape or not np.all(np.isfinite(rewards)):
        raise ValueError(f"rewards must be one finite r̄ for each of the {len(sites)} sites, got {rewards}")


def _check_settings(
    discount: float, horizon: Integer | None, timing: str, action_rewards: ArrayLike | None, tolerance: Real
) -> None:
    if not tolerance > 0:
        raise ValueError(f"tolerance must be above 0, got {tolerance}")
    if timing not in ("departure", "arrival"):
        raise ValueError(f'timing is "departure" or "arrival", got {timing!r}')
    if action_rewards is not None and timing == "departure":
        raise ValueError('action_rewards come with the arrival they lead to: use timing="arrival"')
    if horizon is not None and (int(horizon) != horizon or horizon < 1):
        raise ValueError(f"horizon is a number of rewards, 1 or more, got {horizon}")
    if horizon is None and discount == 1:
        raise ValueError("without a horizon the discount must be below 1: pass horizon=…")


def _check_size(shape: tuple[int, ...], steps: int | None) -> None:
    pairs = math.prod(shape)
    if pairs > MOST_PAIRS or pairs * (steps or 1) > 20 * MOST_PAIRS:
        what = " × ".join([f"{shape[0]} states", *(f"{m} counts" for m in shape[1:])])
        raise ValueError(
            f"{what} are {pairs:.3g} pairs, too many for {steps or 1} steps: raise `tolerance`, give smaller `caps`, a "
            "shorter `horizon`, or fewer sites"
        )
