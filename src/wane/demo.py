"""A demonstration in the terminal: foragers with different beliefs about λ, compared with the optimum.

Three rewards in four rooms halve with every visit (λ = 0.5), as in the paper's section 5.3. Each forager composes four
given policies and believes that a visit leaves a fraction λ̂ of a reward. With λ̂ = 0 it acts on first-occupancy
representations, with λ̂ = 1 on successor representations. The optimum plans over states and numbers of visits.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wane.agents import gpi, planner
from wane.agents.common.rollout import Episode
from wane.depletion import Geometric
from wane.explorer import explore
from wane.extras import MissingExtra, install_command
from wane.types import AnyArray, Integer
from wane.worlds.catalog import make
from wane.worlds.colours import SITE_COLOURS
from wane.worlds.world import World

LAM, BELIEFS, START = 0.5, (0.0, 0.5, 1.0), 30
"""The true λ, the λ̂ of the foragers, and the state that the walks begin in."""
ARROWS = {(-1, 0): "↑", (1, 0): "↓", (0, -1): "←", (0, 1): "→", (0, 0): "·"}
FRAME_SECONDS = 0.08


class Walk(NamedTuple):
    """The walk of one forager from one start, and its mean return over all starts."""

    name: str
    episode: Episode
    """The episode as NumPy arrays, up to the last step that was taken."""
    mean: float
    """The mean of the discounted returns from every state."""


def walks(start: Integer = START) -> tuple[World, list[Walk]]:
    """Returns the world, and the walks of the foragers and of the optimum from one state."""
    world = make("four-rooms", depletion=Geometric(LAM))
    key = jax.random.key(0)  # The key has no effect, because no action slips.
    phis = np.stack([gpi.representations(world, depletion=Geometric(belief)) for belief in BELIEFS])

    def one(phi: jax.Array, start: jax.Array) -> Episode:
        return gpi.play_composed(key, world, phi, start)

    every_start = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    played = jax.tree_util.tree_map(np.asarray, jax.jit(every_start)(phis, jnp.arange(world.n_states)))
    shown = [jax.tree_util.tree_map(lambda part, i=i: part[i, start], played) for i in range(len(BELIEFS))]
    found = [
        Walk(_name(belief), _cut(episode), float(values.mean()))
        for belief, episode, values in zip(BELIEFS, shown, played.value, strict=True)
    ]
    best = planner.plan(world)
    followed = jax.tree_util.tree_map(lambda part: np.asarray(part[0]), planner.follow(key[None], world, best, start))
    return world, [*found, Walk("optimum", _cut(followed), float(np.mean(best.values)))]


def _name(belief: float) -> str:
    kinds = {0.0: "first-occupancy", 1.0: "successor", LAM: "the true λ"}
    return f"λ̂ = {belief:g} ({kinds[belief]})"


def _cut(episode: Episode) -> Episode:
    """Returns an episode without the steps after its end."""
    steps = int((episode.live > 0).sum())
    moments = {"cells", "remaining"}
    parts = {
        name: part[: steps + (name in moments)] if np.ndim(part) else part for name, part in episode._asdict().items()
    }
    return Episode(**parts)


def paint(world: World, episode: Episode, moment: int) -> Text:
    """Returns the map as coloured text: the agent, its path, and sites that fade as they are used up."""
    moment = min(moment, len(episode.cells) - 1)
    letters = np.where(world.map.free, "  ", "██")
    styles = np.where(world.map.free, "dim", "bright_black").astype(object)
    cells = world.map.cells[episode.cells[: moment + 1]]
    for cell, next_cell in pairwise(cells):
        letters[tuple(cell)] = f"{ARROWS.get(tuple((next_cell - cell).tolist()), '·')} "
    for number, site in enumerate(world.map.cells[world.sites]):
        share = float(np.clip(episode.remaining[moment, number] / world.rewards[number], 0, 1))
        red, green, blue = ((0.35 + 0.65 * share) * SITE_COLOURS[number]).astype(int)
        letters[tuple(site)], styles[tuple(site)] = f"{_letter(number)} ", f"bold white on rgb({red},{green},{blue})"
    letters[tuple(cells[-1])], styles[tuple(cells[-1])] = "@ ", "bold reverse"
    rows = zip(letters, styles, strict=True)
    return Text("\n").join(Text.assemble(*zip(row, style, strict=True)) for row, style in rows)


def frame(world: World, found: Sequence[Walk], moment: int) -> Columns:
    """Returns all maps at one moment, each with the return so far."""
    panels = []
    for walk in found:
        taken = min(moment, len(walk.episode.rewards))
        earned = _discounted(world, walk.episode.rewards[:taken])
        caption = f"step {taken:2d}, return {earned:5.2f}"
        panels.append(Text("\n").join([Text(walk.name, "bold"), paint(world, walk.episode, moment), Text(caption)]))
    return Columns(panels, padding=(0, 3))


def _discounted(world: World, rewards: AnyArray) -> float:
    """Returns Σ γᵗ rₜ for rewards that are paid on arrival, so the reward of the first step is discounted once."""
    return float(np.sum(float(world.discount) ** (1 + np.arange(len(rewards))) * rewards))


def table(world: World, found: Sequence[Walk]) -> Table:
    """Returns a table of what each forager earns and how often it visits each site."""
    columns = Table("forager", "this walk", "mean, all starts", "of optimum", "visits", box=None)
    for column in columns.columns:
        column.no_wrap = True
    best = found[-1].mean
    for walk in found:
        visits = [int(np.sum(walk.episode.cells[1:] == site)) for site in world.sites]
        counts = " ".join(f"{_letter(i)}×{number}" for i, number in enumerate(visits))
        values = f"{float(walk.episode.value):.2f}", f"{walk.mean:.2f}", f"{walk.mean / best:.1%}"
        columns.add_row(walk.name, *values, counts)
    return columns


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def show(console: Console, out: Path, animate: bool = True) -> None:
    """Prints the walks and what they earn, and writes the explorer page and, with the extra `plots`, films.

    With `animate`, the walks move if the console is a terminal in which all maps fit side by side.
    """
    world, found = walks()
    sites = ", ".join(f"{_letter(i)} pays {reward:g}" for i, reward in enumerate(world.rewards))
    console.print(f"Four rooms: {sites}, and every visit halves what a site pays (λ = {LAM:g}).", highlight=False)
    console.print("Each forager believes that a visit multiplies the reward by λ̂.")
    console.print("@ is the forager, and arrows show its path.\n")
    last, width = max(len(walk.episode.rewards) for walk in found), len(found) * (2 * world.map.shape[1] + 6)
    if animate and console.is_terminal and console.size >= (width, world.map.shape[0] + 4):
        with Live(console=console, auto_refresh=False) as live:
            for moment in range(last + 1):
                live.update(frame(world, found, moment), refresh=True)
                time.sleep(FRAME_SECONDS)
    else:
        console.print(frame(world, found, last))
    console.print()
    console.print(table(world, found))
    console.print()
    for line in write(world, found, out):
        console.print(line, soft_wrap=True, highlight=False)


def write(world: World, found: Sequence[Walk], out: Path) -> list[str]:
    """Writes the explorer page and the films into a folder. Returns a line about each."""
    page = explore(world).save(out / "explorer.html")
    lines = [f"explorer: {page} (open it in a browser: paint the world, drag λ)"]
    try:
        for walk in found:
            path = out / f"{walk.name.partition(' (')[0].replace('λ̂ = ', 'lambda-')}.gif"
            world.film(walk.episode, path, title=walk.name)
            lines.append(f"film: {path}")
    except MissingExtra:
        lines.append(f"Films of the walks need an extra: {install_command('plots')}")
    return lines
