"""What a world on a map and a world on an MDP share: sites, episodes, and what is computed of them."""

import dataclasses
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from wane.checks import is_traced
from wane.depletion import Depletion, Geometric, Memory
from wane.exact.planning import Optimum
from wane.mdp import check_discount, check_patches, check_policy, kept_sites
from wane.types import Integer, Tree
from wane.worlds import rules, value
from wane.worlds.observe import Index, read_observation, show
from wane.worlds.process import numbered_sites

HALVING = Geometric(0.5)
"""The depletion of a world that is given none."""
MOST_SHOWN = 8
"""How many sites the text of a world names."""
STATE_NUMBER = Index()
"""The observation of a world that is given none."""


class State(NamedTuple):
    """The complete state of a world during an episode."""

    cell: Int[Array, "*batch"]
    """The state number of the agent's cell."""
    facing: Int[Array, "*batch"]
    """The direction of the agent's last move: 0 up, 1 right, 2 down, 3 left."""
    memory: Memory
    """What the depletion remembers of every site."""
    time: Int[Array, "*batch"]
    """The number of steps taken."""


StepResult = tuple[Tree, State, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], dict[str, Tree]]
"""What a step returns: observation, state, reward, terminated, truncated, info."""


def select(condition: Bool[Array, "..."], yes: Tree, no: Tree) -> Tree:
    """Chooses between two trees of the same structure, leaf by leaf."""
    return jax.tree_util.tree_map(lambda a, b: jnp.where(condition, a, b), yes, no)


class BaseWorld:
    """The part of a world that does not depend on how the agent moves.

    A subclass is a frozen dataclass with these settings. It checks them by `_keep`, has `n_states`, `n_actions` and
    `mdp`, and moves the agent in `_step`.
    """

    sites: Any
    rewards: Any
    depletion: Depletion
    discount: rules.Number
    timing: Literal["arrival", "departure"]
    start: Any
    observation: Any
    horizon: rules.Count | None
    threshold: rules.Number | None
    policies: Any
    n_states: Any
    n_actions: Any
    mdp: Any
    action_costs: Any
    ends: Any = None
    """Whether each action ends the episode (states, actions). None: no action does."""
    _numbers_a_step: ClassVar[int]
    """How many random numbers a step takes."""

    def __new__(cls, *place: Any, **settings: Any) -> Any:
        """Makes a world. Raises TypeError for a setting that such worlds do not have."""
        names = [*getattr(cls, "__dataclass_fields__")]  # noqa: B009  (only subclasses are dataclasses)
        for name in settings:
            if name not in names:
                raise rules.no_setting(name, names)
        return super().__new__(cls)

    def _keep(
        self, n_states: int, n_actions: int, patches: tuple[Int[np.ndarray, " _states"], ...], /, **own: Any
    ) -> None:
        """Checks the settings that all worlds have, and keeps them and the world's own, which were checked before."""
        shared = {
            "sites": kept_sites(patches),
            "rewards": rules.check_rewards(self.rewards, len(patches)),
            "depletion": rules.check_depletion(self.depletion, len(patches)),
            "discount": check_discount(self.discount),
            "timing": rules.check_timing(self.timing),
            "observation": read_observation(self.observation),
            "horizon": rules.check_horizon(self.horizon),
            "threshold": None if self.threshold is None else rules.check_finite("threshold", self.threshold),
            "policies": tuple(check_policy(policy, n_states, n_actions) for policy in self.policies),
        }
        for name, setting in (shared | own).items():
            object.__setattr__(self, name, setting)
        if hasattr(self.observation, "prepare"):
            self.observation.prepare(self)

    def _size(self) -> str:
        """Returns how large the world is, in words."""
        raise NotImplementedError

    def _place(self, state: Integer) -> str:
        """Returns what a state is called."""
        return f"{state}"

    def __repr__(self) -> str:
        """Returns the size, the first sites, and the settings that are not the defaults."""
        sites = []
        for number, states in enumerate(self.patches[:MOST_SHOWN]):
            place = ", ".join(map(self._place, states))
            pays = "" if is_traced(self.rewards) else f" pays {float(self.rewards[number]):g}"
            sites.append((f"{{{place}}}" if len(states) > 1 else place) + pays)
        more = f" and {self.n_sites - MOST_SHOWN} more" if self.n_sites > MOST_SHOWN else ""
        lines = {"sites": ", ".join(sites) + more or "none", "depletion": f"{self.depletion!r}"}
        if not np.allclose(self.start, 1 / self.n_states):
            starts = np.flatnonzero(self.start)
            lines["start"] = self._place(starts[0]) if len(starts) == 1 else f"one of {len(starts)} states"
        given: Any = self
        for field in dataclasses.fields(given):
            value = getattr(self, field.name)
            if field.name in ("map", "mdp", "sites", "rewards", "depletion", "start", "policies"):
                continue
            if is_traced(value) or value != field.default:
                lines[field.name] = f"{value:g}" if isinstance(value, float) else f"{value}"
        if self.policies:
            lines["policies"] = f"{len(self.policies)}"
        size = f"{type(self).__name__} of {self._size()}"
        return "\n".join([size, *(f"  {name:<12} {text}" for name, text in lines.items())])

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

    # A protocol can ask for a property, and type checkers do not count a cached one as such.
    @cached_property
    def _site_of(self) -> Int[np.ndarray, " states"]:
        return numbered_sites(self.patches, self.n_states)

    @property
    def ends_early(self) -> bool:
        """Whether an episode can terminate before its horizon."""
        return self.ends is not None or (self.threshold is not None and self.n_sites > 0)

    @cached_property
    def start_cumulated(self) -> Float[np.ndarray, " states"]:
        """The probability of starting in each state or in one before it."""
        cumulated = np.cumsum(self.start)
        return cumulated / cumulated[-1]

    def remaining(self, state: State) -> Float[Array, " sites"]:
        """Returns what a visit to each site would pay now."""
        return jnp.asarray(self.rewards) * self.depletion.worth(state.memory)

    def view(self, cell: Any, facing: Any, worth: Any) -> Tree:
        """Returns what the agent sees in a place, apart from what remains of the rewards."""
        return self.observation.see(self, cell, facing, worth)

    def observe(self, state: State) -> Tree:
        """Returns what the agent sees: a `Seen` if its observation also holds what remains of the rewards."""
        return show(self, state)

    def reset(self, key: Array) -> tuple[Tree, State]:
        """Begins an episode. Returns the observation and the state."""
        return self._reset(jax.random.uniform(key))

    def _reset(self, number: Float[Array, ""]) -> tuple[Tree, State]:
        cell = jnp.searchsorted(jnp.asarray(self.start_cumulated), number, side="right")
        return self._begin(jnp.minimum(cell, self.n_states - 1))

    def _begin(self, cell: Integer, facing: Integer = 0) -> tuple[Tree, State]:
        """Begins an episode in a state. No site was visited yet."""
        memory = jax.tree_util.tree_map(jnp.asarray, self.depletion.initial((self.n_sites,)))
        state = State(jnp.asarray(cell, jnp.int32), jnp.asarray(facing, jnp.int32), memory, jnp.zeros((), jnp.int32))
        return self.observe(state), state

    def _step(self, numbers: Any, state: State, action: Integer) -> StepResult:
        """Takes one step, given uniform random numbers, or None if the step needs none."""
        raise NotImplementedError

    def _arrive(
        self, before: State, action: Array, cell: Array, facing: Array, site: Array, cost: Any, over: Any = None
    ) -> StepResult:
        """Pays for the site of a step (−1: none) and returns what `step` returns. `over`: nothing can follow."""
        visited = jnp.arange(self.n_sites) == site
        memory = select(visited, self.depletion.visit(before.memory), self.depletion.wait(before.memory))
        reward = jnp.where(visited, self.remaining(before), 0.0).sum() - cost
        reward = jnp.where((action >= 0) & (action < self.n_actions), reward, jnp.nan)
        state = State(cell, facing, memory, before.time + 1)
        remaining, terminated = self.remaining(state), jnp.zeros((), bool) if over is None else over
        if self.threshold is not None and self.n_sites:
            terminated = terminated | (remaining.max() < self.threshold)
        truncated = (state.time >= self.horizon) & ~terminated if self.horizon else jnp.zeros((), bool)
        return self.observe(state), state, reward, terminated, truncated, {"remaining": remaining, "site": site}

    def auto_step(self, key: Array, state: State, action: Integer) -> StepResult:
        """Takes one step, and begins a new episode if that step ended this one.

        The observation and the rewards that remained at the end of the old episode are in `info`, as
        "final_observation" and "final_remaining".
        """
        return self.auto_step_from(self.sample_numbers(key), state, action)

    def sample_numbers(self, key: Array) -> Float[Array, " numbers"]:
        """Samples the random numbers of one `auto_step`. Sampling those of many steps at once is faster."""
        return jax.random.uniform(key, (1 + self._numbers_a_step,))

    def auto_step_from(self, numbers: Float[Array, " numbers"], state: State, action: Integer) -> StepResult:
        """Does what `auto_step` does, with given random numbers."""
        final, state, reward, terminated, truncated, info = self._step(numbers[1:], state, action)
        observation, state = select(terminated | truncated, self._reset(numbers[0]), (final, state))
        info = info | {"final_observation": final, "final_remaining": info["remaining"]}
        return observation, state, reward, terminated, truncated, info | {"remaining": self.remaining(state)}

    def _changed(self, changes: dict[str, Any]) -> Any:
        given: Any = self
        return dataclasses.replace(given, **changes) if changes else self

    def values(self, policy: Any, **changes: Any) -> Float[np.ndarray, " states"]:
        """Returns the exact expected return of a policy from every state.

        It is the mean return of the episodes that are played: with the world's horizon, or endless ones if it has none,
        its discount and its timing. `changes` are other settings of the world, for instance `horizon=None`. Only the
        threshold is ignored, which ends episodes when little is left.
        """
        return value.values(self._changed(changes), policy)

    def q_values(self, policy: Any, **changes: Any) -> Float[np.ndarray, "states actions"]:
        """Returns the exact expected return of taking each action once and following a policy afterwards.

        The settings have the same meaning as for `values`.
        """
        return value.q_values(self._changed(changes), policy)

    def optimum(
        self, believed: Depletion | None = None, *, tolerance: float = 1e-6, grid: int | None = None, **changes: Any
    ) -> Optimum:
        """Returns the best values and the best policy over states and what the sites remember (see `wane.optimum`).

        The settings have the same meaning as for `values`, so that no policy is worth more. With `believed` they hold
        for a world that depletes in that way instead.
        """
        return value.best(self._changed(changes), believed, tolerance=tolerance, grid=grid)
