"""Whether an observation keeps the contract of `wane.worlds.observe`.

    >>> from wane.testing import check_observation
    >>> from wane.worlds import FirstPerson
    >>> check_observation(FirstPerson(16, remaining=True))

It is looked at in every state of a small world, in every direction and with different rewards left: in JAX, and in
NumPy if it has a twin there.
"""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from wane.worlds.describe import describe_observation, kind_of, observation_from_description
from wane.worlds.grid import Map
from wane.worlds.observe import Observation, Seen
from wane.worlds.world import World

MAP = Map("a.b#\n#.a.\n....")


def check_observation(observation: Any, world: Any = None) -> None:
    """Raises AssertionError, with the rule that was broken and the cure, unless an observation keeps the contract.

    It is checked in `world`, a `World` or an `MDPWorld`, or in a small world with a map if none is given.
    """
    _check_value(observation)
    world = World(MAP, sites="ab", rewards=[1.0, 2.0]) if world is None else world
    plain = dataclasses.replace(world, observation=dataclasses.replace(observation, remaining=False, flat=False))
    cells, facings = (part.ravel().astype(np.int32) for part in np.indices((world.n_states, 4)))
    worths = np.random.default_rng(0).random((len(cells), world.n_sites))
    seen = jax.jit(jax.vmap(plain.view))(cells, facings, jnp.asarray(worths))
    _check_places(plain, cells, facings, worths, seen)
    _check_twin(plain, cells, facings, worths, seen)
    _check_hints(plain, cells, facings, worths, seen)
    _check_settings(dataclasses.replace(world, observation=observation), seen)
    if kind_of(type(observation)) is not None:
        again = observation_from_description(describe_observation(observation))
        _require(again == observation, observation, f"saved and read again it is {again!r}")


def _require(fine: Any, observation: Any, message: str) -> None:
    if not bool(fine):
        raise AssertionError(f"{type(observation).__name__} is not an observation that worlds can show: {message}")


def _check_value(observation: Any) -> None:
    made = hasattr(observation, "__dataclass_fields__") and not isinstance(observation, type)
    _require(made, observation, "it is no object of a dataclass, so dataclasses.replace cannot change its settings")
    missing = [name for name in ("remaining", "flat", "see") if not hasattr(observation, name)]
    _require(not missing, observation, f"it lacks {', '.join(missing)}, which wane.worlds.Observation names")
    _require(isinstance(observation, Observation), observation, "it does not have the names of wane.worlds.Observation")
    for name in ("remaining", "flat"):
        is_field = name in {field.name for field in dataclasses.fields(observation)}
        _require(
            is_field and isinstance(getattr(observation, name), bool), observation, f"`{name}` is no field of bools"
        )
    copy = dataclasses.replace(cast(Any, observation))
    try:
        same = hash(copy) == hash(observation)
    except TypeError:
        same = False
    equal = copy == observation
    _require(same and equal, observation, "a copy is not equal to it, or it has no hash: use @dataclass(frozen=True)")


def _check_places(world: Any, cells: Any, facings: Any, worths: Any, seen: Any) -> None:
    """One place by hand is what the compiled program of all places says."""
    _require(hasattr(seen, "shape"), world.observation, "`see` returns no array: Gymnasium has no space for a tree")
    for i in (0, len(cells) // 2, len(cells) - 1):
        for _ in range(2):
            one = world.view(jnp.asarray(cells[i]), jnp.asarray(facings[i]), jnp.asarray(worths[i]))
            same = one.shape == seen.shape[1:] and one.dtype == seen.dtype and _close(one, seen[i])
            _require(same, world.observation, "`see` is no pure function: compiled, or called again, it says otherwise")


def _check_twin(world: Any, cells: Any, facings: Any, worths: Any, seen: Any) -> None:
    if not hasattr(world.observation, "see_numpy"):
        return
    many = world.observation.see_numpy(world, cells, facings, worths)
    one = world.observation.see_numpy(world, int(cells[-1]), int(facings[-1]), worths[-1])
    for what, twin, expected in (("many places", many, seen), ("one place", one, seen[-1])):
        same = np.shape(twin) == expected.shape and _close(twin, expected)
        _require(same, world.observation, f"`see_numpy` of {what} is not what `see` returns")
        _require(not isinstance(twin, jax.Array), world.observation, f"`see_numpy` of {what} is an array of JAX")


def _check_hints(world: Any, cells: Any, facings: Any, worths: Any, seen: Any) -> None:
    """What the observation says about itself is true."""
    if not getattr(world.observation, "fades", True):
        fresh = jax.jit(jax.vmap(world.view))(cells, facings, jnp.ones(worths.shape))
        _require(_close(fresh, seen), world.observation, "`fades` is False, and what is seen depends on what remains")
    if hasattr(world.observation, "bounds"):
        low, high = world.observation.bounds(world)
        within = np.all((np.asarray(seen) >= low) & (np.asarray(seen) <= high))
        _require(within, world.observation, f"what is seen is not within its bounds, {low} to {high}")


def _check_settings(world: Any, seen: Any) -> None:
    """A world shows what the settings `remaining` and `flat` ask for."""
    shown = world.observation
    result = jax.eval_shape(lambda: world.begin(0)[0])
    view = result.view if shown.remaining and not shown.flat else result
    _require(isinstance(result, Seen) == (shown.remaining and not shown.flat), shown, "`remaining` changes nothing")
    if shown.flat:
        vector = view.ndim == 1 and view.dtype == jnp.float32
        _require(vector, shown, f"it is flat and shows {view}, and no vector of 32-bit floats")
    else:
        _require(view.shape == seen.shape[1:], shown, f"it shows {view}, and without `remaining` {seen.shape[1:]}")


def _close(one: Any, other: Any) -> bool:
    return np.allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-5, atol=1e-6)
