"""A world made from any MDP: its states are those of the MDP, and some of them pay.

    >>> import jax
    >>> import wane
    >>> from wane.agents import q_lambda
    >>> ring = np.array([[1, 2], [2, 0], [0, 1]])                    # next state of (state, action)
    >>> world = MDPWorld(ring, sites=[0, 1], rewards=[1.0, 3.0], discount=0.9, horizon=8)
    >>> float(world.optimum().values[2].round(2))
    5.74
    >>> state, _ = q_lambda.train(jax.random.key(0), world, q_lambda.Config(episodes=50))
    >>> state.phi.shape
    (3, 2, 2)

Agents with tables learn in it, and whatever can be solved is solved in it, as in a `World` on a map; the settings that
both have mean the same. A step is sampled from the row p(·|s, a) by bisection, so a sparse MDP is never made dense.

An action whose row is zero ends the episode: the agent stays where it is, and the step is `terminated`. Under "arrival"
such a step pays nothing, because no state is entered. Under "departure" it pays for the state that ends the episode.
"""

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import sparse

from wane.checks import is_traced
from wane.depletion import Depletion
from wane.mdp import MDP, check_patches
from wane.types import Integer, Tree
from wane.worlds import rules
from wane.worlds.base import HALVING, STATE_NUMBER, BaseWorld, State, StepResult

if TYPE_CHECKING:
    Transitions = MDP
else:
    Transitions = Any


class Rows(NamedTuple):
    """The rows p(·|s, a), one behind the other, those of action 0 first."""

    first: Int[np.ndarray, " rows+1"]
    """Where the entries of each row begin, and where those of the last one end."""
    next_states: Int[np.ndarray, " entries"]
    cumulated: Float[np.ndarray, " entries"]
    """The probability of an entry and of those before it in its row."""

    @property
    def longest(self) -> int:
        """The largest number of states that may follow."""
        return int(np.diff(self.first).max(initial=0))

    def sample(self, row: Int[Array, ""], number: Any) -> Int[Array, ""]:
        """Returns the state that a uniform number chooses: bisection for the first entry whose sum exceeds it.

        The number is not used, and may be None, if no row has more than one entry.
        """
        first, cumulated = jnp.asarray(self.first), jnp.asarray(self.cumulated)
        low, high = first[row], first[row + 1] - 1
        for _ in range(math.ceil(math.log2(max(self.longest, 1)))):
            middle = (low + high) // 2
            beyond = cumulated[middle] <= number
            low, high = jnp.where(beyond, middle + 1, low), jnp.where(beyond, high, middle)
        return jnp.asarray(self.next_states)[low]


def make_rows(mdp: MDP) -> Rows:
    """Returns the rows of an MDP."""
    stacked: Any = sparse.vstack([sparse.csr_array(mdp.action(a)) for a in range(mdp.n_actions)], format="csr")
    stacked = stacked.sorted_indices()  # The same numbers choose the same states, in whatever order entries are stored.
    counts, before = np.diff(stacked.indptr), np.append(0.0, np.cumsum(stacked.data))
    sums = before[stacked.indptr[1:]] - before[stacked.indptr[:-1]]
    within = (before[1:] - np.repeat(before[stacked.indptr[:-1]], counts)) / np.repeat(sums, counts)
    within[stacked.indptr[1:][counts > 0] - 1] = 1.0  # No rounding keeps a number below 1 from finding its entry.
    return Rows(stacked.indptr.astype(np.int32), stacked.indices.astype(np.int32), within)


@dataclass(frozen=True, eq=False, repr=False)
class MDPWorld(BaseWorld):
    """A world on the states of an MDP.

    Like a `World`, it is a plain object that never changes: `dataclasses.replace(world, depletion=…)` returns another.
    """

    mdp: Transitions
    """The transitions. What `wane.MDP` takes is accepted too."""
    _: KW_ONLY
    sites: Any
    """The states that pay: state numbers, and sets of them for rewards that are spread over several states, as in
    `[0, {3, 4}]`. Kept as an array of state numbers, or as a tuple of sets if any site has several."""
    rewards: Any
    """The reward r̄ of every site before its first visit. Kept as an array."""
    depletion: Depletion = HALVING
    """How the reward of a site wears off, and how it grows back."""
    discount: rules.Number = 0.99
    """The discount γ of the return."""
    timing: Literal["arrival", "departure"] = "arrival"
    """Whether a site pays when the agent arrives, or when it departs."""
    start: Any = "uniform"
    """Where an episode begins: a state number, "uniform", or a probability for each state. Kept as probabilities."""
    observation: Any = STATE_NUMBER
    """What the agent sees: an observation that needs no map, such as `Index(remaining=True)`, its name, or a function
    of the state number, of 0 and of the worth of each site. Kept as an observation."""
    horizon: rules.Count | None = None
    """The number of steps after which an episode is cut off (truncated). None: it never is."""
    threshold: rules.Number | None = None
    """An episode is over (terminated) once less than this remains of the reward of every site. None: it never is."""
    policies: Any = ()
    """Policies that come with the world: actions (states,) or probabilities (states, actions)."""

    _numbers_a_step = 1

    def __post_init__(self) -> None:
        given: Any = self.mdp
        if is_traced(given, getattr(given, "_dense", None)):
            raise TypeError("the steps of an MDP are prepared outside of JAX: make its world outside of jit and vmap")
        mdp = given if isinstance(given, MDP) else MDP(given)
        patches, start = check_patches(self.sites, mdp.n_states), _start_probabilities(self.start, mdp.n_states)
        self._keep(mdp.n_states, mdp.n_actions, patches, mdp=mdp, start=start)

    def _size(self) -> str:
        return f"{self.n_states} states and {self.n_actions} actions"

    @property
    def n_states(self) -> int:
        """The number of states of the MDP."""
        return self.mdp.n_states

    @property
    def n_actions(self) -> int:
        """The number of actions of the MDP."""
        return self.mdp.n_actions

    @cached_property
    def rows(self) -> Rows:
        """The rows that a step samples from."""
        return make_rows(self.mdp)

    @property
    def ends(self) -> Bool[np.ndarray, "states actions"] | None:
        """Whether each action ends the episode, because its row is zero. None: no action does."""
        return self._ends

    @cached_property
    def _ends(self) -> Bool[np.ndarray, "states actions"] | None:
        empty = (np.diff(self.rows.first) == 0).reshape(self.n_actions, self.n_states).T
        return empty if empty.any() else None

    @property
    def is_certain(self) -> bool:
        """Whether nothing in a step is random, so that it needs no key."""
        return self.rows.longest <= 1

    @property
    def action_costs(self) -> Float[np.ndarray, "states actions"]:
        """The cost of each action: nothing."""
        return np.zeros((self.n_states, self.n_actions))

    def begin(self, cell: Any) -> tuple[Tree, State]:
        """Begins an episode in a given state, which may be traced."""
        return self._begin(cell if isinstance(cell, jax.Array) else _find_state(cell, self.n_states))

    def step(self, key: Array | None, state: State, action: Integer) -> StepResult:
        """Takes one step. Returns observation, state, reward, terminated, truncated and info.

        The key is used only if more than one state may follow. The reward of an action that does not exist is NaN.
        """
        return self._step(None if self.is_certain else jax.random.uniform(cast(Array, key))[None], state, action)

    def _step(self, numbers: Float[Array, "1"] | None, state: State, action: Integer) -> StepResult:
        action = jnp.asarray(action, jnp.int32)
        cell = self.rows.sample(action * self.n_states + state.cell, None if numbers is None else numbers[0])
        over = jnp.zeros((), bool) if self.ends is None else jnp.asarray(self.ends)[state.cell, action]
        paying = cell if self.timing == "arrival" else state.cell
        site = jnp.where(over & (self.timing == "arrival"), -1, jnp.asarray(self.site_of)[paying])
        return self._arrive(state, action, jnp.where(over, state.cell, cell), state.facing, site, 0.0, over)


def _find_state(state: Any, n_states: int) -> int:
    found = np.asarray(state)
    if found.ndim or found.dtype.kind not in "iu" or not 0 <= int(found) < n_states:
        raise ValueError(f"the start {state!r} is not a state from 0 to {n_states - 1}")
    return int(found)


def _start_probabilities(start: Any, n_states: int) -> Float[np.ndarray, " states"]:
    """Returns the probability of starting in each state."""
    if isinstance(start, str) and start == "uniform":
        return np.full(n_states, 1 / n_states)
    if np.ndim(start) == 0:
        start = np.arange(n_states) == _find_state(start, n_states)
    return rules.check_start(np.asarray(start, float), n_states)
