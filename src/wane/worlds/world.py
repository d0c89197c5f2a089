"""A map, rewarded sites and a depletion: the one definition from which everything else about a world follows.

From it come the transitions that `wane.exact` solves (`world.mdp`), a pure `reset` and `step` that `jit`, `vmap` and
`scan` take, pictures (`world.draw`, `world.film`) and, in `wane.worlds.gym`, a Gymnasium environment. What is computed
and what is simulated cannot disagree.

The setting `timing` says when a reward is paid:

- "arrival" is the default, and what the paper's experiments do. Entering a site pays, and so does staying in it. The
  return is Σ_{t ≥ 1} γᵗ rₜ: the reward of the first action is discounted once.
- "departure" is the definition. Step t pays the reward r(s_t) of the state that it leaves, so the start counts. The
  return is Σ_{t ≥ 0} γᵗ r(s_t).

In both cases each step changes the memory of the visited site by `visit`, and the memory of all other sites by `wait`.

    >>> import jax
    >>> from wane.worlds import make
    >>> world = make("two-rooms")
    >>> observation, state = world.reset(jax.random.key(0))
    >>> observation, state, reward, terminated, truncated, info = world.step(jax.random.key(1), state, 0)
    >>> float(reward), bool(terminated), bool(truncated), info["remaining"].tolist()
    (0.0, False, False, [10.0, 5.0, 5.0])
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.depletion import Depletion
from wane.exact.planning import Optimum
from wane.extras import MissingExtra
from wane.mdp import MDP, check_discount, check_policy
from wane.types import AnyArray, Integer, Tree
from wane.worlds import checks, value
from wane.worlds.dynamics import (
    HALVING,
    State,
    StepResult,
    Tables,
    ending,
    fresh_state,
    make_tables,
    move,
    pay,
    select,
    turn,
)
from wane.worlds.grid import Map
from wane.worlds.observe import Observation, make_observation, show

if TYPE_CHECKING:
    # The pictures need matplotlib and Pillow, which a simulation does not load.
    import matplotlib.figure

    import wane.worlds.film

    MapLike = Map
else:
    MapLike = Map | str


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """A world on a grid.

    A world is a plain object that never changes; close over it in what you `jit`. `dataclasses.replace(world,
    depletion=…)` returns another world, whose settings are checked again. That works inside of traced functions too, so
    that a λ or the rewards can be traced.

    The settings have four jobs. The map says where the agent can be. The task says what the agent earns, and at what
    cost. The rules of an episode say how it begins, how the agent moves, what it sees and how the episode ends. The
    policies are there for comparisons.
    """

    # The map.
    map: MapLike
    """The walls and the free cells. Text is accepted too."""

    # The task.
    _: KW_ONLY
    sites: Any
    """The places that pay: letters on the map, (row, column) pairs or state numbers. Kept as state numbers."""
    rewards: Any
    """The reward r̄ of every site before its first visit. Kept as an array."""
    depletion: Depletion = HALVING
    """How the reward of a site wears off, and how it grows back."""
    discount: checks.Number = 0.99
    """The discount γ of the return."""
    timing: Literal["arrival", "departure"] = "arrival"
    """Whether a site pays when the agent arrives, or when it departs."""
    wall_penalty: checks.Number = 0.0
    """What it costs to bump into a wall."""

    # The rules of an episode.
    start: Any = "uniform"
    """Where an episode begins: a place like a site, "uniform", or a probability for each state. Kept as
    probabilities."""
    n_actions: checks.Count = 5
    """5 actions, or 4 without staying."""
    slip: checks.Number = 0.0
    """The probability of moving to a random free neighbour instead."""
    observation: str | Observation = "index"
    """What the agent sees: a name in `wane.worlds.OBSERVATIONS`, or a function of the cell, the facing and the worth of
    each site. The default, the state number, hides what remains of the rewards, so that the agent faces a partially
    observed world. "index+remaining" shows it too, and "index+remaining+flat" shows both as one vector."""
    horizon: checks.Count | None = None
    """The number of steps after which an episode is cut off (truncated). None: it never is."""
    threshold: checks.Number | None = None
    """An episode is over (terminated) once less than this remains of the reward of every site. None: it never is."""

    # The policies.
    policies: Any = ()
    """Policies that come with the world. Kept as a tuple of arrays: actions (states,) or probabilities (states,
    actions)."""

    def __new__(cls, *map: Any, **settings: Any) -> "World":
        """Makes a world. Raises TypeError for a setting that worlds do not have."""
        for name in settings:
            if name not in cls.__dataclass_fields__:
                raise checks.no_setting(name, [*cls.__dataclass_fields__])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        map = self.map if isinstance(self.map, Map) else Map(self.map)
        sites = checks.find_sites(map, self.sites)
        n_actions = checks.check_n_actions(self.n_actions)
        checked = {
            "map": map,
            "sites": sites,
            "rewards": checks.check_rewards(self.rewards, len(sites)),
            "depletion": checks.check_depletion(self.depletion, len(sites)),
            "discount": check_discount(self.discount),
            "timing": checks.check_timing(self.timing),
            "wall_penalty": checks.check_finite("wall_penalty", self.wall_penalty),
            "start": checks.start_probabilities(map, self.start, sites),
            "n_actions": n_actions,
            "slip": checks.check_slip(self.slip),
            "horizon": checks.check_horizon(self.horizon),
            "threshold": None if self.threshold is None else checks.check_finite("threshold", self.threshold),
            "policies": tuple(check_policy(policy, map.n_states, n_actions) for policy in self.policies),
        }
        for name, setting in checked.items():
            object.__setattr__(self, name, setting)
        _ = self.view  # An unknown observation is refused now, and pixels are drawn now, not while JAX traces.

    def __repr__(self) -> str:
        from wane.worlds.describe import summary

        return summary(self)

    def _repr_png_(self) -> bytes | None:
        """Shows the world as a picture in Jupyter, which shows it as text if Matplotlib is not installed."""
        try:
            from wane.worlds.draw import to_png
        except MissingExtra:
            return None
        return to_png(self.draw())

    def to_json(self) -> str:
        """Returns the settings as JSON text, from which `from_json` makes the same world.

        Raises TypeError for a depletion or an observation of the user's own, which cannot be written down.
        """
        from wane.worlds.describe import describe

        return json.dumps(describe(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, source: str | Path, trust: Sequence[str] = ()) -> "World":
        """Returns the world of a JSON text, or of a JSON file if `source` is a `Path`.

        The text comes from `to_json` or from the explorer (`wane.explore`). Nothing in it is executed, and a depletion
        of another package is imported only if `trust` holds its name or if that package was imported before. Raises
        ValueError for text that is not the description of a world, and DamagedFile for a file that holds no JSON.
        """
        from wane.worlds.describe import from_text

        return from_text(source, trust)

    @property
    def n_states(self) -> int:
        """The number of free cells of the map."""
        return self.map.n_states

    @property
    def n_sites(self) -> int:
        """The number of sites."""
        return len(self.sites)

    @property
    def ends_early(self) -> bool:
        """Whether an episode can terminate before its horizon: there are a threshold and a site."""
        return self.threshold is not None and self.n_sites > 0

    @property
    def is_certain(self) -> bool:
        """Whether a step draws nothing at random, so that it needs no key."""
        return self.slip == 0

    @property
    def patches(self) -> tuple[Int[np.ndarray, " _states"], ...]:
        """The states of each site."""
        return tuple(self.sites[:, None])

    @property
    def site_of(self) -> Int[np.ndarray, " states"]:
        """The number of the site in each state, −1 where there is none."""
        return self.tables.site_of

    @cached_property
    def view(self) -> Observation:
        """The function that makes observations."""
        return make_observation(self.observation, self.map, self.sites)

    @property
    def mdp(self) -> MDP:
        """The transition probabilities, for `wane.exact`."""
        return self._mdp

    # A protocol can ask for a property, and type checkers do not count a cached one as such.
    @cached_property
    def _mdp(self) -> MDP:
        return self.map.mdp(self.n_actions, self.slip)

    # Only what cannot be traced is cached: tables of the map are NumPy arrays, whatever JAX is doing meanwhile.
    @cached_property
    def tables(self) -> Tables:
        """The tables that a step looks up."""
        return make_tables(self.map, self.sites, self.n_actions)

    @cached_property
    def start_cumulated(self) -> Float[np.ndarray, " states"]:
        """The probability of starting in each state or in one before it."""
        cumulated = np.cumsum(self.start)
        return cumulated / cumulated[-1]

    @property
    def action_costs(self) -> Float[AnyArray, "states actions"]:
        """The expected cost of each action because of the walls. An action that slips does not bump."""
        return self.wall_penalty * (1 - self.slip) * self.tables.bumps

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

    def begin(self, cell: Any, facing: Integer = 0) -> tuple[Tree, State]:
        """Begins an episode in a given place: a letter, a (row, column) or a state number, which may be traced."""
        cell = cell if isinstance(cell, jax.Array) else checks.find_state(self.map, cell, "start")
        state = fresh_state(self, cell, facing)
        return self.observe(state), state

    def step(self, key: Array | None, state: State, action: Integer) -> StepResult:
        """Takes one step. Returns observation, state, reward, terminated, truncated and info.

        The key is used only if the world slips. An action that does not exist cannot be refused while JAX traces: its
        reward is NaN, which no training survives unnoticed.
        """
        return self._step(jax.random.uniform(cast(Array, key), (2,)) if self.slip else None, state, action)

    def _step(self, draws: Float[Array, "2"] | None, state: State, action: Integer) -> StepResult:
        action = jnp.asarray(action, jnp.int32)
        cell, bumped = move(self.tables, state.cell, action, self.slip, draws)
        site = jnp.asarray(self.tables.site_of)[cell if self.timing == "arrival" else state.cell]
        reward, memory = pay(self, state, site)
        reward = reward - self.wall_penalty * bumped
        reward = jnp.where((action >= 0) & (action < self.n_actions), reward, jnp.nan)
        facing = turn(self.tables.cells, state.cell, cell, state.facing)
        state = State(cell, facing, memory, state.time + 1)
        remaining, terminated, truncated = ending(self, state)
        return self.observe(state), state, reward, terminated, truncated, {"remaining": remaining, "site": site}

    def auto_step(self, key: Array, state: State, action: Integer) -> StepResult:
        """Takes one step, and begins a new episode if that step ended this one.

        The observation and the rewards that remained at the end of the old episode are in `info`, as
        "final_observation" and "final_remaining".
        """
        return self.auto_step_drawn(self.draw_numbers(key), state, action)

    def draw_numbers(self, key: Array) -> Float[Array, "3"]:
        """Draws the random numbers of one `auto_step`. Drawing the numbers of many steps at once is faster."""
        return jax.random.uniform(key, (3,))

    def auto_step_drawn(self, draws: Float[Array, "3"], state: State, action: Integer) -> StepResult:
        """Does what `auto_step` does, with given random numbers."""
        final, state, reward, terminated, truncated, info = self._step(draws[1:], state, action)
        observation, state = select(terminated | truncated, self._reset(draws[0]), (final, state))
        info = info | {"final_observation": final, "final_remaining": info["remaining"]}
        return observation, state, reward, terminated, truncated, info | {"remaining": self.remaining(state)}

    def values(self, policy: Any, **changes: Any) -> Float[np.ndarray, " states"]:
        """Returns the exact expected return of a policy from every state.

        It is the mean return of the episodes that are played: with the world's horizon, or endless ones if it has none,
        its discount and its timing. `changes` are other settings of the world, for instance `horizon=None`. Only the
        threshold is ignored, which ends episodes when little is left.
        """
        return value.values(dataclasses.replace(self, **changes) if changes else self, policy)

    def q_values(self, policy: Any, **changes: Any) -> Float[np.ndarray, "states actions"]:
        """Returns the exact expected return of taking each action once and following a policy afterwards.

        The settings have the same meaning as for `values`.
        """
        return value.q_values(dataclasses.replace(self, **changes) if changes else self, policy)

    def optimum(
        self, believed: Depletion | None = None, *, tolerance: float = 1e-6, grid: int | None = None, **changes: Any
    ) -> Optimum:
        """Returns the best values and the best policy over states and what the sites remember (see `wane.optimum`).

        The settings have the same meaning as for `values`, so that no policy is worth more. With `believed` they hold
        for a world that depletes in that way instead.
        """
        world = dataclasses.replace(self, **changes) if changes else self
        return value.best(world, believed, tolerance=tolerance, grid=grid)

    def draw(self, **options: Any) -> "matplotlib.figure.Figure":
        """Returns a picture of the map with the sites and their rewards.

        The options are those of `wane.worlds.draw.still`, such as `values`, `policy`, `trajectory` and `title`.
        """
        from wane.worlds.draw import still

        return still(self.map, **{"sites": self.sites, "rewards": np.asarray(self.rewards)} | options)

    def film(
        self,
        episode: "wane.worlds.film.Recorded",
        path: str | Path | None = None,
        title: str | None = None,
        fps: float | int = 6,
    ) -> "wane.worlds.film.Film":
        """Returns an episode as a film, which Jupyter shows and `save` writes. With a path, it is written there.

        The episode has `cells`, `rewards`, `remaining` and `live`, as `wane.agents` play it. Steps that are not live
        are not shown. The return counts up as Σ γᵗ rₜ, with t from 1 where rewards are paid on arrival, else from 0.
        """
        from wane.worlds.film import film_of

        film = film_of(self, episode, title, fps)
        if path is not None:
            film.save(path)
        return film
