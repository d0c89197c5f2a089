"""The agents of the experiments with SAC: how they differ, and their training (see `wane_paper.networks.sac`)."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from wane.agents import Trained, sac
from wane.agents.common.driving import drive
from wane.agents.common.networks import MLP
from wane.agents.common.replay import Replay
from wane.agents.sac import Config, Learners, State, Variant
from wane.lab.contract import Loop, Seeded, Tables, seed_keys
from wane.lab.tables import frame
from wane.settings import DISTINCT
from wane.worlds.control import OWN, ControlTask
from wane_paper.common.parts import entry, join_tables

Agent = Literal["SAC-2", "SAC-1", "0-SAC", "0.5-SAC", "1-SAC", "lambda-SAC", "lambda-SAC-average"]
TWO, ONE, ADAPTIVE, AVERAGE = "SAC-2", "SAC-1", "lambda-SAC", "lambda-SAC-average"
VARIANTS: dict[str, Variant] = {
    TWO: Variant(critics=2),
    ONE: Variant(),
    "0-SAC": Variant(lam=0.0, lambda_features=True),
    "0.5-SAC": Variant(lam=0.5, lambda_features=True),
    "1-SAC": Variant(lam=1.0, lambda_features=True),
    ADAPTIVE: Variant(adaptive=True, lambda_features=True),
    AVERAGE: Variant(adaptive=True, lambda_features=True, averaging=True),
}
"""All kinds of agents."""
SIX: tuple[Agent, ...] = ("SAC-2", "SAC-1", "0-SAC", "0.5-SAC", "1-SAC", "lambda-SAC")
"""The paper's kinds of agents."""
KINDS: dict[str, str] = dict.fromkeys(
    ("agent.critics", "agent.lam", "agent.adaptive", "agent.lambda_features", "agent.bandit.averaging"), "agents"
)
"""The settings in which the kinds of agents differ, each with the setting that controls it instead."""
CONTAINED: dict[str, str] = {ONE: "1-SAC"}
"""Kinds of agents whose training is contained in that of another kind.

The λF changes no value if λ = 1, so 1-SAC has the critic and the policy of SAC with one critic, bit for bit (tested).
"""
TERMS = "value", "correction", "lam", "entropy", "temperature", "critic", "features"
SHOWN = 100
"""The number of moments of an episode that are kept for its film."""


QUICK = Config(
    hidden=(64, 64),
    batch=128,
    replay=20_000,
    learning_rate=1e-3,
    random_steps=500,
    collection_steps=300,
    steps=500,
    epochs=12,
    evaluation_episodes=2,
)
"""An agent that learns small tasks in minutes on two cores: smaller networks and batches, and a higher rate."""


@dataclass(frozen=True)
class Kinds(Seeded):
    """Settings of the experiments that compare kinds of agents. A subclass gives the tasks (`places`)."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = KINDS

    agents: Annotated[tuple[Agent, ...], DISTINCT] = SIX
    """the kinds of agents: SAC with two critics and with one, one critic with a fixed λ, and λ-SAC, also with feedback
    against the average of earlier episodes"""
    agent: Config = field(default_factory=lambda: QUICK)
    """all agents"""

    @property
    def steps(self) -> list[int]:
        """The number of steps taken by the end of each epoch."""
        return [self.agent.steps * (number + 1) for number in range(self.agent.epochs)]


@dataclass(frozen=True)
class Control(Kinds):
    """Settings of sac."""

    tasks: Annotated[tuple[str, ...], DISTINCT] = ("HalfCheetah-v5", "Hopper-v5")
    """ids of Gymnasium, or wane/PointMass-v0"""

    def rules(self) -> None:
        """Raises SettingError for unknown tasks."""
        super().rules()
        for name in self.tasks:
            self.require(_is_known(name), "tasks", f"an id of Gymnasium or wane/PointMass-v0 is needed, not {name!r}")

    def places(self) -> dict[str, ControlTask]:
        """The tasks by name. Raises MissingExtra if MuJoCo is needed and not installed."""
        return {name: ControlTask(name) for name in self.tasks}


def _is_known(name: str) -> bool:
    if name in OWN:
        return True
    import gymnasium

    return name in gymnasium.registry


def updates_by(steps: Any, config: Config) -> Any:
    """Returns the number of updates made within a number of steps."""
    return np.maximum(np.asarray(steps) - config.collection_steps, 0)


def count_flops(task: ControlTask, config: Config, agents: Sequence[str]) -> dict[str, float]:
    """Returns the FLOPs of an update for each kind of agent. Kinds with the same networks run the same program."""
    counted: dict[tuple[Any, Any], float] = {}
    for name in agents:
        networks = VARIANTS[name].critics, VARIANTS[name].lambda_features
        if networks not in counted:
            counted[networks] = sac.update_flops(task, config, VARIANTS[name])
    return {name: counted[VARIANTS[name].critics, VARIANTS[name].lambda_features] for name in agents}


def fixed(settings: Control) -> Tables:
    """Returns the table `flops`: the cost of an update for each kind of agent."""
    rows = [
        {"task": name, "agent": agent, "flops": flops}
        for name, task in settings.places().items()
        for agent, flops in count_flops(task, settings.agent, settings.agents).items()
    ]
    return {"flops": pd.DataFrame(rows)}


def trained(agents: Sequence[str]) -> list[str]:
    """Returns the kinds of agents that must be trained to know all of the given ones."""
    return [name for name in agents if CONTAINED.get(name) not in agents]


class TaskLearning:
    """The training of some agents in a task, with one epoch in each chunk. It is a `HostState`, which is saved rarely.

    The replay is large, so it is kept out of the loop's state, and only its filled part is saved.
    """

    def __init__(self, task: ControlTask, config: Config, seeds: Sequence[int], agents: Sequence[str]):
        """Starts the agents. All cores simulate the task."""
        names, cores = trained(agents), os.cpu_count() or 1
        keys, chosen = seed_keys(seeds), [VARIANTS[name] for name in names]
        columns = (np.tile(np.asarray(column), len(seeds)) for column in zip(*chosen, strict=True))
        variants = Variant(*(jnp.asarray(column) for column in columns))
        self.learners = Learners(jnp.repeat(keys, len(names)), task, config, variants, cores, cores)
        own = [names.index(CONTAINED[name] if name not in names else name) for name in agents]
        # For each seed and kind of agent, the place of what it learned.
        self._places = (np.arange(len(seeds))[:, None] * len(names) + np.asarray(own)).ravel()
        self.states, self.epochs = self.learners.init(), config.epochs
        self.replay: Replay | None = self.states.replay
        self.states = self._without_replay(self.states)

    @staticmethod
    def _without_replay(states: State) -> State:
        return states._replace(replay=None)  # pyright: ignore[reportArgumentType]

    def step(self, states: State, number: int) -> tuple[State, Any]:
        """Trains for one epoch. The replay is dropped after the last epoch."""
        assert self.replay is not None
        states, info = self.learners.epoch(states._replace(replay=self.replay), number)
        self.replay = states.replay if number + 1 < self.epochs else None
        return self._without_replay(states), entry(info, self._places)

    def policies(self, states: State) -> MLP:
        """Returns the policies of all agents, for each seed one after another."""
        return entry(states.params, self._places)

    def get(self) -> dict[str, Any]:
        """Returns the filled part of the replay, and the state of the simulators on the host."""
        if self.replay is None:
            return {"learners": self.learners.get()}
        filled = min(int(self.replay.added[0]), self.replay.items.shape[1])
        kept = {"items": np.asarray(self.replay.items[:, :filled]), "added": np.asarray(self.replay.added)}
        return {"learners": self.learners.get(), "replay": kept}

    def set(self, tree: Mapping[str, Any]) -> None:
        """Restores what `get` returned."""
        self.learners.set(tree["learners"])
        if "replay" not in tree:
            self.replay = None
            return
        assert self.replay is not None
        items = self.replay.items.at[:, : tree["replay"]["items"].shape[1]].set(tree["replay"]["items"])
        self.replay = Replay(items, jnp.asarray(tree["replay"]["added"]))


def seeded(settings: Control, seeds: Sequence[int], loop: Loop) -> Tables:
    """Returns learning curves, bandits' probabilities and episodes of seed 0 in all tasks. Keeps seed 0's agents."""
    return learn(settings, settings.places(), seeds, loop)


def learn(settings: Kinds, places: Mapping[str, ControlTask], seeds: Sequence[int], loop: Loop) -> Tables:
    """Trains all agents for all seeds in one task after the other. `places` gives the tasks by their names."""
    config, agents, parts = settings.agent, settings.agents, []
    for label, task in places.items():
        learning = TaskLearning(task, config, seeds, agents)
        work = config.steps * len(seeds) * len(trained(agents))
        name = f"training in {_file_name(label)}"
        states, info = loop(name, learning.step, learning.states, config.epochs, work, "steps", learning)
        parts.append(_tables(settings, label, task, seeds, learning.policies(states), info, loop))
    return join_tables(parts)


def _tables(
    settings: Any,
    label: str,
    task: ControlTask,
    seeds: Sequence[int],
    policies: MLP,
    info: Mapping[str, Any],
    loop: Loop,
) -> dict[str, pd.DataFrame]:
    """Returns the tables of one task, from the last policies and the measurements of the epochs."""
    agents, config = settings.agents, settings.agent
    axes: dict[str, Any] = {"step": settings.steps, "seed": seeds, "agent": agents}
    curves = frame(info["greedy"], "greedy", **axes).assign(training=np.ravel(info["returns"]).astype(float))
    curves = curves.assign(**{term: np.ravel(info["terms"][term]).astype(float) for term in TERMS})
    curves.loc[[VARIANTS[agent].lambda_features is False for agent in curves["agent"]], "features"] = np.nan
    arms = frame(info["probabilities"], "probability", **axes, lam=config.lambdas)
    arms = arms[[VARIANTS[agent].adaptive for agent in arms["agent"]]]
    tables = {"curves": curves.assign(task=label), "arms": arms.assign(task=label)}
    if 0 in seeds:
        own = entry(policies, slice(list(seeds).index(0) * len(agents), None))
        tables["episodes"] = _show(settings, task, own, loop, label)
    return tables


def _show(settings: Kinds, task: ControlTask, params: Any, loop: Loop, label: str) -> pd.DataFrame:
    """Keeps the agents of one seed, given their networks, and returns one episode of each, with mean actions."""
    tables = []
    for i, name in enumerate(settings.agents):
        own = entry(params, i)
        chosen = VARIANTS[name].applied(settings.agent)
        loop.keep(f"{_file_name(label)}-{name}", Trained("sac", task, chosen, own))
        played = drive(jax.random.key(0), task, sac.policy(own, task, chosen), 1, chosen.discount)
        steps = int(played.live[0].sum())
        moments = np.unique(np.linspace(0, steps, min(steps + 1, SHOWN)).astype(int))
        earned = np.append(0.0, np.cumsum(played.rewards[0]))
        columns = {f"state{j}": numbers for j, numbers in enumerate(played.states[0, moments].T)}
        tables.append(pd.DataFrame({"time": moments, "earned": earned[moments], **columns}).assign(agent=name))
    return pd.concat(tables, ignore_index=True).assign(task=label, seed=0)


def _file_name(label: str) -> str:
    """Returns the name of a task as part of a file name."""
    return label.removeprefix("wane/").lower().replace(" ", "-").replace(",", "")
