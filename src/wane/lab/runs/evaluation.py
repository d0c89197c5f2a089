"""Plays episodes with a saved agent, to measure what it earns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from wane import agents, worlds
from wane.agents.common.driving import Played, drive
from wane.agents.common.rollout import Episode, require_room
from wane.agents.trained import Trained
from wane.worlds.control import ControlTask
from wane.worlds.process import Solvable, Tabular


class Evaluation(NamedTuple):
    """What an agent earned, with one entry for each episode."""

    returns: Float[np.ndarray, " episodes"]
    """Discounted returns, with the world's γ, or with the agent's γ in a control task, which has none."""
    rewards: Float[np.ndarray, " episodes"]
    """Sums of rewards, without discounting."""
    lengths: Float[np.ndarray, " episodes"]
    """Steps until the episode ended."""
    episodes: Episode | Played
    """All episodes, with the episodes along the first axis."""


def evaluate(
    trained: Trained, world: Tabular | ControlTask | None = None, episodes: int = 100, seed: int = 0
) -> Evaluation:
    """Plays episodes in the agent's own world, or in a given one.

    Raises ValueError for fewer than one episode, for episodes that need too much memory, and for a world that the agent
    cannot act in.
    """
    if episodes < 1:
        raise ValueError(f"--episodes is a number from 1 on, got {episodes}")
    place = trained.world if world is None else world
    if isinstance(place, ControlTask):
        played = drive(jax.random.key(seed), place, trained.policy(place), episodes, trained.config.discount)
    else:
        require_room(place, episodes)
        keys = jax.random.split(jax.random.key(seed), episodes)
        played = jax.jit(jax.vmap(lambda key: trained.play(key, place)[1]))(keys)
    returns, rewards, live = (np.asarray(each, float) for each in (played.value, played.rewards, played.live))
    return Evaluation(returns, rewards.sum(1), live.sum(1), played)


def place_called(name: str, trained: Trained) -> Tabular | ControlTask:
    """Returns the world of a name, or the task for an agent that was trained in one. Raises ValueError if unknown."""
    return ControlTask(name) if isinstance(trained.world, ControlTask) else worlds.make(name)


def best_return(world: Tabular | ControlTask) -> float | None:
    """Returns the optimal return from the world's start, or None where it cannot be computed to three digits."""
    if not isinstance(world, Solvable):
        return None
    try:
        best = world.optimum()
    except (ValueError, TypeError):
        return None
    known = best.error <= 1e-3 * float(np.max(np.abs(best.values)))
    return float(np.asarray(world.start) @ np.asarray(best.values)) if known else None


def saved_agents(folder: Path) -> list[Path]:
    """Returns the folders of the agents in a run's folder. Symbolic links are not followed."""
    found = [] if (folder / "agents").is_symlink() else (folder / "agents").glob("*/config.json")
    return sorted(path.parent for path in found if not path.parent.is_symlink())


def load_agent(folder: Path, trust: Sequence[str] = ()) -> Trained:
    """Loads a saved agent, which may name what is in `trust`. Raises ValueError if the folder holds none."""
    if not folder.exists():
        raise ValueError(f"there is no folder {folder}: give the folder of a run or of a saved agent")
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} holds neither a run (run.json) nor a saved agent (config.json)")
    return agents.load(folder, trust=trust)


def write_film(place: Any, found: Evaluation, path: Path) -> None:
    """Writes the first of the played episodes as a GIF."""
    place.film(jax.tree_util.tree_map(lambda values: values[0], found.episodes), path)
