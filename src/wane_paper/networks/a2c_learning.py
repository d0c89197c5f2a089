"""The agents of the experiment `a2c`: how they differ, and their training (see `wane_paper.networks.a2c`)."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from wane.agents import Trained, a2c
from wane.agents.a2c import Config, Params, State
from wane.agents.common.rollout import Episode, play
from wane.depletion import Geometric
from wane.lab.contract import Loop, Seeded, Tables, seed_keys
from wane.lab.tables import frame
from wane.settings import Count, Discount, Lambda, Range, Share
from wane.types import Integer
from wane.worlds.catalog import two_rooms
from wane.worlds.world import World
from wane_paper.common import beliefs, episodes
from wane_paper.common.learning import optimum_table
from wane_paper.common.parts import entry
from wane_paper.common.settings import Lambdas

PLAIN, TASK = "plain A2C", "λF as a task"
MEASURES = "training", "greedy", "sampled"
QUICK = Config(hidden=32, length=16, environments=4, learning_rate=1e-3, epochs=15, updates=300, evaluation_episodes=4)
"""An agent that learns something in a minute on two cores: a smaller network, a higher rate, several environments."""


@dataclass(frozen=True)
class ActorCritic(Seeded):
    """Settings of a2c."""

    SET_BY_EXPERIMENT: ClassVar[Mapping[str, str]] = {
        "agent.lam": "lambdas",
        "agent.discount": "discount",
        "agent.feature_mixing": "mixing",
        "agent.correction": "nothing (agents with and without it are all trained)",
        "agent.recurrent": "nothing (agents with and without memory are all trained)",
        "agent.arrival": "nothing (agents of both timings are all trained)",
        "agent.shown": "nothing (agents that are told what remains and agents that are not are all trained)",
    }

    seeds: Count = 16
    """independent repetitions, numbered from 0"""
    lambdas: Lambdas = (0.0, 0.5, 1.0)
    """the agents' λ̂"""
    lam: Lambda = 0.5
    """the true λ"""
    discount: Discount = 0.99
    """γ"""
    size: Annotated[int, Range(7, 101)] = 11
    """rows and columns of TwoRooms, walls included"""
    horizon: Annotated[int, Range(1, 10_000)] = 100
    """H: steps of an episode"""
    mixing: Share = 0.9
    """the λ of TD(λ) in the λF targets of agents with multi-step returns; the paper's agents have 0"""
    agent: Config = field(default_factory=Config)
    """all agents; those without a λF have a feature_weight of 0"""

    def rules(self) -> None:
        """Raises SettingError if the size is even, or if φ_λ is infinite, lacks some states or is not learned."""
        super().rules()
        needed = "a discount below 1 is needed, because φ_λ is infinite with λ = 1 and γ = 1"
        self.require(self.discount < 1, "discount", needed)
        self.require(self.size % 2 == 1, "size", "an odd number is needed, so that the wall is in the middle")
        needed = "cells or states is needed, because the λF of all states is compared with the exact one"
        self.require(self.agent.features != "sites", "agent.features", needed)
        needed = "a weight above 0 is needed, because the agents with a λF would not learn it"
        self.require(bool(self.agent.feature_weight > 0), "agent.feature_weight", needed)

    @property
    def world(self) -> World:
        """TwoRooms, whose observation includes what remains. Most agents do not see that part (`shown`)."""
        task = dict(depletion=Geometric(self.lam), discount=self.discount, horizon=self.horizon)
        return two_rooms(self.size, observation="index+remaining", **task)

    @property
    def episodes(self) -> Float[np.ndarray, " epochs"]:
        """The number of episodes that were played by the end of each epoch."""
        return self.agent.steps * np.arange(1, self.agent.epochs + 1) / self.horizon


class Variant(NamedTuple):
    """The settings of `Config` in which agents differ. Most agents are not told what remains."""

    lam: Any
    correction: Any
    feature_weight: Any
    recurrent: Any = True
    shown: Any = False
    feature_mixing: Any = 0.0
    arrival: Any = False


def informed(name: str) -> str:
    """The name of an agent that is told what remains."""
    return f"{name}, told"


def forgetful(name: str) -> str:
    """The name of an agent without memory."""
    return f"{name}, no memory"


def far_sighted(name: str) -> str:
    """The name of an agent whose λF is learned from multi-step returns."""
    return f"{name}, multi-step"


def on_arrival(name: str) -> str:
    """The name of an agent whose φ counts the state that a step enters, which is the state that pays."""
    return f"{name}, on arrival"


def variants(settings: ActorCritic) -> dict[str, Variant]:
    """Returns the variants of all agents by name."""
    agent, true_name = settings.agent, beliefs.label(settings.lam)
    true, plain = Variant(settings.lam, True, agent.feature_weight), Variant(1.0, False, 0.0)
    believing = {beliefs.label(lam): true._replace(lam=lam) for lam in settings.lambdas}
    without = {TASK: true._replace(correction=False), PLAIN: plain}
    changed = {
        change(name): variant._replace(**settings_changed)
        for name, variant in ((true_name, true), (PLAIN, plain))
        for change, settings_changed in ((informed, {"shown": True}), (forgetful, {"recurrent": False}))
    }
    further = {
        far_sighted(name): variant._replace(feature_mixing=settings.mixing)
        for name, variant in ((true_name, true), (forgetful(true_name), changed[forgetful(true_name)]))
    }
    arriving = {on_arrival(name): variant._replace(arrival=True) for name, variant in believing.items()}
    return believing | without | changed | further | arriving


def as_arrays(settings: ActorCritic) -> Variant:
    """Returns the variants of all agents as one `Variant` of arrays."""
    return Variant(*(jnp.asarray(column) for column in zip(*variants(settings).values(), strict=True)))


def config_of(settings: ActorCritic, variant: Variant) -> Config:
    """Returns the settings of an agent. What the variant holds may be traced by JAX."""
    return dataclasses.replace(settings.agent, **variant._asdict())


def fixed(settings: ActorCritic) -> Tables:
    """Returns the table `optimum`, if the optimum can be computed."""
    return optimum_table(settings.world, settings.lam)


def learn(settings: ActorCritic, seeds: Sequence[int], loop: Loop) -> tuple[State, dict[str, Any]]:
    """Trains every agent for every seed, with one epoch in each chunk of the loop.

    Returns the last states (seeds, agents, …), and the measurements of the epochs: arrays (epochs, seeds, agents).
    """
    world, keys, agents = settings.world, seed_keys(seeds), as_arrays(settings)

    def run_epoch(key: jax.Array, variant: Variant, state: State, number: Integer) -> tuple[State, Any]:
        config = config_of(settings, variant)

        def watch(key: jax.Array, state: State) -> Float[Array, ""]:
            return a2c.feature_error(key, state.params, world, config)

        state, info = a2c.train(key, world, config, state, number, epochs=1, watch=watch)
        return state, entry(info, 0)

    def start(key: jax.Array, variant: Variant) -> State:
        return a2c.init(key, world, config_of(settings, variant))

    @jax.jit
    def step(states: State, number: Integer) -> tuple[State, Any]:
        each = jax.vmap(jax.vmap(run_epoch, (None, 0, 0, None)), (0, None, 0, None))
        return each(keys, agents, states, number)

    states = jax.jit(jax.vmap(jax.vmap(start, (None, 0)), (0, None)))(keys, agents)
    work = settings.agent.steps * len(seeds) * len(agents.lam)
    return loop("training", step, states, settings.agent.epochs, work)


def seeded(settings: ActorCritic, seeds: Sequence[int], loop: Loop) -> Tables:
    """Returns learning curves, errors, and an episode of every agent of seed 0. Keeps the agents of seed 0."""
    states, info = learn(settings, seeds, loop)
    agents = variants(settings)
    axes: dict[str, Any] = {"episode": settings.episodes, "seed": seeds, "agent": agents}
    training, greedy, sampled = (
        frame(info[name], measure, **axes) for name, measure in zip(("returns", *MEASURES[1:]), MEASURES, strict=True)
    )
    errors = frame(info["watched"], "error", **axes)
    with_features = [name for name, variant in agents.items() if variant.feature_weight > 0]
    tables = {
        "curves": training.assign(greedy=greedy["greedy"], sampled=sampled["sampled"]),
        "errors": errors[errors["agent"].isin(with_features)],
    }
    if 0 in seeds:
        tables["episodes"] = _show(settings, entry(states.params, list(seeds).index(0)), loop)
    return tables


def _show(settings: ActorCritic, params: Params, loop: Loop) -> pd.DataFrame:
    """Keeps the agents of one seed, given their networks, and returns an episode of each in which actions are drawn."""
    world, tables = settings.world, []

    @jax.jit
    @jax.vmap
    def episode(variant: Variant, params: Params) -> Episode:
        policy = a2c.sampled_policy(params, world, config_of(settings, variant))
        return play(jax.random.key(0), world, policy)[1]

    played = episode(as_arrays(settings), params)
    for i, (name, variant) in enumerate(variants(settings).items()):
        loop.keep(_file_name(name), Trained("a2c", world, config_of(settings, variant), entry(params, i)))
        tables.append(episodes.rows(world, entry(played, i), agent=name, seed=0))
    return pd.concat(tables, ignore_index=True)


def _file_name(name: str) -> str:
    """Returns an agent's name as part of a file name: "λ̂ = 0.5, told" becomes "lam-0.5-told"."""
    plain = name.replace("λ̂ = ", "lam-").replace("λF", "features")
    return plain.lower().replace(", ", "-").replace(" ", "-")
