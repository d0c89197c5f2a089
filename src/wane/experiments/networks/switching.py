"""Exact agents of the asymmetric world for λ = 1: for which size and temperature do they go to the large reward?

With λ = 1 the λ operator stands for softmax policies that are consistent with their own values:

    Q(s, a) = r(s) + γ Σ_s' P(s'|s, a) Σ_a' π(a'|s') Q(s', a'),   π(·|s) = softmax(Q(s, ·) / τ)

A network without errors would represent this Q, and its agent takes argmax_a Q(s, a). Q includes the random actions of
π: with a large τ, π is nearly a random walk, which easily hits six small rewards that lie close together, but not one
large reward far away. So the agent can prefer the small rewards although the optimum does not. Rewards that are larger
by a factor give the same π as a temperature that is smaller by that factor.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from wane.experiments.common.soft_policies import settle
from wane.worlds.world import World

SETTLED = 1e-10
"""A policy counts as consistent with its values if no probability changes by more than this."""
MOST_SWEEPS = 2000
TIE = 1e-9
"""Actions whose values differ by less than this share of the best value are tied; the first one is taken."""


def switching_table(
    world: World, larges: Sequence[float], temperatures: Sequence[float], discount: float
) -> pd.DataFrame:
    """Returns one row for each size of the large reward, which the first site has, and each temperature.

    The columns are the exact agent's return in an episode (`earned`), the share of its moments at the large reward
    (`at_large`), and the same for the optimum (`best_earned`, `best_at_large`). An agent whose policy does not settle
    has NaN.
    """
    pairs = np.array(list(product(larges, temperatures)))
    rewards = rewards_of(world, pairs[:, 0])
    q, settled = softmax_values(world, rewards, pairs[:, 1], discount)
    agents = measure(world, rewards, follow(world, rewards, q[None]))
    best = measure(world, rewards, follow(world, rewards, optimal_values(world, rewards)))
    found = {"large": pairs[:, 0], "temperature": pairs[:, 1]}
    found |= {name: np.where(settled, each, np.nan) for name, each in agents.items()}
    return pd.DataFrame(found | {f"best_{name}": each for name, each in best.items()})


def rewards_of(world: World, larges: Sequence[float] | np.ndarray) -> Float[np.ndarray, "cases states"]:
    """Returns the rewards of every state, for each size of the first site's reward."""
    rewards = np.zeros((len(larges), world.n_states))
    rewards[:, world.sites] = world.rewards
    rewards[:, world.sites[0]] = larges
    return rewards


def softmax_values(
    world: World, rewards: Float[np.ndarray, "cases states"], temperatures: Float[np.ndarray, " cases"], discount: float
) -> tuple[Float[np.ndarray, "cases states actions"], Bool[np.ndarray, " cases"]]:
    """Returns Q of the softmax policies that are consistent with their values, for λ = 1, and which of them settled."""
    n, table = world.n_states, world.map.next_states(world.n_actions)

    def evaluate(
        chances: Float[np.ndarray, "open states actions"], cases: Int[np.ndarray, " open"]
    ) -> Float[np.ndarray, "open states actions"]:
        systems = np.tile(np.eye(n), (len(cases), 1, 1))
        for action in range(world.n_actions):
            systems[:, np.arange(n), table[:, action]] -= discount * chances[:, :, action]
        values = np.linalg.solve(systems, rewards[cases, :, None])[..., 0]
        return rewards[cases, :, None] + discount * values[:, table]

    return settle(evaluate, (n, world.n_actions), temperatures, MOST_SWEEPS, SETTLED)


def optimal_values(
    world: World, rewards: Float[np.ndarray, "cases states"]
) -> Float[np.ndarray, "steps cases states actions"]:
    """Returns the best sum of rewards until the horizon after each action, at each step. Entering a site pays."""
    table, steps = world.map.next_states(world.n_actions), []
    values = np.zeros_like(rewards)
    for _ in range(world.horizon or 0):
        steps.append((rewards + values)[:, table])
        values = steps[-1].max(-1)
    return np.array(steps[::-1])


def follow(
    world: World, rewards: Float[np.ndarray, "cases states"], q: Float[np.ndarray, "steps cases states actions"]
) -> Int[np.ndarray, "cases moments"]:
    """Returns the cells of greedy episodes. If `q` has a single step, it applies to the whole episode."""
    table, case = world.map.next_states(world.n_actions), np.arange(len(rewards))
    cells = [np.full(len(rewards), int(np.argmax(world.start)))]
    for step in range(world.horizon or 0):
        values = q[min(step, len(q) - 1), case, cells[-1]]
        best = values.max(-1, keepdims=True)
        # Rounding must not decide between tied actions: argmax finds the first action that is good enough.
        action = np.argmax(values >= best - TIE * np.abs(best), -1)
        cells.append(table[cells[-1], action])
    return np.stack(cells, 1)


def measure(
    world: World, rewards: Float[np.ndarray, "cases states"], cells: Int[np.ndarray, "cases moments"]
) -> dict[str, Float[np.ndarray, " cases"]]:
    """Returns what episodes earn without discounting, and the share of their moments at the first site."""
    earned = np.take_along_axis(rewards, cells[:, 1:], 1).sum(1)
    return {"earned": earned, "at_large": (cells == world.sites[0]).mean(1)}
