"""Composing policies from pixels: FourRooms seen in the first person, with λ-features of the four policies.

An agent compares the values of all actions, as the paper does, or it follows the policy whose own action is best. In
the data only the first step of an episode may take an action that is not the policy's, so later the values of such
actions are guesses.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.agents import Trained, gpi, lambda_features
from wane.agents.common.rollout import Episode, play
from wane.agents.common.views import Dataset
from wane.agents.lambda_features import Config, Params
from wane.agents.lambda_features.config import Choice
from wane.agents.laplacian import collect_data, map_views
from wane.agents.planner import plan
from wane.depletion import Geometric
from wane.exact.features import lambda_features as exact_lambda_features
from wane.lab import Claim, Experiment, Finding, Loop, Tables, exceeds, plots
from wane.lab.statistics import Estimate, bootstrap, paired_difference
from wane.lab.tables import frame, select
from wane.settings import Range
from wane.worlds.world import World
from wane_paper.common import beliefs, episodes
from wane_paper.common.parts import entry
from wane_paper.networks import pixels
from wane_paper.networks.pixels import FromPixels
from wane_paper.texts import texts

MEMORIES = {"refreshed": True, "never refreshed": False}
"""Whether agents recompute w at each step from what remains of the rewards."""
CHOICES: dict[str, Choice] = {"all actions": "actions", "policies' own actions": "policies"}
"""What agents compare: values of all actions (the paper's GPI), or only of the actions that the policies take."""
COMPARING, FOLLOWING = CHOICES
STATES = "one-hot states"
EXACT = "exact"
"""The target in the rows of agents that use the exact λF of the learned base features instead of a regression."""
STARTS_AT_A_TIME = 68


@dataclass(frozen=True)
class GpiPixels(FromPixels):
    """Settings of composing policies from pixels."""

    shown: Annotated[int, Range(0, 1_000_000)] = 30
    """the state that the drawn episodes start in"""

    def rules(self) -> None:
        """Raises SettingError if the shown state does not exist, or if there are more features than states."""
        super().rules()
        states = self.world.n_states
        self.require(
            self.shown < states, "shown", f"at most {states - 1} is needed, because FourRooms has {states} states"
        )
        needed = f"at most {states} is needed, because the world has as many eigenfunctions"
        self.require(self.agent.base.features <= states, "agent.base.features", needed)


def fixed(settings: GpiPixels) -> Tables:
    """Computes the optimum, and the returns with exact representations and λFs."""
    world = settings.world
    phis = np.stack([gpi.representations(world, depletion=Geometric(lam)) for lam in settings.lambdas])
    return {
        "optimum": frame(plan(world).values, "value", start=range(world.n_states)),
        "exact": frame(_exact_returns(settings, phis), "value", **_played(settings)).assign(features=STATES),
    }


def _feature_phis(
    settings: GpiPixels, phi: Float[np.ndarray, "states features"]
) -> Float[np.ndarray, "lambdas policies states actions sites"]:
    """Returns wᵀφ_λ of the exact λF of given features of the states, for a reward of 1 at each site."""
    world = settings.world
    weights = np.linalg.lstsq(phi, np.eye(world.n_states)[:, world.sites], rcond=None)[0]

    def one(policy: Any, lam: float) -> np.ndarray:
        exact = exact_lambda_features(world.mdp.under(policy), phi, lam, discount=world.discount)
        return np.asarray(exact.action_matrix(world.mdp)) @ weights

    return np.stack([[one(policy, lam) for policy in world.policies] for lam in settings.lambdas])


def _exact_returns(
    settings: GpiPixels, phis: Float[np.ndarray, "lambdas policies states actions sites"]
) -> Float[np.ndarray, "choices lambdas memories starts"]:
    world, key = settings.world, jax.random.key(0)

    def of_choice(policies: Sequence[Any] | None) -> np.ndarray:
        def one(phi: Array, refresh: Array) -> Array:
            return gpi.discounted_returns(key, world, phi, refresh=refresh, policies=policies)

        together = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
        return np.asarray(jax.jit(together)(phis, np.array(list(MEMORIES.values()))))

    return np.stack([of_choice(world.policies if choose == "policies" else None) for choose in CHOICES.values()])


def _played(settings: GpiPixels) -> dict[str, Any]:
    """Returns the labels along the axes of `_exact_returns`."""
    starts = range(settings.world.n_states)
    return {"choice": CHOICES, "lam": settings.lambdas, "memory": MEMORIES, "start": starts}


def seeded(settings: GpiPixels, seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains the agents of all seeds, and plays them from every start."""
    world = settings.world
    data = collect_data(jax.random.key(0), world, settings.agent.base)
    fits = pixels.train_seeds(loop, seeds, settings, data, range(len(world.policies)))
    axes = {"seed": seeds, "policy": range(len(world.policies)), "target": settings.targets, "lam": settings.lambdas}
    axes["iteration"] = range(1, settings.agent.iterations + 1)
    measured = {name: np.asarray(each, float).ravel() for name, each in fits.measured.items()}
    tables = {"fits": [frame(fits.measured["loss"], "loss", **axes).assign(**measured)]}
    for number, seed in enumerate(seeds):
        for name, table in _one_seed(settings, number, fits, data, loop if seed == 0 else None).items():
            tables.setdefault(name, []).append(table.assign(seed=seed))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}


def _one_seed(settings: GpiPixels, number: int, fits: pixels.Fits, data: Dataset, loop: Loop | None) -> Tables:
    """Returns the tables of one seed. With a loop, it keeps the agents and adds their λFs and an episode of each."""
    world, base = settings.world, entry(fits.params.base, number)
    tables: dict[str, list[pd.DataFrame]] = {"starts": [], "states": [], "shown": []}
    phi = _state_means(np.asarray(lambda_features.all_features(base, data)), np.asarray(data.counts), data, world)
    exact = _exact_returns(settings, _feature_phis(settings, np.clip(phi, 0, 1)))
    tables["starts"].append(frame(exact, "value", **_played(settings)).assign(target=EXACT))
    for (i, target), (j, lam) in product(enumerate(settings.targets), enumerate(settings.lambdas)):
        own, labels = fits.agent(number, i, j), {"target": target, "lam": lam}
        played = _play(own, world, settings.agent)
        axes = _played(settings)
        tables["starts"].append(frame(played.value, "value", **axes | {"lam": [lam]}).assign(target=target))
        if loop is not None:
            tables["states"].append(_state_rows(settings, own, data, lam).assign(**labels))
            shown = entry(played, 0, 0, settings.shown)
            tables["shown"].append(episodes.rows(world, shown, **labels))
            kept = dataclasses.replace(settings.agent, target=target, lam=lam)
            loop.keep(f"{target}-lam-{lam:g}", Trained("lambda_features", world, kept, own))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items() if parts}


def _state_means(
    values: Float[np.ndarray, "views features"], counts: Float[np.ndarray, " views"], data: Dataset, world: World
) -> Float[np.ndarray, "states features"]:
    """Returns the mean over the views of every state, weighted by how often each view was seen."""
    cells, total = np.asarray(data.cells), np.zeros((world.n_states, values.shape[1]))
    np.add.at(total, cells, values * counts[:, None])
    return total / np.maximum(np.bincount(cells, counts, world.n_states), 1)[:, None]


@partial(jax.jit, static_argnums=(1, 2))
def _play(params: Params, world: World, config: Config) -> Episode:
    """Plays an episode from every start. The axes of the result are (choices, memories, starts)."""

    def one(case: tuple[Array, Array, Array]) -> Episode:
        follows, refresh, start = case
        policy = lambda_features.composed(params, world, config, refresh, follows)
        return play(jax.random.key(0), world, policy, start=start)[1]

    follows = [choose == "policies" for choose in CHOICES.values()]
    cases = jnp.meshgrid(*map(jnp.asarray, (follows, list(MEMORIES.values()), range(world.n_states))), indexing="ij")
    shape = cases[0].shape
    played = jax.lax.map(one, tuple(case.ravel() for case in cases), batch_size=STARTS_AT_A_TIME)
    return jax.tree_util.tree_map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), played)


def _state_rows(settings: GpiPixels, params: Params, data: Dataset, lam: float) -> pd.DataFrame:
    """Returns the exact value, the learned value and two principal components of the λF for each policy and state."""
    world, rows = settings.world, []
    weights = np.asarray(params.weights) @ np.asarray(world.rewards)
    exact = gpi.representations(world, depletion=Geometric(lam)) @ np.asarray(world.rewards)
    for number, policy in enumerate(world.policies):
        network = entry(params.networks, number)
        table = np.asarray(all_tables(network, data, world.n_actions))
        counts = np.bincount(np.asarray(data.seen[number]).ravel(), minlength=len(table)).astype(float)
        mean = _state_means(table[np.arange(len(table)), policy[np.asarray(data.cells)]], counts, data, world)
        left, size, _ = np.linalg.svd(mean - mean.mean(0), full_matrices=False)
        x, y = (left * size).T[:2]
        value = exact[number][np.arange(world.n_states), policy]
        found = {"value": value, "learned": mean @ weights, "x": x, "y": y}
        rows.append(pd.DataFrame({"policy": number, "state": np.arange(world.n_states)} | found))
    return pd.concat(rows, ignore_index=True)


@partial(jax.jit, static_argnums=2)
def all_tables(network: Any, data: Dataset, n_actions: int) -> Float[Array, "views actions features"]:
    """Returns φ_θ(s, ·) of all views."""
    return map_views(lambda views: lambda_features.feature_table(network, views, n_actions), data.views)


PICTURED = 1
"""The policy whose λFs are drawn: it walks to the largest reward."""
TITLES = {"product": "regressing wᵀφ (the paper)", "vector": "regressing φ", EXACT: "exact λF of the learned features"}


class Kind(NamedTuple):
    """A kind of agent, which may have any λ̂."""

    target: str
    choice: str = COMPARING
    memory: str = "refreshed"


def draw(settings: GpiPixels, tables: Tables) -> Figure:
    """Draws returns of all agents, the λFs of the states as points, and learned values against exact values."""
    figure = plots.figure(11.5, 7.2)
    grid = figure.add_gridspec(2, 6)
    panels = [*settings.targets, EXACT]
    width = 6 // len(panels)
    for i, target in enumerate(panels):
        ax = figure.add_subplot(grid[0, width * i : width * (i + 1)])
        _draw_returns(ax, settings, tables, target)
        if i == 0:
            ax.legend(frameon=False, loc="upper left", fontsize=7.5)
    chosen = select(tables["states"], target=settings.targets[0], policy=PICTURED)
    for i, lam in enumerate(settings.lambdas[:3]):
        rows = chosen[chosen["lam"] == lam]
        ax = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
        points = ax.scatter(rows["x"], rows["y"], c=rows["value"], cmap="viridis", s=28)
        figure.colorbar(points, ax=ax, label="exact value")
        correlation = rows["learned"].corr(rows["value"])
        title = f"{beliefs.label(lam)}: λF of the states\nlearned and exact values: r = {correlation:.2f}"
        plots.tidy(ax, title, "PC 1", "PC 2")
    return figure


def _draw_returns(ax: Axes, settings: GpiPixels, tables: Tables, target: str) -> None:
    """Draws two bars for each λ̂: a pale one if agents compare all actions, a full one if they follow policies."""
    lambdas = sorted(settings.lambdas)
    places, best = np.arange(len(lambdas)), tables["optimum"]["value"].mean()
    lowest = 0.0
    for side, choice, opacity in ((-0.21, COMPARING, 0.45), (0.21, FOLLOWING, 1.0)):
        runs = _means(tables, Kind(target, choice))[lambdas]
        errors = runs.std(ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else None
        colours = [plots.colour(lam) for lam in lambdas]
        ax.bar(places + side, runs.mean(), 0.38, yerr=errors, color=colours, alpha=opacity, capsize=3, ecolor=plots.INK)
        tops = np.maximum(runs.mean() + (0 if errors is None else errors), 0)
        for place, height, top in zip(places + side, runs.mean(), tops, strict=True):
            ax.annotate(f"{height:.1f}", (place, top), (0, 4), textcoords="offset points", ha="center", fontsize=8)
        never = _means(tables, Kind(target, choice, "never refreshed"))[lambdas].mean()
        label = "w never refreshed" if choice == COMPARING else None
        ax.plot(places + side, never, "D", color=plots.INK, mfc="white", ms=4, label=label)
        lowest = min(lowest, runs.mean().min(), never.min())
    states = select(tables["exact"], features=STATES, memory="refreshed", choice=COMPARING)
    exact = states.groupby("lam")["value"].mean()[lambdas]
    ax.hlines(exact, places - 0.4, places + 0.4, color=plots.INK, lw=1, label="exact λR of the states, all actions")
    ax.axhline(best, color=plots.INK, ls="--", lw=1, label=f"optimum {best:.2f}")
    ax.axhline(0, color=plots.INK, lw=0.8)
    ax.set_xticks(places, [beliefs.label(lam) for lam in lambdas])
    ax.set_ylim(lowest - 3, 1.6 * best)
    plots.tidy(ax, f"{TITLES[target]}\npale: all actions, full: policies' own", "", "discounted return")


def films(settings: GpiPixels, tables: Tables) -> Mapping[str, Callable[[Path], Any]]:
    """Returns films of an episode of every agent, which show its views next to its position."""
    shown, found = tables["shown"], {}
    world = dataclasses.replace(settings.world, observation=settings.agent.base.vision.observation)
    for target in settings.targets:
        for lam in settings.lambdas:
            rows = shown[(shown["lam"] == lam) & (shown["target"] == target)]
            title = f"pixels, {target}, λ̂ = {lam:g}, true λ = {settings.lam:g}"
            found[f"{target}, {beliefs.label(lam)}"] = episodes.film(world, rows, title, with_views=True)
    return found


def _means(tables: Tables, kind: Kind) -> pd.DataFrame:
    """Returns the mean returns over all starts, with the axes (seeds, λ̂)."""
    return select(tables["starts"], **kind._asdict()).pivot_table(index="seed", columns="lam", values="value")


def _difference(tables: Tables, ours: tuple[Kind, float], theirs: tuple[Kind, float]) -> Estimate:
    """Estimates the difference between two agents' returns, over seeds, or over starts if there is one seed."""
    rows = [select(tables["starts"], lam=lam, **kind._asdict()) for kind, lam in (ours, theirs)]
    runs = "seed" if rows[0]["seed"].nunique() > 1 else "start"
    one, other = (each.groupby(runs)["value"].mean() for each in rows)
    return paired_difference(one, other)


Test = Callable[[GpiPixels, Tables], Finding]


def the_true_lambda_is_best(kind: Kind) -> Test:
    """Returns a test that the agent with the true λ earns more than the best of the others, paired by seed."""

    def test(settings: GpiPixels, tables: Tables) -> Finding:
        settings.need_targets(*{kind.target} - {EXACT})
        means = _means(tables, kind)
        rival = beliefs.rival(means, settings.lambdas, settings.lam)
        found = _difference(tables, (kind, settings.lam), (kind, rival))
        detail = beliefs.means(means, settings.lambdas, ".2f")
        optimum = tables["optimum"]["value"].mean()
        detail += f"; optimum {optimum:.2f}; {len(means)} seeds, mean over all {settings.world.n_states} starts"
        return exceeds(found, detail)

    return test


def following_earns_more(settings: GpiPixels, tables: Tables) -> Finding:
    """Tests that agents with the true λ earn more if they follow policies than if they compare actions."""
    settings.need_targets("product")
    beliefs.need(settings.lambdas, settings.lam)
    following, comparing = Kind("product", FOLLOWING), Kind("product")
    found = _difference(tables, (following, settings.lam), (comparing, settings.lam))
    one, other = (_means(tables, kind)[settings.lam].mean() for kind in (following, comparing))
    return exceeds(found, f"{one:.2f} against {other:.2f}")


def refreshing_is_needed(settings: GpiPixels, tables: Tables) -> Finding:
    """Tests whether the exact λR with the true λ earns the most if w is recomputed at every step, and only then."""
    beliefs.need(settings.lambdas, settings.lam)
    rows = select(tables["exact"], features=STATES, choice=COMPARING)
    means = rows.pivot_table(index="memory", columns="lam", values="value")
    wrong = list(beliefs.others(settings.lambdas, settings.lam))
    lead = means[settings.lam] - means[wrong].max(axis=1)
    detail = "; ".join(
        f"{memory}: " + ", ".join(f"λ̂ = {lam:g}: {row[lam]:.2f}" for lam in settings.lambdas)
        for memory, row in means.iterrows()
    )
    holds = bool(lead["refreshed"] > 0 > lead["never refreshed"])
    return Finding(holds, float(lead["refreshed"] - lead["never refreshed"]), None, detail)


def values_are_those_of_the_states(settings: GpiPixels, tables: Tables) -> Finding:
    """Tests whether values from pixels have a mean correlation above 0.9 with exact ones, for the true λ."""
    beliefs.need(settings.lambdas, settings.lam)
    fits = select(tables["fits"], target=settings.targets[0], iteration=settings.agent.iterations)
    rows = select(fits, lam=settings.lam)
    found = bootstrap(rows.groupby("seed")["correlation"].mean())
    others = fits.groupby("lam")[["correlation", "own_error"]].mean()
    detail = "; ".join(f"λ̂ = {lam:g}: r = {row.iloc[0]:.2f}, error {row.iloc[1]:.3g}" for lam, row in others.iterrows())
    return exceeds(found, detail, 0.9)


EXPERIMENT = Experiment(
    **texts("gpi-pixels"),
    quick=GpiPixels(agent=pixels.QUICK, seeds=1),
    paper=GpiPixels(seeds=3, targets=("product",)),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=(
        Claim(
            "true-lambda-is-best",
            "The true λ earns the most from pixels.",
            the_true_lambda_is_best(Kind("product")),
            kind="paper",
            place="section 5.3, figure 5.4",
        ),
        Claim(
            "exact-learning-following",
            "The true λ earns the most with exact λFs of the learned base features, where policies are followed.",
            the_true_lambda_is_best(Kind(EXACT, FOLLOWING)),
        ),
        Claim(
            "values", "Values from pixels correlate with exact values by more than 0.9.", values_are_those_of_the_states
        ),
        Claim(
            "following",
            "Following the best policy earns more than comparing actions of which the data tell little.",
            following_earns_more,
        ),
        Claim(
            "memory",
            "With the exact λR of the states the true λ earns the most only if w is made anew at every step.",
            refreshing_is_needed,
        ),
    ),
    double_precision=False,
)
