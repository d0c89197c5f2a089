"""A trained agent: what it learned, with the world and the settings it learned in. It can be saved and loaded.

A saved agent is a folder with two files. `config.json` holds the agent's name, the version, the world and the settings;
`params.safetensors` holds what was learned, each leaf under its name. Loading reads only numbers and text. It executes
nothing from the files, and by a name in them it imports only a module of this package. An agent of another package, and
a control task that Gymnasium would import, are refused unless the caller has imported that package or trusts the name.

    >>> from wane.agents import q_lambda
    >>> from wane.worlds import make
    >>> world, config = make("toy"), q_lambda.Config(episodes=20)
    >>> state, _ = q_lambda.train(jax.random.key(0), world, config)
    >>> folder = Trained("q_lambda", world, config, state).save(getfixture("tmp_path") / "agent")
    >>> _, episode = load(folder).play(jax.random.key(1))
    >>> episode.cells.shape
    (11,)
"""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from wane.agents.common.contract import Agent, find
from wane.agents.common.driving import Played, drive
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import Episode, observed, play
from wane.files import (
    Arrays,
    DamagedFile,
    as_json,
    checksum,
    fill_tree,
    load_arrays,
    name_leaves,
    read_json,
    save_arrays,
    write_json,
)
from wane.settings import with_present_names
from wane.types import Flag, Tree
from wane.worlds import describe
from wane.worlds.control import ControlTask
from wane.worlds.observe import Seen, shows_pictures
from wane.worlds.process import Tabular

FORMAT = 1
CONFIG, PARAMS = "config.json", "params.safetensors"


@dataclass(frozen=True)
class Trained:
    """An agent that has learned. Raises TypeError for params that are not those of the agent."""

    agent: str | Agent
    """The name of the agent, as "q_lambda", or the agent itself."""
    world: Tabular | ControlTask
    config: Any
    params: Tree
    """The first argument of the agent's `policy`: what the policy acts with. The state that `train` returns may be
    given too, of which the `params` are kept."""

    def __post_init__(self) -> None:
        agent, kind = self.algorithm, self.algorithm.Params
        params = agent.params_of(self.params) if isinstance(self.params, agent.State) else self.params
        if not isinstance(params, kind):
            raise TypeError(
                f"{self.name} learns a {kind.__module__}.{kind.__name__}, got a {type(params).__name__}: pass the "
                f"state of {self.name}.train, which returns a pair, state, info = train(…), or the params of the state"
            )
        object.__setattr__(self, "params", params)

    @cached_property
    def algorithm(self) -> Agent:
        """The agent as a value, with its functions."""
        # Whoever writes the name of an agent into a program trusts it; names in files are looked up by `load`.
        return find(self.agent, trust=[self.agent]) if isinstance(self.agent, str) else self.agent

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.algorithm.name

    @property
    def module(self) -> Agent:
        """The old name of `algorithm`, which has the same functions as the module had."""
        warnings.warn("Trained.module is now Trained.algorithm", DeprecationWarning, stacklevel=2)
        return self.algorithm

    def policy(self, world: Tabular | ControlTask | None = None) -> Policy:
        """Returns the policy, for the world that the agent was trained in or for another one.

        Raises ValueError if the other world has other numbers of states or actions, or of sites if the agent learns
        something for each, or observations of another shape. An agent that sees pictures may act among other states.
        """
        own = self.algorithm.policy(self.params, self.world, self.config)
        if world is None or world is self.world:
            return own
        pictures = shows_pictures(own.observation)
        self._require_same(self._counts(self.world, pictures), self._counts(world, pictures))
        policy = self.algorithm.policy(self.params, world, self.config)
        self._require_same(_observation(self.world, own), _observation(world, policy))
        return policy

    def _counts(self, world: Tabular | ControlTask, pictures: bool) -> str:
        """Returns the sizes on which what was learned depends, in words."""
        if isinstance(world, ControlTask):
            return f"a task with observations of {world.n_observations} numbers and actions of {world.n_actions}"
        states = "" if pictures else f"{world.n_states} states, "
        sites = f", {world.n_sites} sites" if self.algorithm.by_site else ""
        return f"a world with {states}{world.n_actions} actions{sites}"

    def _require_same(self, own: str, given: str) -> None:
        if own != given:
            raise ValueError(
                f"this {self.name} agent was trained in {own}, and cannot act in {given}: choose a world of the same "
                "sizes, or train an agent in that world"
            )

    def play(
        self, key: jax.Array, world: Tabular | ControlTask | None = None, **options: Any
    ) -> tuple[Any, Episode | Played]:
        """Plays one episode, in the world that the agent was trained in or in another one, with options of `play`."""
        world = self.world if world is None else world
        if isinstance(world, ControlTask):
            played = drive(key, world, self.policy(world), 1, self.config.discount)
            return self.params, Played(*(values[0] for values in played))
        return play(key, world, self.policy(world), **options)

    def save(self, folder: Path | str) -> Path:
        """Writes the agent to a folder, which is created if it does not exist. Returns the folder.

        Raises ValueError if what was learned does not fit the world and the settings, as of many agents in one batch.
        """
        folder, learned = Path(folder), name_leaves(self.params)
        if "init" in self.algorithm.traceable:
            _check_shapes(self.name, learned, name_leaves(_params_like(self.algorithm, self.world, self.config)))
        about = {
            "format": FORMAT,
            "agent": self.name,
            "version": _version(),
            "world": describe.describe(self.world),
            "config": as_json(self.config, describe.describe_depletion),
        }
        arrays = save_arrays(folder / PARAMS, learned)
        write_json(folder / CONFIG, about | {"files": {PARAMS: checksum(arrays)}}, sealed=True)
        return folder


def load(folder: Path | str, *, trust: Sequence[str] = (), agent: Agent | None = None) -> Trained:
    """Reads a saved agent. Raises DamagedFile if a file is missing, was changed, or is of another version.

    Code of others is refused, unless its package was imported before or `trust` holds its name: ["mine"] imports the
    package that offers the agent "mine", ["module:Swim-v0"] imports `module` for an agent that was trained in the
    control task Swim-v0, and ["Swim-v0"] takes the task that you have registered yourself. An agent that no installed
    package offers is given as a value, `agent`.
    """
    folder = Path(folder)
    about = _read_config(folder / CONFIG)
    arrays, _ = load_arrays(folder / PARAMS)
    if checksum(folder / PARAMS) != about["files"].get(PARAMS):
        raise DamagedFile(f"{folder / PARAMS} was changed after it was saved: its checksum does not match")
    try:
        found = find(about["agent"], trust) if agent is None else _require_name(agent, about["agent"])
        world = describe.from_description(about["world"], trust)
        config = _config(found.Config, about["config"], trust)
        like = _params_like(found, world, config)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError, MemoryError) as error:
        raise DamagedFile(f"{folder / CONFIG} does not describe an agent that can be loaded: {error}") from error
    params = fill_tree(like, _in_precision_of(like, arrays), folder / PARAMS)
    return Trained(about["agent"] if agent is None else agent, world, config, params)


def _require_name(agent: Agent, name: str) -> Agent:
    if agent.name != name:
        raise ValueError(f"it is an agent {name!r}, and you pass agent={agent!r}: pass the agent of that name")
    return agent


def _in_precision_of(like: Tree, arrays: Arrays) -> Arrays:
    """Returns the arrays with floats in the precision of `like`: an agent may have been trained in 64 or in 32 bits."""
    wanted = name_leaves(like)
    floats = {name for name in arrays if name in wanted and arrays[name].dtype.kind == wanted[name].dtype.kind == "f"}
    return {name: array.astype(wanted[name].dtype) if name in floats else array for name, array in arrays.items()}


def _read_config(path: Path) -> dict[str, Any]:
    about = read_json(path)
    wanted = {"format": int, "agent": str, "world": dict, "config": dict, "files": dict}
    for key, kind in wanted.items():
        if not isinstance(about, dict) or not isinstance(about.get(key), kind):
            raise DamagedFile(f"{path} has no usable {key!r}: it is not the file of a saved agent")
    if about["format"] != FORMAT:
        raise DamagedFile(
            f"{path} has format {about['format']} (wane {about.get('version')}), and this version of wane reads format "
            f"{FORMAT}: load it with the version that wrote it, or train again"
        )
    return about


def _params_like(agent: Agent, world: Tabular | ControlTask, config: Any) -> Tree:
    """Returns params of the same structure as those of a saved agent. Only their shapes and types have a meaning."""

    def init(key: jax.Array) -> Tree:
        return agent.params_of(agent.init(key, world, config))

    if "init" not in agent.traceable:
        return init(jax.random.key(0))
    # Tracing draws no networks, and makes no replay, whose size a file may say.
    shapes = jax.eval_shape(init, jax.random.key(0))
    return jax.tree_util.tree_map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def _check_shapes(agent: str, learned: Arrays, wanted: Arrays) -> None:
    """Raises ValueError if what was learned does not have the names and shapes of an agent's params."""
    for name in {**wanted, **learned}:
        got, belongs = (list(each[name].shape) if name in each else "nothing" for each in (learned, wanted))
        if got != belongs:
            raise ValueError(
                f"what this {agent} agent learned does not fit its world and Config: {name!r} has shape {got} where "
                f"{belongs} belongs. Save one agent at a time, with the world and the Config that it was trained with"
            )


def _observation(world: Tabular | ControlTask, policy: Policy) -> str:
    """Returns the shapes of what a policy sees in a world, in words. Those of a task, and sites, were counted."""
    if isinstance(world, ControlTask):
        return "a task"
    seen = jax.eval_shape(lambda key: observed(world, policy).reset(key)[0], jax.random.key(0))
    view = seen.view if isinstance(seen, Seen) else seen
    shapes = " and ".join(f"{list(leaf.shape)}" for leaf in jax.tree_util.tree_leaves(view))
    return f"a world with observations of shape {shapes}"


def _version() -> str:
    from wane import __version__

    return __version__


def _config(kind: type, content: Mapping[str, Any], trust: Sequence[str]) -> Any:
    """Returns a Config from its JSON. Raises ValueError for settings that the Config does not have."""
    hints, fields = get_type_hints(kind), {field.name for field in dataclasses.fields(kind)}
    content = with_present_names(kind, content)
    for name in content:
        if name not in fields:
            raise ValueError(f"{kind.__name__} has no setting {name!r}")
    return kind(**{name: _setting(hints[name], value, trust) for name, value in content.items()})


def _setting(hint: Any, value: Any, trust: Sequence[str]) -> Any:
    if isinstance(value, dict) and "kind" in value:
        return describe.depletion_from_description(value, trust)
    if isinstance(value, dict) and dataclasses.is_dataclass(hint):
        return _config(hint, value, trust)  # pyright: ignore[reportArgumentType]
    if isinstance(value, list) and get_origin(hint) is tuple:
        return tuple(value)
    if hint == Flag:
        return bool(value)  # 0.2.0 wrote 0 and 1.
    return np.asarray(value) if isinstance(value, list) else value
