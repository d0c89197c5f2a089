"""How long agents that believe in a wrong λ̂ stay at a site, beside the best that can be done.

The paper suggests (section 6) that too large a λ̂ may explain why animals overstay in depleted patches. Whether it does
depends on what the agent is told:

- "plan" is told nothing. It follows the plan that would be best if λ̂ were true, over (state × its own visit counts).
- "imagine" is told nothing either: GPI over the ways to each site with Φ_λ̂, on what λ̂ says its visits have left.
- "gpi" is the paper's agent: the same, but told at every step what is left of every reward.

The first two overstay when λ̂ is too large, for λ̂ = 1 without end. The paper's agent does the opposite: above the true
λ it leaves the earlier, the larger its λ̂. It knows what is left here, and is wrong only about what comes after, where
a larger λ̂ favours the fuller patch elsewhere.
"""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from wane.agents import gpi
from wane.agents.episode import Episode, play
from wane.depletion import Geometric, check_range
from wane.foraging.leaving import bouts
from wane.foraging.optimal import follow, plan
from wane.foraging.trajectory import table_from_rollout
from wane.worlds.catalog import shortest_paths
from wane.worlds.world import World

Agent = Literal["plan", "imagine", "gpi"]
AGENTS = ("plan", "imagine", "gpi")


def overstaying(
    world: World,
    believed: Any,
    *,
    agent: Agent = "plan",
    policies: Any = None,
    start: Any = None,
    tolerance: float = 1e-4,
) -> pd.DataFrame:
    """One row for each λ̂ and each site the agent goes to: the steps of its first stay, and how many more than optimal.

    `censored`: the episode ends there, it would stay longer. `optimal` is missing for sites that the optimal policy
    does not go to. `value` and `optimal_value` are the discounted returns of the episode: what the wrong belief costs.
    `policies` for GPI are by default the shortest ways to each site. `tolerance` is that of `wane.optimum`.
    """
    if agent not in AGENTS:
        raise ValueError(f"agent is one of {', '.join(AGENTS)}, got {agent!r}")
    believed = np.atleast_1d(np.asarray(believed, float))
    check_range("believed", believed, 0, 1, "λ̂ is the fraction of a reward that a visit leaves, as the agent thinks")
    if world.slip or (start is None and np.count_nonzero(world.start) > 1):
        raise ValueError("overstaying follows one certain episode: take a world with slip=0, and name its start")
    world, key = dataclasses.replace(world, threshold=None), jax.random.key(0)
    best = follow(key[None], world, plan(world, tolerance=tolerance), start)
    if agent == "plan":
        played = [follow(key[None], world, plan(world, Geometric(lam), tolerance=tolerance), start) for lam in believed]
        episodes = jax.tree_util.tree_map(lambda *parts: np.concatenate(parts), *played)
    else:
        episodes = _compose(key, world, believed, agent == "gpi", policies, start)
    found = _first_stays(world, episodes, believed)
    optimal = _first_stays(world, best, np.full(1, np.nan)).set_index("site")
    found["optimal"] = found["site"].map(optimal["steps"])
    found["overstay"] = found["steps"] - found["optimal"]
    return found.assign(optimal_value=float(best.value[0]))[
        ["believed", "site", "steps", "optimal", "overstay", "censored", "value", "optimal_value"]
    ]


def _compose(key: jax.Array, world: World, believed: np.ndarray, told: bool, policies: Any, start: Any) -> Episode:
    """GPI episodes, one for each belief."""
    if policies is None:
        policies = [shortest_paths(world.map, site, world.n_actions) for site in world.sites]
    phis = np.stack([gpi.representations(world, policies, Geometric(lam)) for lam in believed])

    def imagine(phi, lam):
        def act(visits, cell, left, draws):
            return gpi.act(phi[:, cell], world.rewards * Geometric(lam).worth(visits))

        def count(visits, step, draws):
            return visits + (jnp.asarray(world.sites) == (step.next_cell if world.timing == "arrival" else step.cell))

        return play(key, world, act, jnp.zeros(world.n_sites, int), count, start=start)[1]

    episode = (lambda phi, lam: gpi.rollout(key, world, phi, start)) if told else imagine
    return jax.jit(jax.vmap(episode))(phis, believed)


def _first_stays(world: World, episodes: Episode, believed: np.ndarray) -> pd.DataFrame:
    """The first stay at each site, for each episode."""
    table = table_from_rollout(world, episodes.cells, episodes.rewards)
    first = bouts(table).drop_duplicates(["episode", "site"]).reset_index(drop=True)
    number = first["episode"].to_numpy(int)
    return first[["site", "steps", "censored"]].assign(
        believed=believed[number], value=np.asarray(episodes.value, float)[number]
    )
