"""Optimal control over (state × levels of the sites).

Rewards that depend on what a site remembers make the best action depend on it too. With one level of memory for each
site (`wane.exact.levels`) added to the state, the problem is an ordinary MDP again. Let c be the levels of all sites,
c⁺(s) what they become when s is visited (the site in s takes a visit, all others wait), and A(s, c) the best return
from acting in s, after the visit to s has been paid and c has moved on:

    A(s, c) = max_a { ρ(s, a) + E[ r̄(s') worth(c(s')) + γ A(s', c⁺(s')) ] },        s' ~ p(·|s, a).

The levels of all sites are combined into one number, Σ strideᵢ · levelᵢ, so A is a table (states, combinations of
levels), and sites with a single level do not enlarge it. The table is computed in blocks of columns that fit into a
cache.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Integer

from wane.exact.levels import Levels
from wane.limits import require_memory
from wane.mdp import MDP

Table = Float[np.ndarray, "states combinations"]
Block = Float[np.ndarray, "states columns"]
Columns = Int[np.ndarray, " columns"]
_ENTRIES = 2**16  # A block with this many numbers takes 512 KiB.


def strides_of(levels: tuple[Levels, ...]) -> Int[np.ndarray, " sites"]:
    """Return, for each site, the amount by which one more level raises the number of a combination."""
    sizes = [len(each.worth) for each in levels]
    return np.array([int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))], np.int64)


@dataclass(frozen=True)
class Product:
    """The MDP over (state, levels of the sites)."""

    mdp: MDP
    sites: Int[np.ndarray, " sites"]
    rewards: Float[np.ndarray, " sites"]
    """r̄"""
    levels: tuple[Levels, ...]
    """the levels of each site"""
    discount: float
    action_rewards: Float[np.ndarray, "states actions"] | None

    @cached_property
    def strides(self) -> Int[np.ndarray, " sites"]:
        return strides_of(self.levels)

    @cached_property
    def combinations(self) -> int:
        """The number of combinations of levels."""
        return int(np.prod([len(each.worth) for each in self.levels], dtype=np.int64))

    def arrival_values(self, best: Table, columns: Columns) -> Block:
        """Return the value of arriving in each state with the given levels: its site pays, and all levels move on."""
        several = [i for i, each in enumerate(self.levels) if len(each.worth) > 1]
        own = {i: columns // self.strides[i] % len(self.levels[i].worth) for i in several}
        waited = np.zeros_like(columns)
        for i in several:
            waited += self.strides[i] * self.levels[i].wait[own[i]]
        values = self.discount * np.take(best, waited, axis=1)
        single = np.array([i for i, each in enumerate(self.levels) if len(each.worth) == 1], int)
        values[self.sites[single]] += (self.rewards[single] * [self.levels[i].worth[0] for i in single])[:, None]
        for i in several:
            levels, row = self.levels[i], best[self.sites[i]]
            after = row[waited + self.strides[i] * (levels.visit - levels.wait)[own[i]]]
            if levels.chance.any():
                otherwise = row[waited + self.strides[i] * (levels.visit_else - levels.wait)[own[i]]]
                after = after + levels.chance[own[i]] * (otherwise - after)
            values[self.sites[i]] = self.rewards[i] * levels.worth[own[i]] + self.discount * after
        return values

    def improve(self, best: Table, improved: Table, actions: Integer[np.ndarray, "states combinations"]) -> float:
        """Do one step of value iteration: write A and the actions that attain it (the first of equally good ones).

        Returns the largest change of A.
        """
        change, width = 0.0, max(_ENTRIES // self.mdp.n_states, 16)
        for start in range(0, self.combinations, width):
            block = slice(start, min(start + width, self.combinations))
            arrival = self.arrival_values(best, np.arange(block.start, block.stop))
            highest, chosen = np.full(arrival.shape, -np.inf), np.zeros(arrival.shape, actions.dtype)
            for a in range(self.mdp.n_actions):
                kernel: Any = self.mdp.action(a)
                q = np.asarray(kernel @ arrival)
                if self.action_rewards is not None:
                    q = q + self.action_rewards[:, a, None]
                better = q > highest
                if self.mdp.available is not None:
                    better &= self.mdp.available[:, a, None]
                np.copyto(highest, q, where=better)
                np.copyto(chosen, chosen.dtype.type(a), where=better)
            change = max(change, float(np.abs(highest - best[:, block]).max()))
            improved[:, block], actions[:, block] = highest, chosen
        return change

    def value_iteration(
        self, steps: int | None, tolerance: float
    ) -> tuple[Table, Integer[np.ndarray, "times states combinations"], float]:
        """Return A, the policy and the error, after `steps` steps or once A can change by `tolerance` at most."""
        shape = self.mdp.n_states, self.combinations
        best, improved = np.zeros(shape), np.empty(shape)
        policy = np.zeros((1 if steps is None else steps, *shape), np.min_scalar_type(self.mdp.n_actions))
        for remaining in range(1, (steps or 0) + 1):
            self.improve(best, improved, policy[len(policy) - remaining])
            best, improved = improved, best
        unsettled = np.inf if steps is None else 0.0
        while unsettled > tolerance:
            change = self.improve(best, improved, policy[0])
            # Each further step changes A by γ times the last change at most; the sum of all of them bounds the error.
            unsettled = change * self.discount / (1 - self.discount)
            best, improved = improved, best
        return best, policy, unsettled

    def fresh_values(self, best: Table, start_pays: bool) -> Float[np.ndarray, " states"]:
        """Return the value of each state with no site visited yet. `start_pays` says whether the start pays."""
        fresh = np.array([int(self.strides @ np.array([each.fresh for each in self.levels], np.int64))])
        return self.arrival_values(best, fresh)[:, 0] if start_pays else self.discount * best[:, fresh[0]]


def require_product(mdp: MDP, sizes: list[int], steps: int | None, cure: str) -> None:
    """Raise a ValueError if the tables over states and `sizes` levels of the sites take too much memory."""
    factors = [(mdp.n_states, "states"), *((size, "levels") for size in sizes if size > 1)]
    require_memory("the optimum", *factors, copies=2, cure=cure)
    itemsize = np.min_scalar_type(mdp.n_actions).itemsize
    require_memory("the optimal policy", *factors, (steps or 1, "steps"), itemsize=itemsize, cure=cure)
