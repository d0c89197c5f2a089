"""A world as data, and back: dictionaries of text and numbers that JSON can hold.

`from_description(describe(world))` is the same world, down to the last digit, and likewise for depletions. Only the
transitions of an `MDPWorld` are checked again, and may be scaled by rounding. Nothing in a description is executed or
imported: kinds of depletions and names of observations are looked up in the package, and every value is checked. JAX
arrays come back as NumPy arrays with the same values. A depletion of another package has a name if that package offers
it as an entry point of the group "wane.depletions"; it is imported only if its package was imported before or if the
caller trusts the name (`wane.plugins`).

    >>> from wane.worlds import make
    >>> describe(make("corridor", length=3))["map"]
    '#####\\n#1S2#\\n#####'
    >>> describe_depletion(make("toy").depletion)
    {'kind': 'Geometric', 'lam': [0.0, 1.0]}
"""

import dataclasses
import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

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
from wane.worlds.observe import OBSERVATIONS
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
GROUP = "wane.depletions"
"""The group of the entry points by which other packages add depletions."""


def describe(world: Any) -> Description:
    """Returns the settings of a world or of a control task as a dictionary that JSON can hold.

    Raises TypeError for a depletion or an observation of the user's own, and while JAX traces a setting: neither can
    be written down.
    """
    if isinstance(world, ControlTask):
        return control.describe(world)
    if not isinstance(world.observation, str):
        raise TypeError(
            f"the observation {world.observation!r} is a function, which cannot be saved: describe a world with a "
            f"named one, dataclasses.replace(world, observation=…), out of {', '.join(OBSERVATIONS)}, and give yours "
            "to the world that you load"
        )
    if not isinstance(world, World | MDPWorld):
        raise TypeError(
            f"a {type(world).__name__} is a world of your own, which cannot be saved: only a World, an MDPWorld and a "
            "control task can"
        )
    own: Description = {"depletion": describe_depletion(world.depletion)}
    own |= {"map": world.map.text} if isinstance(world, World) else {"mdp": _describe_mdp(world.mdp)}
    given = {field.name: getattr(world, field.name) for field in dataclasses.fields(world)}
    if isinstance(world.sites, tuple):
        own["sites"] = [{"states": sorted(states)} for states in world.sites]
    return {name: own[name] if name in own else _plain(value, name) for name, value in given.items()}


def from_description(description: Any, trust: Sequence[str] = ()) -> World | MDPWorld | ControlTask:
    """Returns the world or the control task of a description. Settings that are not in it have their defaults.

    Raises ValueError for unknown settings and for values that cannot be those of a world, and for a task or a depletion
    of others, unless `trust` holds its name.
    """
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


def _settings(description: Description, trust: Sequence[str]) -> dict[str, Any]:
    """Returns the settings of a world, read and checked one by one."""
    found = {name: _READERS[name](value, name) for name, value in description.items() if name != "depletion"}
    if "depletion" in description:
        found["depletion"] = depletion_from_description(description["depletion"], trust)
    return found


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
    kind = kind_of(type(depletion))
    if kind is None:
        raise TypeError(
            f"{type(depletion).__name__} is a depletion of your own, which cannot be saved: only {', '.join(KINDS)} "
            f"can, and what a package offers as an entry point of the group {GROUP}. Save a world with one of those, "
            "and put yours into the world that you load: dataclasses.replace(world, depletion=…)"
        )
    given = {field.name: getattr(depletion, field.name) for field in dataclasses.fields(depletion)}
    return {"kind": kind} | {name: _plain(value, f"{kind}.{name}") for name, value in given.items()}


def kind_of(kind: type[Depletion]) -> str | None:
    """Returns the name by which depletions of a class are saved, or None if they cannot be saved."""
    return kind.__name__ if KINDS.get(kind.__name__) is kind else name_of(GROUP, kind)


def _kind_called(name: str, trust: Sequence[str]) -> type[Depletion]:
    if name in KINDS:
        return KINDS[name]
    found = find(GROUP, name, trust)
    if found is None:
        raise unknown("kind of depletion", name, [*KINDS, *offered(GROUP)])
    if not (inspect.isclass(found) and issubclass(found, Depletion)):
        raise ValueError(f"the entry point {name!r} of {GROUP} is {found!r}: it must be a class of depletions")
    return found


def depletion_from_description(description: Any, trust: Sequence[str] = ()) -> Depletion:
    """Returns the depletion of a description. Raises ValueError for an unknown kind and for wrong values.

    A kind of another package is refused, unless that package was imported before or `trust` holds its name.
    """
    if not isinstance(description, dict) or not isinstance(description.get("kind"), str):
        kinds = ", ".join(KINDS)
        raise ValueError(f'a depletion is a dictionary with its "kind" ({kinds}), got {shown(description)}')
    kind = _kind_called(description["kind"], trust)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values = {name: value for name, value in description.items() if name != "kind"}
    if "equation" in fields and "form" in values:  # Files of 0.2.0 have the old name.
        values["equation"] = values.pop("form")
    _check_keys(values, f"a {kind.__name__}", dataclasses.fields(kind))
    parameters = {}
    for name, value in values.items():
        read = _text if "static" in fields[name].metadata else _array if "per_site" in fields[name].metadata else _list
        parameters[name] = read(value, f"{kind.__name__}.{name}")
    return kind(**parameters)


def summary(world: World) -> str:
    """Returns a few lines about a world: its size, its sites, and the settings that are not the defaults."""
    rows, columns = world.map.shape
    shown = {"sites": _sites_text(world), "depletion": repr(world.depletion)}
    if not np.allclose(world.start, 1 / world.n_states):
        starts = world.map.cells[world.start > 0]
        shown["start"] = f"({starts[0][0]}, {starts[0][1]})" if len(starts) == 1 else f"one of {len(starts)} cells"
    for field in dataclasses.fields(world):
        value = getattr(world, field.name)
        if field.name in ("map", "sites", "rewards", "depletion", "start", "policies"):
            continue
        if is_traced(value) or value != field.default:
            shown[field.name] = f"{value:g}" if isinstance(value, float) else f"{value}"
    if world.policies:
        shown["policies"] = f"{len(world.policies)}"
    size = f"World of {rows} × {columns} cells, {world.n_states} of them free"
    return "\n".join([size, *(f"  {name:<12} {text}" for name, text in shown.items())])


def _sites_text(world: World, most: int = 8) -> str:
    """Says where the sites are and what they pay; of many sites, only the first ones."""
    pays = [""] * world.n_sites if is_traced(world.rewards) else [f" pays {r:g}" for r in np.asarray(world.rewards)]
    cells = world.map.cells[world.sites]
    texts = [f"({row}, {column}){pay}" for (row, column), pay in zip(cells, pays, strict=True)]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more or "none"


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
    "observation": _text,
    "horizon": lambda value, name: None if value is None else _whole(value, name),
    "threshold": _optional,
    "policies": _arrays,
}
"""How each setting of a world is read, except its depletion."""
