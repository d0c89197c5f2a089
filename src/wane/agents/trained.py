"""A trained agent: what it learned, with the world and the settings it learned in. It can be saved and loaded.

A saved agent is a folder with two files. `config.json` holds the agent's name, the version, the world and the settings;
`params.safetensors` holds what was learned, each leaf under its name. Loading reads only numbers and text. It executes
nothing from the files, and the only module that it imports by a name in them is one of `AGENTS`.

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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin, get_type_hints

import jax
import numpy as np

from wane.agents.common.driving import Played, drive
from wane.agents.common.policy import Policy
from wane.agents.common.rollout import Episode, play
from wane.depletion import Depletion
from wane.files import (
    Arrays,
    DamagedFile,
    checksum,
    fill_tree,
    load_arrays,
    name_leaves,
    read_json,
    save_arrays,
    write_json,
)
from wane.names import unknown
from wane.types import Tree
from wane.worlds import describe
from wane.worlds.control import Task
from wane.worlds.world import World

AGENTS = (
    "q_lambda",
    "q_learning",
    "td",
    "forward_backward",
    "laplacian",
    "lambda_features",
    "lambda_operator",
    "learned_operator",
    "a2c",
    "sac",
    "gpi",
    "planner",
    "policy_iteration",
)
"""The agents that can be saved: modules of `wane.agents`."""
FORMAT = 1
CONFIG, PARAMS = "config.json", "params.safetensors"


@dataclass(frozen=True)
class Trained:
    """An agent that has learned."""

    agent: str
    """The name of its module in `wane.agents`."""
    world: World | Task
    config: Any
    params: Tree
    """The first argument of the module's `policy`: what the policy acts with."""

    @property
    def module(self) -> ModuleType:
        """The module of the algorithm."""
        return agent_module(self.agent)

    def policy(self, world: World | Task | None = None) -> Policy:
        """Returns the policy, for the world that the agent was trained in or for another one."""
        return self.module.policy(self.params, self.world if world is None else world, self.config)

    def play(self, key: jax.Array, world: World | Task | None = None, **options: Any) -> tuple[Any, Episode | Played]:
        """Plays one episode, in the world that the agent was trained in or in another one, with options of `play`."""
        world = self.world if world is None else world
        if isinstance(world, Task):
            played = drive(key, world, self.policy(world), 1, self.config.discount)
            return self.params, Played(*(values[0] for values in played))
        return play(key, world, self.policy(world), **options)

    def save(self, folder: Path | str) -> Path:
        """Writes the agent to a folder, which is created if it does not exist. Returns the folder."""
        folder = Path(folder)
        about = {
            "format": FORMAT,
            "agent": self.agent,
            "version": _version(),
            "world": describe.describe(self.world),
            "config": _plain(self.config),
        }
        agent_module(self.agent)
        arrays = save_arrays(folder / PARAMS, name_leaves(self.params))
        write_json(folder / CONFIG, about | {"files": {PARAMS: checksum(arrays)}}, sealed=True)
        return folder


def load(folder: Path | str) -> Trained:
    """Reads a saved agent. Raises DamagedFile if a file is missing, was changed, or is of another version."""
    folder = Path(folder)
    about = _read_config(folder / CONFIG)
    arrays, _ = load_arrays(folder / PARAMS)
    if checksum(folder / PARAMS) != about["files"].get(PARAMS):
        raise DamagedFile(f"{folder / PARAMS} was changed after it was saved: its checksum does not match")
    try:
        world = describe.from_description(about["world"])
        module = agent_module(about["agent"])
        config = _config(module.Config, about["config"])
        like = _params_like(module, world, config)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError, MemoryError) as error:
        raise DamagedFile(f"{folder / CONFIG} does not describe an agent: {error}") from error
    return Trained(about["agent"], world, config, fill_tree(like, _in_precision_of(like, arrays), folder / PARAMS))


def _in_precision_of(like: Tree, arrays: Arrays) -> Arrays:
    """Returns the arrays with floats in the precision of `like`: an agent may have been trained in 64 or in 32 bits."""
    wanted = name_leaves(like)
    floats = {name for name in arrays if name in wanted and arrays[name].dtype.kind == wanted[name].dtype.kind == "f"}
    return {name: array.astype(wanted[name].dtype) if name in floats else array for name, array in arrays.items()}


def agent_module(name: str) -> ModuleType:
    """Returns the module of an agent by its name. Raises ValueError if there is no agent of that name."""
    if name not in AGENTS:
        raise unknown("agent", name, AGENTS)
    return import_module(f"wane.agents.{name}")


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


def _params_like(module: ModuleType, world: World | Task, config: Any) -> Tree:
    """Returns params of the same structure as those of a saved agent."""
    state = module.init(jax.random.key(0), world, config)
    return state.params if hasattr(state, "params") else state


def _version() -> str:
    from wane import __version__

    return __version__


def _plain(value: Any) -> Any:
    """Returns a setting as JSON: nested dataclasses become objects, depletions their descriptions, arrays lists."""
    if isinstance(value, Depletion):
        return describe.describe_depletion(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray | jax.Array | np.generic):
        return np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _config(kind: type, content: Mapping[str, Any]) -> Any:
    """Returns a Config from its JSON. Raises ValueError for settings that the Config does not have."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name in content:
        if name not in fields:
            raise ValueError(f"{kind.__name__} has no setting {name!r}")
    hints = get_type_hints(kind)
    return kind(**{name: _setting(hints[name], value) for name, value in content.items()})


def _setting(hint: Any, value: Any) -> Any:
    if isinstance(value, dict) and "kind" in value:
        return describe.depletion_from_description(value)
    if isinstance(value, dict) and dataclasses.is_dataclass(hint):
        return _config(hint, value)  # pyright: ignore[reportArgumentType]
    if isinstance(value, list) and get_origin(hint) is tuple:
        return tuple(value)
    return np.asarray(value) if isinstance(value, list) else value
