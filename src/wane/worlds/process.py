"""What an agent needs of a world: four protocols, of which every function names the smallest that it needs.

| protocol | what it adds | what can live in it |
| --- | --- | --- |
| `Environment` | `reset`, `step` | a roll-out |
| `Process` | sites whose rewards wear off, and the rules of an episode | every agent that learns from what it sees |
| `Tabular` | numbered states, of which each site is a set | agents with tables |
| `Solvable` | the transition probabilities, and what follows from them | whatever is solved instead of learned |

`wane.worlds.World` is all of them. A world of another kind satisfies a protocol by having its names; it inherits
nothing. `wane.testing.check_world(world)` checks what the types cannot say. Three things belong to every process:

- It is a frozen dataclass (or an Equinox module), so that `dataclasses.replace(process, observation=…)` gives another.
- Its state has the field `cell`, the place of the agent, which episodes record: the state number in a `Tabular` one.
- With "arrival" a step pays for the place that it enters, and with "departure" for the one that it leaves. The step
  changes the memory of the site that is paid by `depletion.visit`, and the memory of all others by `depletion.wait`.

Three attributes are optional. Two make a roll-out faster: `ends_early` is False if no episode terminates, and
`is_certain` is True if nothing in a step is random, so that it needs no key. A table `ends` (states, actions) says
after which actions nothing can follow, so that learners of Φ do not look beyond; an episode that ends because little
remains is not such an end.
"""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from wane.depletion import Depletion
from wane.mdp import MDP
from wane.types import AnyArray, Integer, Scalar

if TYPE_CHECKING:
    from wane.exact.planning import Optimum

Step = tuple[Any, Any, Any, Any, Any, Any]
"""What a step returns: observation, state, reward, terminated, truncated, info."""


@runtime_checkable
class Environment(Protocol):
    """Two pure functions that `jit`, `vmap` and `scan` take."""

    def reset(self, key: Any, /) -> tuple[Any, Any]:
        """Begins an episode. Returns the observation and the state."""
        ...

    def step(self, key: Any, state: Any, action: Any, /) -> Step:
        """Takes one step. Returns observation, state, reward, terminated, truncated and info."""
        ...


@runtime_checkable
class SamplesAhead(Environment, Protocol):
    """An environment that takes random numbers in the place of keys. Those of many steps are sampled at once."""

    def sample_numbers(self, key: Any, /) -> Any:
        """Samples the random numbers of one step and of the reset that may follow it."""
        ...

    def auto_step_from(self, numbers: Any, state: Any, action: Any, /) -> Step:
        """Takes one step, and begins a new episode if that step ended this one.

        `info["final_observation"]` is what was seen before the new episode began.
        """
        ...


@runtime_checkable
class Process(Environment, Protocol):
    """An environment with sites whose rewards wear off."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        ...

    @property
    def n_sites(self) -> int:
        """The number of sites."""
        ...

    @property
    def rewards(self) -> Any:
        """The reward r̄ of every site before its first visit: an array (sites,)."""
        ...

    @property
    def depletion(self) -> Depletion:
        """How the reward of a site wears off, and how it grows back."""
        ...

    @property
    def discount(self) -> Any:
        """The discount γ of the return."""
        ...

    @property
    def timing(self) -> Literal["arrival", "departure"]:
        """Whether a site pays when the agent arrives, or when it departs."""
        ...

    @property
    def horizon(self) -> int | None:
        """The number of steps after which an episode is cut off (truncated). None: it never is."""
        ...

    @property
    def observation(self) -> Any:
        """What the agent sees; `dataclasses.replace` gives a process with another observation."""
        ...

    def begin(self, cell: Any, /) -> tuple[Any, Any]:
        """Begins an episode in a given place. Returns the observation and the state."""
        ...

    def remaining(self, state: Any, /) -> Any:
        """Returns what a visit to each site would pay now: an array (sites,)."""
        ...


AProcess = TypeVar("AProcess", bound=Process)


@runtime_checkable
class Tabular(Process, Protocol):
    """A process with numbered states. No state belongs to two sites."""

    @property
    def n_states(self) -> int:
        """The number of states."""
        ...

    @property
    def patches(self) -> tuple[Int[np.ndarray, " _states"], ...]:
        """The states of each site."""
        ...

    @property
    def site_of(self) -> Int[np.ndarray, " states"]:
        """The number of the site of each state, −1 for a state that belongs to none."""
        ...

    @property
    def start(self) -> Float[np.ndarray, " states"]:
        """The probability of starting in each state."""
        ...

    @property
    def policies(self) -> tuple[Any, ...]:
        """Policies that come with the world, for comparisons: actions (states,) or probabilities (states, actions)."""
        ...


@runtime_checkable
class Solvable(Tabular, Protocol):
    """A process whose transition probabilities are known. `wane.worlds.value` computes the rest from them."""

    @property
    def mdp(self) -> MDP:
        """The transition probabilities."""
        ...

    @property
    def action_costs(self) -> Any:
        """The expected cost of each action (states, actions). Costs never wear off."""
        ...

    def values(self, policy: Any, /, **changes: Any) -> Float[np.ndarray, " states"]:
        """Returns the exact expected return of a policy from every state, after `changes` of settings."""
        ...

    def q_values(self, policy: Any, /, **changes: Any) -> Float[np.ndarray, "states actions"]:
        """Returns the exact expected return of taking each action once and following a policy afterwards."""
        ...

    def optimum(
        self, believed: Depletion | None = None, *, tolerance: float = 1e-6, grid: int | None = None, **changes: Any
    ) -> "Optimum":
        """Returns the best values and the best policy over states and what the sites remember."""
        ...


def numbered_sites(patches: Iterable[Int[np.ndarray, " _states"]], n_states: int) -> Int[np.ndarray, " states"]:
    """Returns the number of the site of each state, −1 for a state that belongs to none, from the states of each."""
    site_of = np.full(n_states, -1, np.int32)
    for number, states in enumerate(patches):
        site_of[states] = number
    return site_of


def at_site(site_of: Int[AnyArray, " states"], cell: Integer, n_sites: int) -> Bool[Array, " sites"]:
    """Returns which of the sites a state belongs to: one of them, or none."""
    return jnp.asarray(site_of)[cell] == jnp.arange(n_sites)


def without_threshold(process: AProcess) -> AProcess:
    """Returns the process without the threshold that ends episodes once little remains, which exact values ignore."""
    return dataclasses.replace(process, threshold=None) if getattr(process, "threshold", None) is not None else process


def bootstrap_discount(process: Process, discount: Scalar, cell: Integer, action: Integer) -> Scalar:
    """Returns γ, or 0 where the process says (`ends`) that nothing follows an action."""
    ends = getattr(process, "ends", None)
    return discount if ends is None else jnp.where(jnp.asarray(ends)[cell, action], 0.0, discount)


def single_states(process: Tabular, what: str) -> Int[np.ndarray, " sites"]:
    """Returns the state of each site. Raises ValueError, which names `what` needs them, if a site has several."""
    for number, states in enumerate(process.patches):
        if len(states) > 1:
            raise ValueError(f"site {number} has {len(states)} states, and {what} needs sites of one state each")
    return np.array([int(states[0]) for states in process.patches], int)
