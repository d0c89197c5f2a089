"""A world as data, and back: dictionaries of text and numbers that JSON can hold.

`from_description(describe(world))` is the same world, down to the last digit, and likewise for depletions. Only the
transitions of an `MDPWorld` are checked again, and may be scaled by rounding. Nothing in a description is executed or
imported: kinds of depletions and of observations are looked up in the package, and every value is checked. JAX arrays
come back as NumPy arrays with the same values. A depletion, an observation or a world of another package has a name if
that package offers its class as an entry point of the group "wane.depletions", "wane.observations" or "wane.worlds"; it
is imported only if its package was imported before or if the caller trusts the name (`wane.plugins`).

    >>> from wane.worlds import make
    >>> describe(make("corridor", length=3))["map"]
    '#####\\n#1S2#\\n#####'
    >>> describe_depletion(make("toy").depletion)
    {'kind': 'Geometric', 'lam': [0.0, 1.0]}
"""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from scipy import sparse

from wane import depletion as depletions
from wane import regrowth
from wane.checks import is_traced
from wane.depletion import Depletion
from wane.files import DEEPEST, as_json, is_deep, read_json
from wane.mdp import MDP
from wane.names import unknown
from wane.plugins import find, name_of, offered
from wane.texts import shown
from wane.worlds.control import task as control
from wane.worlds.control.task import ControlTask
from wane.worlds.mdp_world import MDPWorld
from wane.worlds.observe import OBSERVATIONS, Function, Observation, name_of_observation, read_observation
from wane.worlds.world import World

Description = dict[str, Any]
"""A dictionary whose values are None, text, numbers, lists of these, and dictionaries of the same kind."""

KINDS: dict[str, type[Depletion]] = {
    name: kind
    for module in (depletions, regrowth)
    for name, kind in vars(module).items()
    if inspect.isclass(kind) and issubclass(kind, Depletion) and not inspect.isabstract(kind)
}
"""The depletions of the package by their names."""


class Kinds(NamedTuple):
    """The classes whose objects can be saved: those of the package, and those that other packages offer."""

    what: str
    """An object of this sort in words: "a depletion"."""
    group: str
    """The group of the entry points by which other packages add classes."""
    own: Mapping[str, type[Any]]
    """The classes of the package by their names."""
    fits: Callable[[type[Any]], bool]
    """Whether a class is of this sort."""

    @property
    def noun(self) -> str:
        """The setting of a world that is such an object."""
        return self.what.split()[-1]

    def name_of(self, kind: type[Any]) -> str | None:
        """Returns the name by which objects of a class are saved, or None if they cannot be saved."""
        return next((name for name, own in self.own.items() if own is kind), None) or name_of(self.group, kind)

    def describe(self, value: Any) -> Description:
        """Returns an object as its kind and its parameters. Raises TypeError if its class cannot be saved."""
        kind = self.name_of(type(value))
        if kind is None:
            raise TypeError(
                f"{type(value).__name__} is {self.what} of your own, which cannot be saved: only "
                f"{', '.join(self.own)} can, and what a package offers as an entry point of the group {self.group}. "
                "Save a world with one of those, and put yours into the world that you load: "
                f"dataclasses.replace(world, {self.noun}=…)"
            )
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"kind": kind} | {name: _described(each, f"{kind}.{name}") for name, each in given.items()}

    def read(self, description: Any, trust: Sequence[str], reader: Callable[..., Callable[..., Any]]) -> Any:
        """Returns the object of a description; `reader(field)` reads the value of a field.

        Raises ValueError for an unknown kind and for wrong values, and for the kind of another package, unless that
        package was imported before or `trust` holds its name.
        """
        if not isinstance(description, dict) or not isinstance(description.get("kind"), str):
            kinds = ", ".join(self.own)
            raise ValueError(f'{self.what} is a dictionary with its "kind" ({kinds}), got {shown(description)}')
        kind = self._called(description["kind"], trust)
        values = {name: value for name, value in description.items() if name != "kind"}
        fields = {field.name: field for field in dataclasses.fields(kind)}
        if "equation" in fields and "form" in values:  # Files of 0.2.0 have the old name.
            values["equation"] = values.pop("form")
        _check_keys(values, f"a {kind.__name__}", dataclasses.fields(kind))
        return kind(**{name: reader(fields[name])(each, f"{kind.__name__}.{name}") for name, each in values.items()})

    def _called(self, name: str, trust: Sequence[str]) -> type[Any]:
        if name in self.own:
            return self.own[name]
        found = find(self.group, name, trust)
        if found is None:
            raise unknown(f"kind of {self.noun}", name, [*self.own, *offered(self.group)])
        if not (inspect.isclass(found) and self.fits(found)):
            raise ValueError(
                f"the entry point {name!r} of {self.group} is {found!r}: it must be a class of {self.noun}s"
            )
        return found


_DEPLETIONS = Kinds("a depletion", "wane.depletions", KINDS, lambda kind: issubclass(kind, Depletion))
_OBSERVATIONS = Kinds(
    "an observation",
    "wane.observations",
    OBSERVATIONS,
    lambda kind: dataclasses.is_dataclass(kind) and hasattr(kind, "see"),
)

_WORLDS = Kinds(
    "a world",
    "wane.worlds",
    {},
    lambda kind: dataclasses.is_dataclass(kind) and hasattr(kind, "reset") and hasattr(kind, "step"),
)


def describe(world: Any) -> Description:
    """Returns the settings of a world or of a control task as a dictionary that JSON can hold.

    Raises TypeError for a world, a depletion or an observation of the user's own that no package offers, and while JAX
    traces a setting: none of these can be written down.
    """
    if isinstance(world, ControlTask):
        return control.describe(world)
    if not isinstance(world, World | MDPWorld):
        if _WORLDS.name_of(type(world)) is None:
            raise TypeError(
                f"a {type(world).__name__} is a world of your own, which cannot be saved: only a World, an MDPWorld, a "
                f"control task, and what a package offers as an entry point of the group {_WORLDS.group} can"
            )
        return _WORLDS.describe(world)
    own: Description = {
        "depletion": describe_depletion(world.depletion),
        "observation": describe_observation(world.observation),
    }
    own |= {"map": world.map.text} if isinstance(world, World) else {"mdp": _describe_mdp(world.mdp)}
    given = {field.name: getattr(world, field.name) for field in dataclasses.fields(world)}
    if isinstance(world.sites, tuple):
        own["sites"] = [{"states": sorted(states)} for states in world.sites]
    return {name: own[name] if name in own else _plain(value, name) for name, value in given.items()}


def from_description(description: Any, trust: Sequence[str] = ()) -> Any:
    """Returns the world or the control task of a description. Settings that are not in it have their defaults.

    Raises ValueError for unknown settings and for values that cannot be those of a world, and for a world, a task or a
    depletion of others, unless `trust` holds its name.
    """
    if isinstance(description, dict) and "kind" in description:
        return _WORLDS.read(description, trust, lambda field: partial(_read_setting, field.name, trust))
    if isinstance(description, dict) and "task" in description:
        return control.from_description(description, trust)
    if isinstance(description, dict) and "mdp" in description:
        _check_keys(description, "a world on an MDP", dataclasses.fields(MDPWorld))
        return MDPWorld(**_settings(description, trust))
    return world_from_description(description, trust)


def world_from_description(description: Any, trust: Sequence[str] = ()) -> World:
    """Returns the world of a description, and raises ValueError as `from_description` does."""
    _check_keys(description, "a world", dataclasses.fields(World))
    settings = _settings(description, trust)
    return World(settings.pop("map"), **settings)


def _read_setting(field: str, trust: Sequence[str], value: Any, name: str) -> Any:
    """Reads a setting of a world of another package: a depletion, an observation, numbers, text or nothing."""
    if field == "depletion":
        return depletion_from_description(value, trust)
    if field == "observation":
        return observation_from_description(value, trust)
    return value if value is None or isinstance(value, str | bool) else () if value == [] else _array(value, name)


def _settings(description: Description, trust: Sequence[str]) -> dict[str, Any]:
    """Returns the settings of a world, read and checked one by one."""
    trusting = {"depletion": depletion_from_description, "observation": observation_from_description}
    return {
        name: trusting[name](value, trust) if name in trusting else _READERS[name](value, name)
        for name, value in description.items()
    }


def _describe_mdp(mdp: MDP) -> Description:
    """Returns the transitions as numbers: for each action the rows, the columns and the probabilities."""
    entries = [sparse.coo_array(sparse.csr_array(mdp.action(a)).sorted_indices()) for a in range(mdp.n_actions)]
    return {"states": mdp.n_states, "actions": [_plain([*each.coords, each.data], "mdp") for each in entries]}


def _read_sites(value: Any, name: str) -> list[Any]:
    """Reads sites: places, or dictionaries with the "states" of a site that has several."""

    def read(site: Any) -> Any:
        if not isinstance(site, dict):
            return _array(site, name)
        states = site.get("states") if set(site) == {"states"} else None
        if not isinstance(states, list) or not all(isinstance(s, int) and not isinstance(s, bool) for s in states):
            raise ValueError(f'a site of several states is {{"states": [numbers of states]}}, got {site!r}')
        return frozenset(states)

    return [read(site) for site in _list_of(value, name)]


def _read_mdp(value: Any, name: str) -> MDP:
    if not isinstance(value, dict) or set(value) != {"states", "actions"}:
        raise ValueError('mdp is a dictionary with the number of "states" and the transitions of its "actions"')
    n = _number(value["states"], "states")
    actions = [_arrays(each, "actions") for each in _list_of(value["actions"], "actions")]
    kernels = []
    for number, each in enumerate(actions):
        if len(each) != 3 or any(np.ndim(part) != 1 or len(part) != len(each[0]) for part in each):
            raise ValueError(f"action {number} of mdp is three lists of one length: rows, columns and probabilities")
        rows, columns = (np.asarray(part) for part in each[:2])
        within = rows.dtype.kind in "iu" and columns.dtype.kind in "iu" and len(rows)
        if len(rows) and not (within and min(rows.min(), columns.min()) >= 0 and max(rows.max(), columns.max()) < n):
            raise ValueError(f"action {number} of mdp has a row or a column that is no state from 0 to {n - 1}")
        places = rows.astype(int), columns.astype(int)
        kernels.append(sparse.csr_array((np.asarray(each[2], float), places), shape=(n, n)))
    return MDP(kernels)


def from_text(source: str | Path, trust: Sequence[str] = ()) -> World:
    """Returns the world of a description in JSON: text, or the file of a `Path`.

    Raises ValueError as `world_from_description` does and for text that is not JSON, and DamagedFile for a file that
    is not JSON.
    """
    if isinstance(source, Path):
        return world_from_description(read_json(source), trust)
    try:
        description = json.loads(source)
    except (ValueError, RecursionError) as error:
        cure = "" if source.lstrip().startswith("{") else ": to read a file, pass its pathlib.Path"
        raise ValueError(f"the description of a world is not JSON ({error}){cure}") from error
    if is_deep(description):
        raise ValueError(f"the description of a world nests lists or dictionaries more than {DEEPEST} deep")
    return world_from_description(description, trust)


def describe_depletion(depletion: Depletion) -> Description:
    """Returns a depletion as a dictionary: its kind and its parameters. Arrays are lists.

    Raises TypeError for a depletion that comes neither with this package nor as an entry point of another one.
    """
    return _DEPLETIONS.describe(depletion)


def kind_of(kind: type[Any]) -> str | None:
    """Returns the name by which depletions or observations of a class are saved, or None if they cannot be saved."""
    return (_DEPLETIONS if issubclass(kind, Depletion) else _OBSERVATIONS).name_of(kind)


def depletion_from_description(description: Any, trust: Sequence[str] = ()) -> Depletion:
    """Returns the depletion of a description. Raises ValueError for an unknown kind and for wrong values.

    A kind of another package is refused, unless that package was imported before or `trust` holds its name.
    """

    def reader(field: dataclasses.Field[Any]) -> Callable[..., Any]:
        return _text if "static" in field.metadata else _array if "per_site" in field.metadata else _list

    return _DEPLETIONS.read(description, trust, reader)


def describe_observation(observation: Any) -> str | Description:
    """Returns the name of an observation or, if no name says all of it, a dictionary with its kind and its settings.

    Raises TypeError for a function, and for an observation that no package offers as an entry point.
    """
    if isinstance(observation, Function):
        raise TypeError(
            f"the observation {observation.function!r} is a function, which cannot be saved: describe a world with a "
            f"named one, dataclasses.replace(world, observation=…), out of {', '.join(OBSERVATIONS)}, and give yours "
            "to the world that you load"
        )
    return name_of_observation(observation) or _OBSERVATIONS.describe(observation)


def observation_from_description(description: Any, trust: Sequence[str] = ()) -> Any:
    """Returns the observation of a name or of a dictionary. Raises ValueError as `depletion_from_description` does."""
    if isinstance(description, dict):
        return _OBSERVATIONS.read(description, trust, lambda field: _simple)
    return read_observation(_text(description, "observation"))


def _described(value: Any, name: str) -> Any:
    """Returns a setting of an object: depletions and observations as their descriptions, others as JSON holds them."""
    if isinstance(value, Depletion):
        return describe_depletion(value)
    # An array of JAX has a `flat`, which raises an error, so it must not be asked whether it is an observation.
    is_observation = dataclasses.is_dataclass(value) and isinstance(value, Observation)
    return describe_observation(value) if is_observation else _plain(value, name)


def _plain(value: Any, name: str) -> Any:
    """Returns a value as JSON holds it: arrays as lists, numbers of NumPy and JAX as Python numbers."""
    if is_traced(*jax.tree_util.tree_leaves(value)):
        raise TypeError(f"{name} is not known while JAX traces: describe a world outside of jit, vmap and grad")

    def refuse(value: Any) -> NoReturn:
        raise TypeError(f"{name} = {value!r} cannot be saved: it is neither text, nor a number, nor an array of them")

    return as_json(value, refuse)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_keys(description: Any, what: str, fields: tuple[dataclasses.Field[Any], ...]) -> None:
    """Raises ValueError unless all names of a dictionary are fields, and all fields without a default are there."""
    if not isinstance(description, dict):
        raise ValueError(f"{what} is described by a dictionary, got {shown(description)}")
    names = [field.name for field in fields]
    if strange := [name for name in description if name not in names]:
        raise ValueError(f"{what} has no {shown(strange[0])}: it has {', '.join(names)}")
    for field in fields:
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in description:
            raise ValueError(f"the description of {what} lacks {field.name!r}: it needs one")


def _number(value: Any, name: str) -> int | float:
    if not _is_number(value):
        raise ValueError(f"{name} is a number, got {shown(value)}")
    return value


def _whole(value: Any, name: str) -> int:
    """Reads a whole number, which other programs may write as 5.0."""
    number = _number(value, name)
    if isinstance(number, float) and not number.is_integer():
        raise ValueError(f"{name} is a whole number, got {value!r}")
    return int(number)


def _optional(value: Any, name: str) -> int | float | None:
    return None if value is None else _number(value, name)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is text, got {shown(value)}")
    return value


def _simple(value: Any, name: str) -> Any:
    """Reads text, true or false, or what `_list` reads."""
    return value if isinstance(value, str | bool) else _list(value, name)


def _list(value: Any, name: str) -> Any:
    """Returns a number, or a nested list of numbers. Raises ValueError for anything else."""
    return [_list(entry, name) for entry in value] if isinstance(value, list) else _number(value, name)


def _array(value: Any, name: str) -> Any:
    """Reads a number or an array. An array holds integers if all its entries are integers, else floats."""
    value = _list(value, name)
    if not isinstance(value, list):
        return value
    try:
        array = np.array(value)
    except ValueError as error:
        raise ValueError(f"the rows of {name} have different lengths: {shown(value)}") from error
    if array.dtype.kind not in "if":
        raise ValueError(f"{name} holds an integer that is too large for 64 bits: {shown(value)}")
    return array


def _list_of(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is a list, got {shown(value)}")
    return value


def _arrays(value: Any, name: str) -> list[Any]:
    return [_array(entry, name) for entry in _list_of(value, name)]


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "map": _text,
    "mdp": _read_mdp,
    "sites": lambda value, name: value if isinstance(value, str) else _read_sites(value, name),
    "rewards": _arrays,
    "discount": _number,
    "timing": _text,
    "wall_penalty": _number,
    "start": lambda value, name: value if isinstance(value, str) else _array(value, name),
    "n_actions": _whole,
    "slip": _number,
    "horizon": lambda value, name: None if value is None else _whole(value, name),
    "threshold": _optional,
    "policies": _arrays,
}
"""How each setting of a world is read, except its depletion and its observation."""
