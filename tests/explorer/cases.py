"""Random worlds for the page and the package, and what the package says about them."""

import json
from typing import Any

import numpy as np

from wane import Geometric, foraging, representation
from wane.agents import gpi
from wane.agents.common.policy import TIE
from wane.exact.renewal import renewal_representation
from wane.regrowth import TimeElapsed
from wane.worlds import World, shortest_paths
from wane.worlds.grid import Map
from wane.worlds.simulate import Single

BELIEFS = (None, 0.0, 0.3, 1.0)


def random_world(rng: np.random.Generator) -> dict[str, Any]:
    """The description of a small random world, as the page writes it."""
    while True:
        shape = tuple(int(size) for size in rng.integers(1, 7, 2))
        letters = np.where(rng.random(shape) < 0.25, "#", ".")
        if (letters == ".").sum() >= 2:
            break
    map = Map.from_letters(letters)
    start = int(rng.integers(map.n_states))
    near = np.flatnonzero(map.regions == map.regions[start])
    anywhere = rng.permutation(map.n_states)[: rng.integers(1, 4)]
    sites = list(dict.fromkeys([int(rng.choice(near)), *map_ints(anywhere)]))[:3]
    depletion, discount = random_depletion(rng, len(sites)), float(rng.choice([0.0, 0.3, 0.7, 0.9, 0.97, 0.99]))
    return {
        "map": map.text,
        "sites": map.cells[sites].tolist(),
        "rewards": [round(float(reward), 2) for reward in rng.uniform(-2, 10, len(sites))],
        "depletion": depletion,
        # The package follows returns for as long as they matter, which takes seconds for a patient forager.
        "discount": min(discount, 0.9) if depletion["kind"] == "TimeElapsed" else discount,
        "wall_penalty": float(rng.choice([0.0, 0.0, 0.7])),
        "start": map.cells[start].tolist(),
        "n_actions": int(rng.choice([4, 5])),
        "slip": float(rng.choice([0.0, 0.0, 0.2, 1.0])),
        "horizon": int(rng.integers(1, 16)),
        "threshold": [None, 0.2][int(rng.integers(2))],
    }


def map_ints(numbers: Any) -> list[int]:
    return [int(number) for number in numbers]


def random_depletion(rng: np.random.Generator, n_sites: int) -> dict[str, Any]:
    """The description of a random curve, or of a reward that grows back. Some have a parameter for each site."""
    lam = float(rng.choice([0.0, 1.0, rng.random(), rng.random()]))
    each = [float(lam) for lam in rng.random(n_sites)]
    kinds = [
        {"kind": "Geometric", "lam": lam},
        {"kind": "Geometric", "lam": each},
        {"kind": "FirstVisits", "n": int(rng.integers(0, 6))},
        {"kind": "Hyperbolic", "k": float(rng.choice([0.0, 10 ** rng.uniform(-2, 2)]))},
        {"kind": "PowerLaw", "p": float(rng.uniform(0.05, 6))},
        {"kind": "TimeElapsed", "lam": lam, "rate": float(rng.choice([0.1, 1.0, 3.0]))},
    ]
    return kinds[int(rng.integers(len(kinds)))]


def read(description: dict[str, Any]) -> World:
    return World.from_json(json.dumps(description))


def policy_of(world: World, policy: str | int) -> np.ndarray:
    """The policy that the page calls "walk", or the path to a site."""
    if policy == "walk":
        return np.full((world.n_states, world.n_actions), 1 / world.n_actions)
    return shortest_paths(world.map, world.sites[int(policy)], world.n_actions)


def phi_of(world: World, policy: Any, depletion: Any, sites: Any) -> np.ndarray:
    """Φ of the sites, also where the package's own answer is cut off at 1e-6."""
    kernel = world.mdp.under(policy)
    if isinstance(depletion, TimeElapsed):
        return renewal_representation(kernel, depletion, discount=world.discount, sites=sites, tolerance=1e-10).matrix
    return representation(kernel, depletion, discount=world.discount, sites=sites).matrix


def values_of(world: World, policy: Any) -> np.ndarray:
    """`World.values` of endless episodes, with the sharper Φ for rewards that grow back."""
    if not isinstance(world.depletion, TimeElapsed):
        return world.values(policy, horizon=None)
    kernel = world.mdp.under(policy)
    costs = World.values(read_like(world, Geometric(1.0), np.zeros(world.n_sites)), policy, horizon=None)
    return world.discount * (kernel @ (phi_of(world, policy, world.depletion, world.sites) @ world.rewards)) + costs


def read_like(world: World, depletion: Any, rewards: Any) -> World:
    import dataclasses

    return dataclasses.replace(world, depletion=depletion, rewards=rewards)


def uniforms(seed: int):
    """The page's random numbers."""
    while True:
        seed = seed * 48271 % 2147483647
        yield seed / 2147483647


def play(world: World, act: Any, seed: int) -> dict[str, Any]:
    """One episode in the package's own simulation: cells, actions, rewards, and the discounted return."""
    agent, draws, start = Single(world), uniforms(seed), int(np.argmax(world.start))
    agent.begin(start)
    found: dict[str, Any] = {"cells": [start], "actions": [], "rewards": []}
    visits, over, total = np.zeros(world.n_sites, int), False, 0.0
    while not over:
        action = act(agent.time, agent.cell, agent.remaining, visits)
        pair = (next(draws), next(draws)) if world.slip else None
        reward, terminated, truncated, site = agent.step(action, pair)
        visits = visits + (np.arange(world.n_sites) == site)
        over = terminated or truncated
        total += world.discount**agent.time * reward
        found["cells"].append(agent.cell)
        found["actions"].append(action)
        found["rewards"].append(reward)
    return found | {"return": total}


def composing(world: World, kind: str, belief: float | None) -> Any:
    """act(time, cell, remaining, visits) of GPI, with the package's Φ and the package's rule for ties."""
    policies = ["walk"] if kind == "walk" else range(world.n_sites)
    depletion = world.depletion if belief is None else Geometric(belief)
    phis = [phi_of(world, policy_of(world, policy), depletion, world.sites) for policy in policies]
    phi = np.stack([world.mdp.backup(each) for each in phis])

    def act(time: int, cell: int, remaining: np.ndarray, visits: np.ndarray) -> int:
        q = gpi.q_values(phi[:, cell], remaining).max(0)
        return int(np.argmax(q >= q.max() - TIE * abs(q.max())))

    return act


def stays_of(world: World, episode: dict[str, Any]) -> list[list[int] | None]:
    """For every stay its site, arrival, steps, and the steps of the marginal value theorem; None if rounding decides.

    Who stays to the end receives just what the theorem compares with in the last step but one, which is a tie.
    """
    table = foraging.table_from_rollout(world, [episode["cells"]], [episode["rewards"]])
    if not (table["site"] >= 0).any():
        return []
    settings: Any = {"discount": world.discount, "rule": "corrected", "patches": "session"}
    curve: Any = world.depletion
    found = foraging.mvt_leaving_times(table, curve, **settings)
    compared = foraging.marginal_values(table, curve, **settings)
    total = np.abs(episode["rewards"]).sum()
    size = compared["threshold"].abs() + total / np.maximum(world.discount ** compared["time"], 1e-300)
    close = ((compared["next_reward"] - compared["threshold"]).abs() <= 1e-9 * size).groupby(compared["bout"]).any()
    columns = found[["site", "arrival", "steps", "censored", "mvt_steps", "mvt_censored"]].to_numpy()
    return [
        None if close[bout] else [int(value) for value in row] for bout, row in zip(found["bout"], columns, strict=True)
    ]
