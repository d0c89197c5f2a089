"""A first look: the λR between the first-occupancy and the successor representation, and what the right λ is worth.

Left, the paper's first result figure: Φ_λ of the bottom-left cell of a small grid for λ = 0, ½, 1. Right, its
FourRooms task (rewards 5, 10, 5 that halve with every visit): the return of composing four policies by GPI with
representations for a believed λ̂, averaged over all 68 starts, beside the optimum over (cell × visit counts), which
the paper could not compute.
"""

import base64
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.depletion import Geometric
from wane.exact.optimum import Optimum, optimum
from wane.exact.representation import lambda_representation
from wane.worlds.catalog import four_rooms, grid_6x6
from wane.worlds.film import gif
from wane.worlds.grid import MOVES
from wane.worlds.world import World

LAMBDAS = (0.0, 0.5, 1.0)
BELIEVED = (0.0, 0.25, 0.5, 0.75, 1.0)
TRUE_LAMBDA = 0.5


class Demo(NamedTuple):
    occupancies: dict[float, np.ndarray]
    """Φ_λ of the start of the 6 × 6 grid, by λ"""
    returns: pd.DataFrame
    """one row for each agent: its mean return over all starts, and the regret to the optimum"""
    best: Optimum


def compute() -> Demo:
    grid = grid_6x6()
    kernel = grid.mdp.under(grid.policies[0])
    start = grid.map.find("S")
    occupancies = {lam: lambda_representation(kernel, lam, discount=grid.discount).matrix[start] for lam in LAMBDAS}
    rooms = four_rooms()
    rows = [(agent_name(lam), gpi_returns(rooms, lam).mean()) for lam in BELIEVED]
    best = optimum(
        rooms.mdp,
        rooms.rewards,
        Geometric(TRUE_LAMBDA),
        discount=rooms.discount,
        sites=rooms.sites,
        horizon=rooms.horizon,
        timing="arrival",
        action_rewards=-1.0 * rooms.map.bumps(rooms.n_actions),
    )
    returns = pd.DataFrame([*rows, ("optimum", best.values.mean())], columns=["agent", "return"])
    returns["regret"] = best.values.mean() - returns["return"]
    return Demo(occupancies, returns, best)


def agent_name(believed: float) -> str:
    return f"GPI, λ̂ = {believed:g}" + (" (true)" if believed == TRUE_LAMBDA else "")


def gpi_returns(room: World, believed: float, lam: float = TRUE_LAMBDA) -> np.ndarray:
    """Σ_{t ≥ 1} γᵗ rₜ of acting by argmax_a max_π Σ r_left Φ_λ̂^π(s, a), from every start at once."""
    mdp, n = room.mdp, room.n_states
    phi = np.stack(
        [
            lambda_representation(mdp.under(policy), believed, discount=room.discount, sites=room.sites).action_matrix(
                mdp
            )
            for policy in room.policies
        ]
    )
    moves, bumps = room.map.next_states(room.n_actions), room.map.bumps(room.n_actions)
    state, left, total = np.arange(n), np.tile(room.rewards, (n, 1)), np.zeros(n)
    for t in range(1, (room.horizon or 0) + 1):
        action = np.einsum("pnak,nk->pna", phi[:, state], left).max(0).argmax(1)
        reward = -1.0 * bumps[state, action]
        state = moves[state, action]
        arrived = state[:, None] == room.sites
        total += room.discount**t * (reward + (left * arrived).sum(1))
        left = np.where(arrived, lam * left, left)
    return total


def episode(room: World, best: Optimum, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells, what is left of every site and the return so far, at every step of the optimal policy."""
    table, states, counts = room.map.next_states(room.n_actions), [start], [np.zeros(room.n_sites, int)]
    for t in range(room.horizon or 0):
        states.append(int(table[states[-1], best.action(states[-1], counts[-1], t)]))
        counts.append(counts[-1] + (room.sites == states[-1]))
    left = room.rewards * room.depletion.worth(np.array(counts))
    paid = [
        room.discount**t * (before * (room.sites == cell)).sum()
        for t, (cell, before) in enumerate(zip(states[1:], left, strict=False), start=1)
    ]
    return np.array(states), left, np.cumsum([0.0, *paid])


def draw(demo: Demo) -> Figure:
    room = grid_6x6()
    figure = Figure(figsize=(13.0, 3.5), layout="constrained")
    panels = figure.subplots(1, 5, width_ratios=[1, 1, 1, 1, 1.6])
    colours = matplotlib.colormaps["viridis"].with_extremes(bad="0.8")
    top = max(values.max() for values in demo.occupancies.values())
    walls = room.map.image(np.zeros(room.map.n_states))
    panels[0].imshow(walls, cmap=matplotlib.colormaps["Greys"].with_extremes(bad="0.8"), vmin=0, vmax=1)
    panels[0].set_title("policy and start")
    row, column = room.map.cells.T
    down, right = MOVES[room.policies[0]].T
    panels[0].quiver(column, row, right, -down, pivot="mid", scale=6.5, width=0.012, color="0.15")
    panels[0].plot(*room.map.cells[room.map.find("S")][::-1], "o", ms=17, mfc="none", mec="#D55E00", mew=2)
    image = None
    for panel, (lam, values) in zip(panels[1:4], demo.occupancies.items(), strict=True):
        image = panel.imshow(room.map.image(values), cmap=colours, vmin=0, vmax=top)
        panel.set_title(f"λ = {lam:g}" + {0.0: "  (FR)", 1.0: "  (SR)"}.get(lam, ""))
    for panel in panels[:4]:
        panel.set(xticks=[], yticks=[])
    assert image is not None
    figure.colorbar(image, ax=panels[3], label="Φ(start, cell)", fraction=0.05)
    names, returns = demo.returns["agent"], demo.returns["return"]
    shades = ["#0072B2" if name == agent_name(TRUE_LAMBDA) else "#999999" for name in names[:-1]] + ["#009E73"]
    bars = panels[4].barh(names[::-1], returns[::-1], color=shades[::-1])
    panels[4].bar_label(bars, fmt="%.2f", padding=3)
    panels[4].set(xlim=(0, returns.max() * 1.18), xlabel="discounted return", title="FourRooms, true λ = ½")
    panels[4].spines[["top", "right"]].set_visible(False)
    return figure


def write(demo: Demo, out: Path) -> Path:
    """Writes the picture, the table, and a page that holds both; returns the page."""
    out.mkdir(parents=True, exist_ok=True)
    draw(demo).savefig(out / "demo.png", dpi=130)
    demo.returns.to_csv(out / "four_rooms.csv", index=False)
    rooms = four_rooms()
    states, left, returns = episode(rooms, demo.best, rooms.map.state(6, 3))
    gif(
        out / "optimum.gif",
        rooms.map,
        states,
        sites=rooms.sites,
        rewards=rooms.rewards,
        remaining=left,
        returns=returns,
        title="The optimal policy on FourRooms, λ = ½",
    )
    film = base64.b64encode((out / "optimum.gif").read_bytes()).decode()
    picture = base64.b64encode((out / "demo.png").read_bytes()).decode()
    table = demo.returns.to_html(index=False, float_format="%.3f", border=0)
    page = out / "demo.html"
    page.write_text(_PAGE.format(picture=picture, table=table, film=film), encoding="utf-8")
    return page


_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>wane: a first look</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}}img{{max-width:100%}}
td,th{{padding:.2rem .8rem;text-align:right}}td:first-child,th:first-child{{text-align:left}}</style>
<h1>A first look at diminishing rewards</h1>
<p>Left: what the paper's λ representation of the circled cell holds for every other cell under the policy drawn,
exactly: the discounted time of the first visit for λ = 0, all visits for λ = 1, and in between visits that count half
as much each time.</p>
<p>Right: FourRooms with rewards 5, 10, 5 that halve with every visit. An agent that composes four given policies
believes in λ̂; mean return over all 68 starts, beside the best that any policy with a memory can do. Believing in far
too much or too little costs most; near the true λ = ½ it hardly matters, and as composing four fixed policies is not
optimal anyway, a λ̂ slightly off can even do a little better.</p>
<img alt="The λ representation on a 6 by 6 grid, and returns on FourRooms" src="data:image/png;base64,{picture}">
{table}
<p>The optimal policy at work. It remembers what it took, which no fixed policy over cells can.</p>
<img alt="The optimal policy collecting three depleting rewards on FourRooms" src="data:image/gif;base64,{film}">
</html>
"""
