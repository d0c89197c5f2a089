"""The 6 × 6 grid: errors of a policy's values by dynamic programming and by TD, for a right and a wrong λ.

The error is the mean of (Q − Q_true)² over the 16 free cells and 4 actions. The reward wears off with λ = ½, and Q_true
is exact. With a wrong λ both methods converge to other values. The paper's third panel, TD on features, is in
`grid-features`.

| table | kind | a row for each | columns |
| --- | --- | --- | --- |
| `limits` | fixed | λ̂ | lam, error: the exact error that both methods converge to |
| `sweeps` | fixed | λ̂, sweep of dynamic programming | lam, sweep, error |
| `learning` | seeded | seed, λ̂, tenth episode of TD | seed, lam, episode, error |
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import Trained, td
from wane.depletion import Geometric
from wane.exact.bellman import bellman_action_step
from wane.exact.representations import representation
from wane.lab import Claim, Experiment, Finding, Loop, Seeded, Tables, plots, seed_keys
from wane.lab.tables import frame, select
from wane.settings import Count, Lambda, Range
from wane.types import AnyArray, Integer
from wane.worlds import draw as pictures
from wane.worlds.catalog import grid_6x6
from wane.worlds.world import World
from wane_paper.common import beliefs
from wane_paper.common.maps import outline_cell
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas
from wane_paper.texts import texts

CHUNKS = 10
RECORDED = 10
"""The interval, in episodes, at which errors are recorded."""
QValues = Float[np.ndarray, "states actions"]


@dataclass(frozen=True)
class OnGrid(Seeded):
    """Settings of the experiments that evaluate the policy of the grid. A subclass adds the agent."""

    lambdas: Lambdas = (0.0, 0.5, 1.0)
    """the agents' λ̂; the paper has ½ and 1"""
    lam: Lambda = 0.5
    """the true λ"""
    discount: Annotated[float, Range(0, 1, "a discount", below=True)] = 0.9
    """γ"""
    horizon: Count = 10
    """steps of an episode of TD; the released settings have 20"""
    agent: Any = None

    def rules(self) -> None:
        """Raises SettingError if there are too few episodes."""
        super().rules()
        least = CHUNKS * RECORDED
        needed = f"at least {least} is needed, because every tenth error of the last tenth of them is judged"
        self.require(self.agent.episodes >= least, "agent.episodes", needed)

    @property
    def world(self) -> World:
        """The grid."""
        return grid_6x6(depletion=Geometric(self.lam), discount=self.discount, horizon=self.horizon)


@dataclass(frozen=True)
class PolicyEvaluation(OnGrid):
    """Settings of policy evaluation."""

    sweeps: Count = 100
    """sweeps of dynamic programming; the paper stops at a Bellman error of 0.05, after about 30"""
    agent: td.Config = field(default_factory=td.Config)
    """the agents that learn; episodes start in every cell in turn"""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {
        "agent.lam": "lambdas",
        "agent.depletion": "lambdas",
        "agent.discount": "discount",
    }

    def rules(self) -> None:
        """Raises SettingError if there are too few episodes, or if TD would not learn Q of the grid's own policy."""
        super().rules()
        for name, only in (("policy", 0), ("rows", "state-action"), ("sites", None)):
            given = getattr(self.agent, name)
            same = given is None if only is None else np.ndim(given) == 0 and given == only
            needed = f"{only!r} is needed, because the error is that of Q for the grid's own policy"
            self.require(same, f"agent.{name}", needed)


def exact_q(world: World, lam: float) -> QValues:
    """Returns Q of the grid's own policy for rewards that wear off with λ."""
    phi = representation(world.mdp.under(world.policies[0]), Geometric(lam), discount=world.discount, sites=world.sites)
    return np.asarray(phi.q_values(world.mdp, world.rewards))


def q_error(phi: Float[AnyArray, "states actions sites"], world: World, truth: QValues) -> Any:
    """Returns the paper's Q error of a representation."""
    return ((phi @ world.rewards - truth) ** 2).mean()


def fixed(settings: PolicyEvaluation) -> Tables:
    """Computes the exact limits, and runs dynamic programming from (1 − λ) I."""
    world = settings.world
    truth = exact_q(world, settings.lam)
    limits = [((exact_q(world, lam) - truth) ** 2).mean() for lam in settings.lambdas]
    errors = [_sweep_errors(settings, world, lam, truth) for lam in settings.lambdas]
    return {
        "limits": frame(limits, "error", lam=settings.lambdas),
        "sweeps": frame(errors, "error", lam=settings.lambdas, sweep=range(settings.sweeps + 1)),
    }


def _sweep_errors(settings: PolicyEvaluation, world: World, lam: float, truth: QValues) -> list[float]:
    """Returns the error before the first sweep of dynamic programming and after each sweep."""
    at_site = (np.arange(world.n_states)[:, None, None] == world.sites) * np.ones((1, world.n_actions, 1))
    phi, errors = (1 - lam) * at_site, []
    for _ in range(settings.sweeps):
        errors.append(float(q_error(phi, world, truth)))
        phi = bellman_action_step(phi, world.mdp, world.policies[0], lam, world.discount, world.sites)
    return [*errors, float(q_error(phi, world, truth))]


def seeded(settings: PolicyEvaluation, seeds: Sequence[int], loop: Loop) -> Tables:
    """Runs TD for all seeds and λ̂ in one program. Keeps the agents of seed 0."""
    world, keys, lams = settings.world, seed_keys(seeds), jnp.asarray(settings.lambdas)
    agent, size = settings.agent, -(-settings.agent.episodes // CHUNKS)
    truth = exact_q(world, settings.lam)

    @jax.jit
    def step(state: td.State, chunk: Integer) -> tuple[td.State, Any]:
        def one(key, lam, state):
            config = dataclasses.replace(agent, lam=lam)
            measure = lambda state: q_error(state.phi, world, truth)  # noqa: E731
            state, info = td.train(key, world, config, state, chunk * size, size, measure=measure)
            return state, info.measured

        return jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, 0))(keys, lams, state)

    def first(key):
        return jax.vmap(lambda lam: td.init(key, world, dataclasses.replace(agent, lam=lam)))(lams)

    work = size * settings.horizon * len(seeds) * len(lams)
    state, errors = loop("TD", step, jax.vmap(first)(keys), CHUNKS, work)
    for i, lam in enumerate(settings.lambdas) if 0 in seeds else ():
        # They learned from whole chunks of episodes.
        config = dataclasses.replace(settings.agent, lam=lam, episodes=size * CHUNKS)
        loop.keep(f"lam-{lam:g}", Trained("td", world, config, entry(state, list(seeds).index(0), i)))
    return {"learning": learning_table(settings, seeds, errors)}


def learning_table(settings: OnGrid, seeds: Sequence[int], errors: Float[np.ndarray, "chunks ..."]) -> pd.DataFrame:
    """Returns every tenth error, given those of all chunks with the axes (chunks, seeds, λ̂, episodes of a chunk)."""
    count = settings.agent.episodes
    errors = np.moveaxis(errors, 0, 2).reshape(len(seeds), len(settings.lambdas), -1)[..., :count]
    table = frame(errors, "error", seed=seeds, lam=settings.lambdas, episode=range(1, count + 1))
    return table[table["episode"] % RECORDED == 0]


def draw(settings: PolicyEvaluation, tables: Tables) -> Figure:
    """Draws the task, and the errors of both methods with their exact limits."""
    figure = plots.figure(11.0, 3.6)
    task, dynamic, learned = figure.subplots(1, 3, width_ratios=[0.8, 1, 1])
    world = settings.world
    pictures.draw_map(world.map, policy=world.policies[0], title="policy and reward", ax=task)
    for site, reward in zip(world.sites, world.rewards, strict=True):
        outline_cell(task, world.map, site, plots.OTHERS[2], f"g: {float(reward):+g}")
    names = beliefs.names(settings.lambdas, settings.lam)
    for lam, rows in tables["sweeps"].groupby("lam"):
        dynamic.plot(rows["sweep"], rows["error"], color=plots.colour(lam))
    colours = {names[lam]: plots.colour(lam) for lam in settings.lambdas}
    named = tables["learning"].assign(agent=tables["learning"]["lam"].map(names))
    plots.plot_learning(named, y="error", interval="error", ax=learned, colours=colours)
    for ax, title, unit in ((dynamic, "Dynamic programming", "sweep"), (learned, "Tabular TD", "episode")):
        _draw_limits(ax, settings, tables)
        plots.tidy(ax, title, unit, "mean squared error of Q")
        ax.legend(frameon=False, loc="upper right")
    return figure


def _draw_limits(ax: Axes, settings: PolicyEvaluation, tables: Tables) -> None:
    limits = tables["limits"].set_index("lam")["error"]
    for lam in settings.lambdas:
        if lam != settings.lam:
            ax.axhline(limits[lam], color=plots.colour(lam), ls=":", lw=1)
    ax.plot([], [], ls=":", lw=1, color=plots.INK, label="what a wrong λ̂ converges to")


def last_learning(tables: Tables) -> pd.DataFrame:
    """Returns the mean error over the last tenth of the episodes, with the axes (seeds, λ̂)."""
    rows = tables["learning"]
    return rows[rows["episode"] > 0.9 * rows["episode"].max()].pivot_table("error", index="seed", columns="lam")


def sweeps_find_the_true_values(settings: PolicyEvaluation, tables: Tables) -> Finding:
    """Tests whether dynamic programming with the true λ ends with an error below 0.001."""
    beliefs.need(settings.lambdas, settings.lam)
    error = select(tables["sweeps"], sweep=settings.sweeps).set_index("lam")["error"]
    detail = ", ".join(f"λ̂ = {lam:g}: {value:.4g}" for lam, value in error.items())
    return Finding(bool(error[settings.lam] < 1e-3), error[settings.lam], None, detail)


def td_is_best_with_the_true_lambda(settings: PolicyEvaluation, tables: Tables) -> Finding:
    """Tests whether TD ends with a smaller error for the true λ than for the best wrong λ̂, paired by seed."""
    return beliefs.least_for_the_true(last_learning(tables), settings.lambdas, settings.lam)


EXPERIMENT = Experiment(
    **texts("policy-evaluation"),
    quick=PolicyEvaluation(),
    paper=PolicyEvaluation(seeds=64),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    claims=(
        Claim(
            "dp-accurate",
            "Dynamic programming with the true λ converges to the true values.",
            sweeps_find_the_true_values,
            kind="paper",
            place="section 5.1, figure 5.1",
        ),
        Claim(
            "td-accurate",
            "TD ends with the smallest error for the true λ.",
            td_is_best_with_the_true_lambda,
            kind="paper",
            place="section 5.1, figure 5.1",
        ),
    ),
)
