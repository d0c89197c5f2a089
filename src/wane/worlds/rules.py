"""The rules for a world's settings: one function for each setting.

Each function takes what a user gave, raises an error that names the culprit and the cure, and returns the setting in
the one form that a `World` keeps. Values that JAX is tracing cannot be inspected, so they are accepted.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from wane.checks import is_traced
from wane.depletion import Depletion
from wane.exact.representations import check_parameters
from wane.mdp import check_patches
from wane.names import nearest
from wane.texts import shown
from wane.types import AnyArray, Integer, Scalar
from wane.worlds.grid import ACTIONS, Map

# A world accepts more than it keeps. Type checkers see what it keeps; tests check at run time what it accepts.
if TYPE_CHECKING:
    Count = int
    Number = float
else:
    Count = Integer
    Number = Scalar

LONGEST = 2**31 - 1
"""The largest number of steps in an episode. A world counts the steps of an episode in 32 bits."""


def no_setting(name: str, known: Sequence[str]) -> TypeError:
    """Returns the error for a setting that worlds do not have."""
    if name == "render_mode":
        return TypeError(
            'render_mode belongs to an environment, not to a world: gymnasium.make("wane/FourRooms-v0", render_mode=…) '
            "or wane.worlds.Environment(world, render_mode=…). A world draws itself, world.draw()"
        )
    near = nearest(name, known)
    meant = f"did you mean {near!r}? It" if near else "it"
    return TypeError(f"a world has no setting {name!r}: {meant} has {', '.join(known)}")


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
    raise ValueError(f"{what} {shown(place)} is not a letter, a (row, column) or a state from 0 to {map.n_states - 1}")


def find_sites(map: Map, sites: Any) -> tuple[Int[np.ndarray, " _states"], ...]:
    """Returns the states of each site: of a place, of a set of places, or of all cells with the same letter."""

    def find(site: Any) -> int | frozenset[int]:
        if isinstance(site, set | frozenset):
            return frozenset(find_state(map, place, "site") for place in site)
        cells = np.argwhere(map.letters == site) if isinstance(site, str) and site.isalnum() else ()
        return frozenset(map.state(*cell) for cell in cells) if len(cells) > 1 else find_state(map, site, "site")

    return check_patches([find(site) for site in sites], map.n_states)


def check_rewards(rewards: Any, n_sites: int) -> Float[AnyArray, " sites"]:
    """Returns one finite reward for each site: a JAX array as it is, anything else as a NumPy array."""
    if isinstance(rewards, jax.Array):
        rewards = rewards if jnp.issubdtype(rewards.dtype, jnp.floating) else rewards.astype(float)
    else:
        try:
            rewards = np.asarray(rewards, dtype=float)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"rewards must be one finite number for each site, got {shown(rewards)} ({error})"
            ) from error
    if rewards.shape != (n_sites,) or not (is_traced(rewards) or np.all(np.isfinite(rewards))):
        raise ValueError(f"rewards must be one finite r̄ for each of the {n_sites} sites, got {rewards}")
    return rewards


def check_depletion(depletion: Any, n_sites: int) -> Depletion:
    """Returns the depletion, whose parameters are single numbers or one number for each site."""
    check_parameters(depletion, n_sites)
    return depletion


def start_probabilities(
    map: Map, start: Any, patches: Sequence[Int[np.ndarray, " _states"]]
) -> Float[np.ndarray, " states"]:
    """Returns the probability of starting in each state. Raises ValueError if a start can reach no site."""
    probabilities = _start_probabilities(map, start)
    sites = np.concatenate([np.zeros(0, int), *patches])
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
        return check_start(np.asarray(start, float), map.n_states)
    probabilities = np.zeros(map.n_states)
    probabilities[find_state(map, start, "start")] = 1.0
    return probabilities


def check_start(probabilities: Float[np.ndarray, "..."], n_states: int) -> Float[np.ndarray, " states"]:
    """Returns the probability of starting in each state."""
    if probabilities.shape != (n_states,):
        raise ValueError(f"start probabilities are one for each of {n_states} states, got shape {probabilities.shape}")
    with np.errstate(over="ignore"):
        total = probabilities.sum()
    if np.any(probabilities < 0) or not np.isclose(total, 1):
        raise ValueError(f"start probabilities must not be negative and must sum to 1, these sum to {total:.4g}")
    return probabilities


def check_n_actions(n_actions: Any) -> int:
    """Returns 4 or 5."""
    if n_actions not in (4, 5):
        raise ValueError(f"n_actions is 4 (no staying) or 5, got {shown(n_actions)}")
    return int(n_actions)


def check_timing(timing: Any) -> Literal["arrival", "departure"]:
    """Returns "arrival" or "departure"."""
    if timing not in ("arrival", "departure"):
        raise ValueError(f'timing is "arrival" or "departure", got {shown(timing)}')
    return timing


def check_horizon(horizon: Any) -> int | None:
    """Returns a whole number from 1 to `LONGEST`, or None."""
    if horizon is None:
        return None
    if not _is_real(horizon) or not 1 <= horizon <= LONGEST or int(horizon) != horizon:
        raise ValueError(
            f"horizon is a whole number of steps, from 1 to {LONGEST:,} (the world counts them in 32 bits), or None "
            f"for episodes without an end, got {shown(horizon)}"
        )
    return int(horizon)


def check_slip(slip: Any) -> float:
    """Returns a probability."""
    if not _is_real(slip) or not 0 <= slip <= 1:
        raise ValueError(f"slip is a probability, from 0 to 1, got {shown(slip)}")
    return float(slip)


def check_finite(name: str, value: Any) -> Any:
    """Returns the value of a setting that must be a finite number."""
    if not is_traced(value) and not (_is_real(value) and np.isfinite(_to_float(value))):
        raise ValueError(f"{name} must be a finite number, got {shown(value)}")
    return value


def _to_float(value: Any) -> float:
    """Returns a number as a float: infinity for an integer that is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _is_real(value: Any) -> bool:
    """Returns whether a value is one number: Python's, NumPy's, or an array of JAX or NumPy without axes."""
    return np.ndim(value) == 0 and isinstance(value, int | float | np.number | np.ndarray | jax.Array)


def check_action(action: Any, n_actions: int) -> int:
    """Returns an action as an integer. Raises ValueError if the world has no such action."""
    try:
        number = int(action)
        known = 0 <= number < n_actions and number == action
    except (TypeError, ValueError, OverflowError):
        number, known = 0, False
    if not known:
        names = ", ".join(f"{i} {name}" for i, name in enumerate(ACTIONS[:n_actions]))
        raise ValueError(f"unknown action {action}: there are {names}")
    return number


def check_actions(actions: Any, copies: int, n_actions: int) -> Int[np.ndarray, " copies"]:
    """Returns an action for each copy of a world. Raises ValueError for a wrong number of actions or an unknown one."""
    given = np.asarray(actions)
    if given.shape != (copies,):
        raise ValueError(f"a batch of {copies} worlds takes {copies} actions, got shape {given.shape}")
    if given.dtype.kind in "iu" and given.min(initial=0) >= 0 and given.max(initial=0) < n_actions:
        return given
    return np.array([check_action(action, n_actions) for action in given], int)
