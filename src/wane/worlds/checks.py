"""The checks of a world's settings: one function for each setting.

Each function takes what a user gave, raises an error that names the culprit and the cure, and returns the setting in
the one form that a `World` keeps. Values that JAX is tracing cannot be looked at, so they pass.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from wane.depletion import Depletion, is_traced
from wane.exact.representations import check_parameters
from wane.mdp import check_sites
from wane.types import AnyArray
from wane.worlds.grid import ACTIONS, Map


def find_state(map: Map, place: object, what: str) -> int:
    """Returns the state number of a place: a letter on the map, a (row, column) pair or a state number.

    `what` says what the place is for; it begins the error message. Raises ValueError where there is no such place.
    """
    if isinstance(place, str):
        return map.find(place)
    spot = np.asarray(place)
    if spot.dtype.kind in "iu" and spot.shape == (2,):
        return map.state(int(spot[0]), int(spot[1]))
    if spot.dtype.kind in "iu" and spot.ndim == 0 and 0 <= int(spot) < map.n_states:
        return int(spot)
    raise ValueError(f"{what} {place!r} is no letter, no (row, column) and no state from 0 to {map.n_states - 1}")


def find_sites(map: Map, sites: Any) -> Int[np.ndarray, " sites"]:
    """Returns the state numbers of places that must all differ."""
    return check_sites(np.array([find_state(map, site, "site") for site in sites], int), map.n_states)


def check_rewards(rewards: Any, n_sites: int) -> Float[AnyArray, " sites"]:
    """Returns one finite reward for each site: a JAX array as it is, anything else as a NumPy array."""
    if isinstance(rewards, jax.Array):
        rewards = rewards if jnp.issubdtype(rewards.dtype, jnp.floating) else rewards.astype(float)
    else:
        rewards = np.asarray(rewards, dtype=float)
    if rewards.shape != (n_sites,) or not (is_traced(rewards) or np.all(np.isfinite(rewards))):
        raise ValueError(f"rewards must be one finite r̄ for each of the {n_sites} sites, got {rewards}")
    return rewards


def check_depletion(depletion: object, n_sites: int) -> Depletion:
    """Returns the depletion, whose parameters are single numbers or one number for each site."""
    if not isinstance(depletion, Depletion):
        raise TypeError(f"{depletion!r} is no Depletion: take one of wane.depletion, or subclass it")
    check_parameters(depletion, n_sites)
    return depletion


def start_probabilities(map: Map, start: Any, sites: Int[np.ndarray, " sites"]) -> Float[np.ndarray, " states"]:
    """Returns the probability of starting in each state. Raises ValueError if a start can reach no site."""
    probabilities = _start_probabilities(map, start)
    lost = (probabilities > 0) & ~np.isin(map.regions, map.regions[sites])
    if len(sites) and lost.any():
        row, column = map.cells[np.argmax(lost)]
        raise ValueError(
            f"no site can be reached from the start in cell ({row}, {column}): open a wall, or start where there "
            "is a way"
        )
    return probabilities


def _start_probabilities(map: Map, start: Any) -> Float[np.ndarray, " states"]:
    if isinstance(start, str) and start == "uniform":
        return np.full(map.n_states, 1 / map.n_states)
    # On a map of two states a pair of integers is a (row, column), and a pair of floats is a pair of probabilities.
    if np.shape(start) == (map.n_states,) and (map.n_states > 2 or np.asarray(start).dtype.kind == "f"):
        probabilities = np.asarray(start, float)
        if np.any(probabilities < 0) or not np.isclose(probabilities.sum(), 1):
            raise ValueError(
                f"start probabilities must not be negative and must sum to 1, these sum to {probabilities.sum():.4g}"
            )
        return probabilities
    return np.eye(map.n_states)[find_state(map, start, "start")]


def check_n_actions(n_actions: Any) -> int:
    """Returns 4 or 5."""
    if n_actions not in (4, 5):
        raise ValueError(f"n_actions is 4 (no staying) or 5, got {n_actions}")
    return int(n_actions)


def check_timing(timing: Any) -> Literal["arrival", "departure"]:
    """Returns "arrival" or "departure"."""
    if timing not in ("arrival", "departure"):
        raise ValueError(f'timing is "arrival" or "departure", got {timing!r}')
    return timing


def check_horizon(horizon: Any) -> int | None:
    """Returns a whole number from 1 on, or None."""
    if horizon is not None and (horizon < 1 or int(horizon) != horizon):
        raise ValueError(f"horizon is a number of steps, 1 or more, got {horizon}")
    return None if horizon is None else int(horizon)


def check_slip(slip: Any) -> float:
    """Returns a probability."""
    if not 0 <= slip <= 1:
        raise ValueError(f"slip is a probability, got {slip}")
    return float(slip)


def check_finite(name: str, value: Any) -> Any:
    """Returns the value of a setting that must be a finite number."""
    if not is_traced(value) and not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")
    return value


def check_action(action: Any, n_actions: int) -> int:
    """Returns an action as an integer. Raises ValueError if the world has no such action."""
    if not 0 <= action < n_actions or int(action) != action:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(ACTIONS[:n_actions]))
        raise ValueError(f"unknown action {action!r}: there are {names}")
    return int(action)
