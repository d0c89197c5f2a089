"""Kernels and policies estimated from an animal's moves, for everything in `wane.exact`.

>>> kernel = empirical_kernel([[0, 1, 0, 1, 1]], 2)
>>> kernel.tolist()
[[0.0, 1.0], [0.5, 0.5]]
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from wane.foraging.arguments import NotNegative, check_arguments
from wane.settings import Count
from wane.types import ArrayLike


@check_arguments
def empirical_kernel(
    sequences: Sequence[ArrayLike], n_states: Count, *, prior: NotNegative = 0.0
) -> Float[np.ndarray, "states states"]:
    """The fraction of moves from each state to each other, over sequences of state numbers.

    `prior` is added to every count. A state from which no move was observed leads to itself, unless there is a prior.
    Raises ValueError for a number that is not a state.
    """
    counts = np.full((n_states, n_states), float(prior))
    for number, sequence in enumerate(sequences):
        states = _checked(sequence, n_states, f"sequence {number}", "state")
        np.add.at(counts, (states[:-1], states[1:]), 1.0)
    never = counts.sum(1) == 0
    counts[never, never] = 1.0
    return counts / counts.sum(1, keepdims=True)


@check_arguments
def empirical_policy(
    states: Sequence[ArrayLike],
    actions: Sequence[ArrayLike],
    n_states: Count,
    n_actions: Count,
    *,
    prior: NotNegative = 0.0,
) -> Float[np.ndarray, "states actions"]:
    """The fraction of times that each action was taken in each state. A state without actions gets equal chances.

    A sequence of actions must be as long as its sequence of states, or one shorter. Raises ValueError if it is not, and
    for numbers that are not states or actions.
    """
    if len(states) != len(actions):
        raise ValueError(f"there are {len(states)} sequences of states and {len(actions)} of actions: give as many")
    counts = np.full((n_states, n_actions), float(prior))
    for number, (places, moves) in enumerate(zip(states, actions, strict=True)):
        place = _checked(places, n_states, f"sequence {number} of states", "state")
        move = _checked(moves, n_actions, f"sequence {number} of actions", "action")
        if len(place) - len(move) not in (0, 1):
            raise ValueError(
                f"sequence {number} has {len(place)} states and {len(move)} actions: give one action a step"
            )
        np.add.at(counts, (place[: len(move)], move), 1.0)
    counts[counts.sum(1) == 0] = 1.0
    return counts / counts.sum(1, keepdims=True)


def _checked(sequence: ArrayLike, most: int, what: str, kind: str) -> Int[np.ndarray, " steps"]:
    """The numbers of a sequence. Raises ValueError for one that does not exist, and names its step."""
    numbers = np.asarray(sequence)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(f"{what} must be a list of whole numbers, the number of the {kind} at each step")
    bad = (numbers < 0) | (numbers >= most)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(f"{what} has {kind} {numbers[i]} at step {i}: there are {most}, numbered from 0")
    return numbers
