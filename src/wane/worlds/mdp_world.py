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
both have mean the same. A step is drawn from the row p(·|s, a) by bisection, so a sparse MDP is never made dense.

An action whose row is zero ends the episode: the agent stays where it is, and the step is `terminated`. Under "arrival"
such a step pays nothing, because no state is entered. Under "departure" it pays for the state that ends the episode.
"""

import dataclasses
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
from wane.exact.planning import Optimum
from wane.mdp import MDP, check_discount, check_patches, check_policy, kept_sites
from wane.names import unknown
from wane.types import Integer, Tree
from wane.worlds import checks, value
from wane.worlds.dynamics import HALVING, State, StepResult, ending, fresh_state, pay, select
from wane.worlds.observe import REMAINING, Index, Observation, OneHot, form_of, show
from wane.worlds.process import numbered_sites

if TYPE_CHECKING:
    Transitions = MDP
else:
    Transitions = Any
VIEWS = {"index": Index, "one-hot": OneHot}
"""The observations by name that need no map."""


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

    def draw(self, row: Int[Array, ""], draw: Any) -> Int[Array, ""]:
        """Returns the state that a uniform number chooses: bisection for the first entry whose sum exceeds it.

        The number is not used, and may be None, if no row has more than one entry.
        """
        first, cumulated = jnp.asarray(self.first), jnp.asarray(self.cumulated)
        low, high = first[row], first[row + 1] - 1
        for _ in range(math.ceil(math.log2(max(self.longest, 1)))):
            middle = (low + high) // 2
            beyond = cumulated[middle] <= draw
            low, high = jnp.where(beyond, middle + 1, low), jnp.where(beyond, high, middle)
        return jnp.asarray(self.next_states)[low]


def make_rows(mdp: MDP) -> Rows:
    """Returns the rows of an MDP."""
    stacked: Any = sparse.vstack([sparse.csr_array(mdp.action(a)) for a in range(mdp.n_actions)], format="csr")
    stacked = stacked.sorted_indices()  # The same numbers draw the same states, in whatever order entries are stored.
    counts, before = np.diff(stacked.indptr), np.append(0.0, np.cumsum(stacked.data))
    sums = before[stacked.indptr[1:]] - before[stacked.indptr[:-1]]
    within = (before[1:] - np.repeat(before[stacked.indptr[:-1]], counts)) / np.repeat(sums, counts)
    within[stacked.indptr[1:][counts > 0] - 1] = 1.0  # No rounding keeps a number below 1 from finding its entry.
    return Rows(stacked.indptr.astype(np.int32), stacked.indices.astype(np.int32), within)


@dataclass(frozen=True, eq=False, repr=False)
class MDPWorld:
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
    discount: checks.Number = 0.99
    """The discount γ of the return."""
    timing: Literal["arrival", "departure"] = "arrival"
    """Whether a site pays when the agent arrives, or when it departs."""
    start: Any = "uniform"
    """Where an episode begins: a state number, "uniform", or a probability for each state. Kept as probabilities."""
    observation: str | Observation = "index"
    """What the agent sees: "index" or "one-hot", also with "+remaining" and with "+flat", or a function of the state
    number, of 0 and of the worth of each site."""
    horizon: checks.Count | None = None
    """The number of steps after which an episode is cut off (truncated). None: it never is."""
    threshold: checks.Number | None = None
    """An episode is over (terminated) once less than this remains of the reward of every site. None: it never is."""
    policies: Any = ()
    """Policies that come with the world: actions (states,) or probabilities (states, actions)."""

    def __new__(cls, *mdp: Any, **settings: Any) -> "MDPWorld":
        """Makes a world. Raises TypeError for a setting that such worlds do not have."""
        for name in settings:
            if name not in cls.__dataclass_fields__:
                raise checks.no_setting(name, [*cls.__dataclass_fields__])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        given: Any = self.mdp
        if is_traced(given, getattr(given, "_dense", None)):
            raise TypeError("the steps of an MDP are prepared outside of JAX: make its world outside of jit and vmap")
        mdp = given if isinstance(given, MDP) else MDP(given)
        patches = check_patches(self.sites, mdp.n_states)
        sites = kept_sites(patches)
        checked = {
            "mdp": mdp,
            "sites": sites,
            "rewards": checks.check_rewards(self.rewards, len(sites)),
            "depletion": checks.check_depletion(self.depletion, len(sites)),
            "discount": check_discount(self.discount),
            "timing": checks.check_timing(self.timing),
            "start": _start_probabilities(self.start, mdp.n_states),
            "horizon": checks.check_horizon(self.horizon),
            "threshold": None if self.threshold is None else checks.check_finite("threshold", self.threshold),
            "policies": tuple(check_policy(policy, mdp.n_states, mdp.n_actions) for policy in self.policies),
        }
        for name, setting in checked.items():
            object.__setattr__(self, name, setting)
        _ = self.view  # An unknown observation is refused now.

    def __repr__(self) -> str:
        states = [", ".join(map(str, each)) for each in self.patches[:8]]
        named = [f"{{{each}}}" if "," in each else each for each in states]
        pays = [f"{site} pays {r:g}" for site, r in zip(named, np.asarray(self.rewards)[:8], strict=True)]
        more = f" and {self.n_sites - 8} more" if self.n_sites > 8 else ""
        shown = {"sites": (", ".join(pays) + more) or "none", "depletion": f"{self.depletion!r}"}
        for name in ("discount", "timing", "horizon", "threshold", "observation"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                shown[name] = f"{getattr(self, name)}"
        size = f"MDPWorld of {self.n_states} states and {self.n_actions} actions"
        return "\n".join([size, *(f"  {name:<12} {text}" for name, text in shown.items())])

    @property
    def n_states(self) -> int:
        """The number of states of the MDP."""
        return self.mdp.n_states

    @property
    def n_actions(self) -> int:
        """The number of actions of the MDP."""
        return self.mdp.n_actions

    @property
    def n_sites(self) -> int:
        """The number of sites."""
        return len(self.sites)

    @property
    def patches(self) -> tuple[Int[np.ndarray, " _states"], ...]:
        """The states of each site."""
        return check_patches(self.sites, self.n_states)

    @property
    def site_of(self) -> Int[np.ndarray, " states"]:
        """The number of the site in each state, −1 where there is none."""
        return self._site_of

    @cached_property
    def _site_of(self) -> Int[np.ndarray, " states"]:
        return numbered_sites(self.patches, self.n_states)

    @cached_property
    def rows(self) -> Rows:
        """The rows that a step draws from."""
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
    def ends_early(self) -> bool:
        """Whether an episode can terminate before its horizon."""
        return self.ends is not None or (self.threshold is not None and self.n_sites > 0)

    @property
    def is_certain(self) -> bool:
        """Whether a step draws nothing at random, so that it needs no key."""
        return self.rows.longest <= 1

    @property
    def action_costs(self) -> Float[np.ndarray, "states actions"]:
        """The cost of each action: nothing."""
        return np.zeros((self.n_states, self.n_actions))

    @cached_property
    def start_cumulated(self) -> Float[np.ndarray, " states"]:
        """The probability of starting in each state or in one before it."""
        cumulated = np.cumsum(self.start)
        return cumulated / cumulated[-1]

    @cached_property
    def view(self) -> Observation:
        """The function that makes observations."""
        if not isinstance(self.observation, str):
            return self.observation
        name = form_of(self.observation).name
        if name not in VIEWS:
            ending = f', and each of them with "{REMAINING}", because an MDP has no map; or a function of the state'
            raise unknown("observation", name, VIEWS, ending)
        return VIEWS[name](self.n_states)

    def remaining(self, state: State) -> Float[Array, " sites"]:
        """Returns what a visit to each site would pay now."""
        return jnp.asarray(self.rewards) * self.depletion.worth(state.memory)

    def observe(self, state: State) -> Tree:
        """Returns what the agent sees: a `Seen` if the observation's name ends with "+remaining"."""
        return show(self, state)

    def reset(self, key: Array) -> tuple[Tree, State]:
        """Begins an episode. Returns the observation and the state."""
        return self._reset(jax.random.uniform(key))

    def _reset(self, draw: Float[Array, ""]) -> tuple[Tree, State]:
        cell = jnp.searchsorted(jnp.asarray(self.start_cumulated), draw, side="right")
        return self.begin(jnp.minimum(cell, self.n_states - 1))

    def begin(self, cell: Any) -> tuple[Tree, State]:
        """Begins an episode in a given state, which may be traced."""
        cell = cell if isinstance(cell, jax.Array) else _find_state(cell, self.n_states)
        state = fresh_state(self, cell)
        return self.observe(state), state

    def step(self, key: Array | None, state: State, action: Integer) -> StepResult:
        """Takes one step. Returns observation, state, reward, terminated, truncated and info.

        The key is used only if more than one state may follow. The reward of an action that does not exist is NaN.
        """
        return self._step(None if self.is_certain else jax.random.uniform(cast(Array, key)), state, action)

    def _step(self, draw: Float[Array, ""] | None, state: State, action: Integer) -> StepResult:
        action = jnp.asarray(action, jnp.int32)
        cell = self.rows.draw(action * self.n_states + state.cell, draw)
        over = jnp.zeros((), bool) if self.ends is None else jnp.asarray(self.ends)[state.cell, action]
        paying = cell if self.timing == "arrival" else state.cell
        site = jnp.where(over & (self.timing == "arrival"), -1, jnp.asarray(self.site_of)[paying])
        reward, memory = pay(self, state, site)
        reward = jnp.where((action >= 0) & (action < self.n_actions), reward, jnp.nan)
        after = State(jnp.where(over, state.cell, cell), state.facing, memory, state.time + 1)
        remaining, terminated, truncated = ending(self, after, over)
        return self.observe(after), after, reward, terminated, truncated, {"remaining": remaining, "site": site}

    def draw_numbers(self, key: Array) -> Float[Array, "2"]:
        """Draws the random numbers of one step and of the reset that may follow it."""
        return jax.random.uniform(key, (2,))

    def auto_step_drawn(self, draws: Float[Array, "2"], state: State, action: Integer) -> StepResult:
        """Takes one step with given random numbers, and begins a new episode if that step ended this one."""
        final, state, reward, terminated, truncated, info = self._step(draws[1], state, action)
        observation, state = select(terminated | truncated, self._reset(draws[0]), (final, state))
        info = info | {"final_observation": final, "final_remaining": info["remaining"]}
        return observation, state, reward, terminated, truncated, info | {"remaining": self.remaining(state)}

    def values(self, policy: Any, **changes: Any) -> Float[np.ndarray, " states"]:
        """Returns the exact expected return of a policy from every state, as `World.values` does."""
        return value.values(dataclasses.replace(self, **changes), policy)

    def q_values(self, policy: Any, **changes: Any) -> Float[np.ndarray, "states actions"]:
        """Returns the exact expected return of taking each action once and following a policy afterwards."""
        return value.q_values(dataclasses.replace(self, **changes), policy)

    def optimum(
        self, believed: Depletion | None = None, *, tolerance: float = 1e-6, grid: int | None = None, **changes: Any
    ) -> Optimum:
        """Returns the best values and the best policy over states and what the sites remember (see `wane.optimum`)."""
        return value.best(dataclasses.replace(self, **changes), believed, tolerance=tolerance, grid=grid)


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
    return checks.check_start(np.asarray(start, float), n_states)
