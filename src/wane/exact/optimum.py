"""The best that can be had: optimal control over (state × visit counts).

Rewards that depend on how often each site was visited make the optimal policy depend on it too. With counts c the
problem is an ordinary MDP again. Let A(s, c) be the best that can still be had by acting in s, after the visit to s
has been paid and counted:

    A(s, c) = max_a { ρ(s, a) + E[ r̄(s') f(c(s')) + γ A(s', c + 1_s') ] },      s' ~ p(·|s, a).

There are n · Π (mᵢ + 1) pairs when the i-th site is counted up to mᵢ. From there on it pays the limit of its curve,
nothing for the paper's λⁿ: a cap that goes on paying λ^m would leak value. The caps are chosen so that what they
leave out stays below a tolerance.

Two ways to time rewards. "departure" is the definition, Σ_{t≥0} γᵗ r(s_t): the start pays. "arrival" is what the
paper's experiments do, Σ_{t≥1} γᵗ rₜ: the first action's reward is discounted once, the start pays nothing.
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from wane.depletion import Diminishing, check_bound
from wane.exact.representation import check_parameters
from wane.mdp import MDP, check_discount, check_sites

MOST_PAIRS = 50_000_000
LONGEST_CURVE = 10_000_000


class Optimum(NamedTuple):
    values: np.ndarray
    """the best return from every state, no site visited yet"""
    policy: np.ndarray
    """best actions (time, states, visits to each site so far …), one time only without a horizon; counts are capped at
    `caps`
    """
    caps: tuple[int, ...]
    error: float
    """a bound on what capping and stopping leave out of `values`"""
    sites: np.ndarray

    def action(self, state: int, visits: Any, time: int = 0) -> int:
        """What to do in a state, the visits to each site so far being given (the present one counts as made)."""
        visits = np.asarray(visits, dtype=np.int64)
        if visits.shape != self.sites.shape or np.any(visits < 0):
            raise ValueError(f"visits must be a count from 0 on for each of the {len(self.sites)} sites, got {visits}")
        if len(self.policy) == 0:
            raise ValueError("with a horizon of one reward, paid at departure, no action is ever taken")
        counts = tuple(np.minimum(visits, self.caps))
        return int(self.policy[(min(time, len(self.policy) - 1), state, *counts)])


def optimum(
    mdp: MDP,
    rewards: Any,
    depletion: Diminishing,
    *,
    discount: float,
    sites: Any = None,
    horizon: int | None = None,
    timing: Literal["departure", "arrival"] = "departure",
    action_rewards: Any = None,
    tolerance: float = 1e-6,
    caps: Any = None,
) -> Optimum:
    """The optimal return and policy when every site's reward wears off with its visits.

    `rewards` are the r̄ of the `sites`; `action_rewards` (states, actions) never wear off and come with the arrival.
    With a `horizon` exactly so many rewards are received, else infinitely many. `caps` overrides the counts chosen
    from `tolerance`.
    """
    if not isinstance(mdp, MDP):
        raise TypeError(
            f"the optimum is over the actions of an MDP, got {type(mdp).__name__}: pass wane.MDP(transitions)"
        )
    discount, sites = float(check_discount(discount)), check_sites(sites, mdp.n_states)
    rewards = np.asarray(rewards, dtype=float)
    _check_arguments(rewards, sites, depletion, discount, horizon, timing, action_rewards, tolerance)
    if action_rewards is not None:
        action_rewards = _check_action_rewards(action_rewards, mdp)
    steps = None if horizon is None else horizon - (timing == "departure")
    _check_size((mdp.n_states,), steps)
    pays, cut = _pay_tables(rewards, depletion, discount, sites, horizon, tolerance / 2, caps)
    shape = (mdp.n_states, *(len(pay) for pay in pays))
    _check_size(shape, steps)
    game = _Game(mdp, pays, sites, discount, action_rewards)
    best, policy, rest = game.play(np.zeros(shape), steps, tolerance / 2)
    ahead = game.arrive(best) if timing == "departure" else discount * best
    return Optimum(ahead[(slice(None), *(0,) * len(sites))], policy, tuple(len(p) - 1 for p in pays), cut + rest, sites)


class _Game(NamedTuple):
    mdp: MDP
    pays: list[np.ndarray]
    """r̄ f(c) of every site by its count, the cap last"""
    sites: np.ndarray
    discount: float
    action_rewards: Any

    def arrive(self, best: np.ndarray) -> np.ndarray:
        """What arriving in each state with counts c is worth: its site pays and counts one more."""
        ahead = self.discount * best
        for i, (site, pay) in enumerate(zip(self.sites, self.pays, strict=True)):
            more = np.minimum(np.arange(len(pay)) + 1, len(pay) - 1)
            along = pay.reshape([-1 if j == i else 1 for j in range(len(self.pays))])
            ahead[site] = along + self.discount * np.take(best[site], more, axis=i)
        return ahead

    def act(self, best: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step of value iteration: the new A, and the actions that attain it (the first of equals)."""
        ahead = self.arrive(best).reshape(len(best), -1)
        top = np.full(ahead.shape, -np.inf)
        which = np.zeros(ahead.shape, np.min_scalar_type(self.mdp.n_actions))
        for a in range(self.mdp.n_actions):
            q = np.asarray(self.mdp.action(a) @ ahead)
            if self.action_rewards is not None:
                q = q + np.asarray(self.action_rewards)[:, a, None]
            better = q > top
            top[better], which[better] = q[better], a
        return top.reshape(best.shape), which.reshape(best.shape)

    def play(self, best: np.ndarray, steps: int | None, tolerance: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Value iteration for `steps` steps, or until it cannot move by more than `tolerance`."""
        policies = []
        if steps is not None:
            for _ in range(steps):
                best, which = self.act(best)
                policies.append(which)
            return best, np.array(policies[::-1]), 0.0
        while True:
            after, which = self.act(best)
            rest = float(np.abs(after - best).max()) * self.discount / (1 - self.discount)
            best = after
            if rest <= tolerance:
                return best, which[None], rest


def _pay_tables(rewards, depletion, discount, sites, horizon, tolerance, caps) -> tuple[list[np.ndarray], float]:
    """r̄ f(0), …, r̄ f(m − 1), r̄ f(∞) for every site, and a bound on what that leaves out.

    A site's (m+1)-th visit comes at time m at the earliest. From there on, either every step or every visit may miss by
    what f(n) differs from its limit: the smaller of the two sums bounds the loss.
    """
    k = len(sites)
    size = max(float(np.abs(rewards).max(initial=0.0)) * depletion.bound, 1e-300)
    if horizon is None:
        longest = np.log(max(tolerance * (1 - discount) / (8 * size), 1e-300)) / np.log(discount) if discount > 0 else 1
        longest = max(int(np.ceil(longest)), 1)
        if longest > LONGEST_CURVE:
            raise ValueError(
                f"discount {discount} looks {longest:.1e} visits ahead: give a horizon, or raise `tolerance`"
            )
    else:
        longest = int(horizon)
    n = np.arange(longest + 1)
    worth = np.broadcast_to(np.asarray(depletion.worth(n[:, None]), dtype=float), (len(n), k))
    check_bound(depletion, worth)
    steps_left = (
        discount**n / (1 - discount) if horizon is None else np.cumsum((discount**n * (n < longest))[::-1])[::-1]
    )
    miss = np.abs(worth - worth[-1])
    highest = np.maximum.accumulate(miss[::-1])[::-1]
    per_visit = np.cumsum(miss[::-1], axis=0)[::-1]
    loss = np.abs(rewards) * np.minimum(highest * steps_left[:, None], per_visit)
    chosen = np.argmax(loss <= 0.5 * tolerance / max(k, 1), axis=0) if caps is None else _check_caps(caps, k)
    chosen = np.minimum(chosen, longest)
    pays = [rewards[i] * np.append(worth[:m, i], worth[-1, i]) for i, m in enumerate(chosen)]
    beyond = 0.0 if horizon is not None else 2 * size * discount**longest / (1 - discount)
    return pays, float(loss[chosen, np.arange(k)].sum()) + beyond


def _check_action_rewards(action_rewards: Any, mdp: MDP) -> np.ndarray:
    """Finite, one for each state and action, and nothing where the episode has ended."""
    action_rewards = np.asarray(action_rewards, dtype=float)
    if action_rewards.shape != (mdp.n_states, mdp.n_actions) or not np.all(np.isfinite(action_rewards)):
        raise ValueError(
            f"action_rewards must be finite numbers of shape ({mdp.n_states}, {mdp.n_actions}), got shape "
            f"{action_rewards.shape}"
        )
    goes_on = mdp.backup(np.ones(mdp.n_states))
    return np.where(goes_on > 0, action_rewards, 0.0)


def _check_caps(caps: Any, k: int) -> np.ndarray:
    if np.ndim(caps) and np.shape(caps) != (k,):
        raise ValueError(f"caps must be one number, or one for each of the {k} sites, got {caps}")
    caps = np.broadcast_to(np.asarray(caps), (k,))
    if caps.dtype.kind not in "iu" or np.any(caps < 1):
        raise ValueError(f"caps are whole numbers of visits from 1 on, one or one for each site, got {caps}")
    return caps


def _check_arguments(rewards, sites, depletion, discount, horizon, timing, action_rewards, tolerance) -> None:
    if not tolerance > 0:
        raise ValueError(f"tolerance must be above 0, got {tolerance}")
    if not isinstance(depletion, Diminishing):
        raise TypeError(
            f"the optimum is over visit counts: {type(depletion).__name__} remembers more. Use a Diminishing depletion"
        )
    check_parameters(depletion, len(sites))
    if rewards.shape != sites.shape or not np.all(np.isfinite(rewards)):
        raise ValueError(f"rewards must be one finite r̄ for each of the {len(sites)} sites, got {rewards}")
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
            f"{what} are {pairs:.3g} pairs, too many for {steps or 1} steps: raise `tolerance`, give smaller "
            "`caps`, a shorter "
            "`horizon`, or fewer sites"
        )
