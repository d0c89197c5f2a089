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

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from wane.depletion import Depletion
from wane.extras import MissingExtra
from wane.mdp import MDP
from wane.types import AnyArray, Integer, Tree
from wane.worlds import rules
from wane.worlds.base import HALVING, STATE_NUMBER, BaseWorld, State, StepResult
from wane.worlds.grid import Map

if TYPE_CHECKING:
    # The pictures need matplotlib and Pillow, which a simulation does not load.
    import matplotlib.figure

    import wane.worlds.film

    MapLike = Map
else:
    MapLike = Map | str


class Tables(NamedTuple):
    """The tables that a step looks up. They are NumPy arrays, so that they can be cached while JAX traces."""

    next_states: Int[np.ndarray, "states actions"]
    """The state that each action leads to when it does not slip."""
    bumps: Bool[np.ndarray, "states actions"]
    """Whether each action runs into a wall."""
    neighbours: Int[np.ndarray, "states 4"]
    """The free neighbours of each state, in the first places of its row."""
    n_neighbours: Int[np.ndarray, " states"]
    """The number of free neighbours."""
    site_of: Int[np.ndarray, " states"]
    """The number of the site in each state, −1 where there is none."""
    cells: Int[np.ndarray, "states 2"]
    """The (row, column) of each state."""
    symbols: Int[np.ndarray, "rows columns"]
    """The map as numbers: 0 for a free cell, 1 for a wall, 3 + i for the i-th site."""


def make_tables(map: Map, site_of: Int[np.ndarray, " states"], n_actions: int) -> Tables:
    """Returns the tables of a map with the site of each state."""
    symbols = np.where(map.free, 0, 1)
    symbols[map.free] = np.where(site_of < 0, 0, 3 + site_of)
    tables = map.next_states(n_actions), map.bumps(n_actions), *map.neighbour_table(), site_of, map.cells, symbols
    return Tables(*(table.astype(np.int32) if table.dtype.kind == "i" else table for table in tables))


def move(
    tables: Tables,
    cell: Int[Array, ""],
    action: Int[Array, ""],
    slip: float,
    numbers: Float[Array, "2"] | None,
) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """Returns the next cell, and whether the agent bumped into a wall. `numbers` are two uniform ones."""
    aim = jnp.asarray(tables.next_states)[cell, action]
    bumped = jnp.asarray(tables.bumps)[cell, action]
    if slip == 0 or numbers is None:
        return aim.astype(jnp.int32), bumped
    slipped = numbers[0] < slip
    which = jnp.floor(numbers[1] * jnp.asarray(tables.n_neighbours)[cell]).astype(jnp.int32)
    stray = jnp.asarray(tables.neighbours)[cell, which]
    return jnp.where(slipped, stray, aim).astype(jnp.int32), bumped & ~slipped


def turn(
    cells: Int[np.ndarray, "states 2"], cell: Int[Array, ""], next_cell: Int[Array, ""], facing: Int[Array, ""]
) -> Int[Array, ""]:
    """Returns the direction from the old cell to the new one; an agent that did not move keeps its direction."""
    places = jnp.asarray(cells)
    down, right = places[next_cell] - places[cell]
    ways = jnp.array([down < 0, right > 0, down > 0, right < 0])
    return jnp.where(ways.any(), ways.argmax(), facing).astype(jnp.int32)


@dataclass(frozen=True, eq=False, repr=False)
class World(BaseWorld):
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
    """The places that pay: letters on the map, (row, column) pairs or state numbers. A site may be a set of places, or
    a letter that stands on several cells: one reward, which a visit to any of them pays and wears off. Kept as state
    numbers, or as sets of them if any site has several."""
    rewards: Any
    """The reward r̄ of every site before its first visit. Kept as an array."""
    depletion: Depletion = HALVING
    """How the reward of a site wears off, and how it grows back."""
    discount: rules.Number = 0.99
    """The discount γ of the return."""
    timing: Literal["arrival", "departure"] = "arrival"
    """Whether a site pays when the agent arrives, or when it departs."""
    wall_penalty: rules.Number = 0.0
    """What it costs to bump into a wall."""

    # The rules of an episode.
    start: Any = "uniform"
    """Where an episode begins: a place like a site, "uniform", or a probability for each state. Kept as
    probabilities."""
    n_actions: rules.Count = 5
    """5 actions, or 4 without staying."""
    slip: rules.Number = 0.0
    """The probability of moving to a random free neighbour instead."""
    observation: Any = STATE_NUMBER
    """What the agent sees: an observation, its name, or a function of the cell, the facing and the worth of each site.
    The default, the state number, hides what remains of the rewards, so that the agent faces a partially observed
    world. `Index(remaining=True)`, "index+remaining", shows it too. Kept as an observation (`wane.worlds.observe`)."""
    horizon: rules.Count | None = None
    """The number of steps after which an episode is cut off (truncated). None: it never is."""
    threshold: rules.Number | None = None
    """An episode is over (terminated) once less than this remains of the reward of every site. None: it never is."""

    # The policies.
    policies: Any = ()
    """Policies that come with the world. Kept as a tuple of arrays: actions (states,) or probabilities (states,
    actions)."""

    _numbers_a_step = 2

    def __post_init__(self) -> None:
        map = self.map if isinstance(self.map, Map) else Map(self.map)
        patches, n_actions = rules.find_sites(map, self.sites), rules.check_n_actions(self.n_actions)
        self._keep(
            map.n_states,
            n_actions,
            patches,
            map=map,
            wall_penalty=rules.check_finite("wall_penalty", self.wall_penalty),
            start=rules.start_probabilities(map, self.start, patches),
            n_actions=n_actions,
            slip=rules.check_slip(self.slip),
        )

    def _size(self) -> str:
        rows, columns = self.map.shape
        return f"{rows} × {columns} cells, {self.n_states} of them free"

    def _place(self, state: Integer) -> str:
        row, column = self.map.cells[state]
        return f"({row}, {column})"

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
    def is_certain(self) -> bool:
        """Whether nothing in a step is random, so that it needs no key."""
        return self.slip == 0

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
        return make_tables(self.map, self.site_of, self.n_actions)

    @property
    def action_costs(self) -> Float[AnyArray, "states actions"]:
        """The expected cost of each action because of the walls. An action that slips does not bump."""
        return self.wall_penalty * (1 - self.slip) * self.tables.bumps

    def begin(self, cell: Any, facing: Integer = 0) -> tuple[Tree, State]:
        """Begins an episode in a given place: a letter, a (row, column) or a state number, which may be traced."""
        place = cell if isinstance(cell, jax.Array) else rules.find_state(self.map, cell, "start")
        return self._begin(place, facing)

    def step(self, key: Array | None, state: State, action: Integer) -> StepResult:
        """Takes one step. Returns observation, state, reward, terminated, truncated and info.

        The key is used only if the world slips. An action that does not exist cannot be refused while JAX traces: its
        reward is NaN, which no training survives unnoticed.
        """
        return self._step(jax.random.uniform(cast(Array, key), (2,)) if self.slip else None, state, action)

    def _step(self, numbers: Float[Array, "2"] | None, state: State, action: Integer) -> StepResult:
        action = jnp.asarray(action, jnp.int32)
        cell, bumped = move(self.tables, state.cell, action, self.slip, numbers)
        site = jnp.asarray(self.tables.site_of)[cell if self.timing == "arrival" else state.cell]
        facing = turn(self.tables.cells, state.cell, cell, state.facing)
        return self._arrive(state, action, cell, facing, site, self.wall_penalty * bumped)

    def draw(self, **options: Any) -> "matplotlib.figure.Figure":
        """Returns a picture of the map with the sites and their rewards.

        The options are those of `wane.worlds.draw.draw_map`, such as `values`, `policy`, `trajectory` and `title`.
        """
        from wane.worlds.draw import draw_map

        return draw_map(self.map, **{"sites": self.sites, "rewards": np.asarray(self.rewards)} | options)

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
