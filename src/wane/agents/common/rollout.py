"""One roll-out for all agents: a policy in an environment, as one `scan`.

An environment is anything with

    reset(key) → (observation, state)
    step(key, state, action) → (observation, state, reward, terminated, truncated, info)

such as a world with any observation (`wane.worlds.process`). A policy is a `wane.agents.common.policy.Policy`.
`rollout` takes a number of steps and either starts a fresh episode whenever one ends (`reset=True`, the way networks
collect data), or stays where the episode ended (`reset=False`): from then on rewards are 0 and `live` is 0. A learner
multiplies its step by `live`, which costs one product; choosing between two whole tables at every step would cost more
than the rest of the step.

An agent that learns at every step gives `learn(params, transition, key) → params`. The policy acts with the present
parameters, and `key` is what the policy received at the same step.

`play` plays one episode in a `Process`. Returns follow the world's timing: Σ_{t ≥ 1} γᵗ rₜ if it pays on arrival,
Σ_{t ≥ 0} γᵗ rₜ if it pays on departure.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.agents.common.policy import Policy
from wane.limits import require_memory
from wane.mdp import check_discount
from wane.types import Integer, Scalar, Tree
from wane.worlds.base import select
from wane.worlds.process import AProcess, Environment, Process, SamplesAhead


class Transition(NamedTuple):
    """One step, or many with a further axis. All fields are trees of arrays."""

    observation: Tree
    action: Tree
    reward: Tree
    next_observation: Tree
    """The observation after the step, in the same episode: never the first observation of the next episode."""
    terminated: Tree
    """Whether the episode is over: nothing more can be earned."""
    truncated: Tree
    """Whether the episode was cut off: more could have been earned."""
    live: Tree
    """1.0, or 0.0 if the episode was over before this step."""
    extras: Tree = None
    """What the policy gave the roll-out to record."""


class Position(NamedTuple):
    """The point that a roll-out has reached. Another roll-out can continue from here."""

    observation: Tree
    state: Tree
    """The environment's state."""
    carry: Tree
    """What the policy remembers."""
    live: Tree


class Rollout(NamedTuple):
    """What a roll-out returns."""

    params: Tree
    """The policy's parameters after the last step. They change only if the agent learns."""
    position: Position
    transitions: Transition
    """Arrays with the steps along the first axis."""
    recorded: Tree
    """What `record` returned for the environment's state after each step (and after the reset, if there was one)."""


def steps_per_turn() -> int:
    """The number of steps in one iteration of a compiled loop (the `unroll` of `jax.lax.scan`).

    On a GPU every iteration has a fixed cost: with eight steps in each, a recurrent agent learns 2.4 times as fast on
    an H200. On a CPU longer iterations only take longer to compile.
    """
    return 8 if jax.default_backend() == "gpu" else 1


def begin(key: jax.Array, environment: Environment, policy: Policy) -> Position:
    """Returns the position at the beginning of a fresh episode."""
    return Position(*environment.reset(key), policy.carry, jnp.ones(()))


def rollout(
    key: jax.Array,
    environment: Environment,
    policy: Policy,
    steps: int,
    position: Position | None = None,
    *,
    reset: bool = True,
    learn: Callable[[Any, Transition, Any], Any] | None = None,
    record: Callable[[Any], Any] | None = None,
) -> Rollout:
    """Takes `steps` steps, from a `position` or from a fresh episode.

    It is a pure function: `vmap` it over keys and positions for a batch of environments.
    """
    begin_key, policy_key, step_key = jax.random.split(key, 3)
    position = begin(begin_key, environment, policy) if position is None else position
    certain = getattr(environment, "is_certain", False) and not reset
    keys: Any = None if certain else jax.random.split(step_key, steps)
    advance = _advance_and_reset if reset else _advance
    if reset and isinstance(environment, SamplesAhead):  # All numbers at once, as drawing inside of a step is slow.
        keys = jax.vmap(environment.sample_numbers)(keys)

    def step(now: tuple[Any, Position], draws: tuple[Any, Any]):
        (params, at), (step_key, policy_key) = now, draws
        action, carry, extras = policy.act(params, at.carry, at.observation, policy_key)
        after, outcome = advance(environment, step_key, at._replace(carry=carry), action, policy)
        transition = Transition(at.observation, action, *outcome, at.live, extras)
        params = params if learn is None else learn(params, transition, policy_key)
        return (params, after), (transition, None if record is None else record(after.state))

    start, draws = (policy.params, position), (keys, policy.draw(policy_key, steps))
    (params, position), (transitions, recorded) = jax.lax.scan(step, start, draws, steps, unroll=steps_per_turn())
    return Rollout(params, position, transitions, recorded)


Outcome = tuple[Any, Any, Any, Any]
"""The reward, the next observation of the same episode, terminated, truncated."""


def _advance(
    environment: Environment, key: Any, at: Position, action: Tree, policy: Policy
) -> tuple[Position, Outcome]:
    """Takes one step of the environment, which stays where it is once its episode has ended."""
    observation, state, reward, terminated, truncated, _ = environment.step(key, at.state, action)
    outcome = reward * at.live, observation, terminated, truncated
    if not getattr(environment, "ends_early", True):
        return Position(observation, state, at.carry, at.live), outcome
    observation, state = select(at.live > 0, (observation, state), (at.observation, at.state))
    live = jnp.where(terminated | truncated, 0.0, at.live)
    return Position(observation, state, at.carry, live), outcome


def _advance_and_reset(
    environment: Environment, key: Any, at: Position, action: Tree, policy: Policy
) -> tuple[Position, Outcome]:
    """Takes one step of the environment, which begins a fresh episode if the step ended one."""
    observation, state, reward, terminated, truncated, info = auto_step(environment, key, at.state, action)
    carry = select(terminated | truncated, policy.carry, at.carry)
    outcome = reward, info["final_observation"], terminated, truncated
    return Position(observation, state, carry, at.live), outcome


def auto_step(environment: Environment, key: jax.Array, state: Tree, action: Tree):
    """Takes a step, then begins a fresh episode if the step ended one. `info["final_observation"]` precedes the reset.

    An environment that samples ahead takes random numbers (`sample_numbers`) in the place of a key.
    """
    if isinstance(environment, SamplesAhead):
        return environment.auto_step_from(key, state, action)
    step_key, reset_key = jax.random.split(key)
    observation, state, reward, terminated, truncated, info = environment.step(step_key, state, action)
    fresh = environment.reset(reset_key)
    chosen = select(terminated | truncated, fresh, (observation, state))
    return *chosen, reward, terminated, truncated, {**info, "final_observation": observation}


class Episode(NamedTuple):
    """One episode in a `Process`."""

    cells: Int[Array, " moments"]
    """The places of the agent, the start included: state numbers in a world that has them."""
    actions: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    """What each step paid."""
    remaining: Float[Array, "moments sites"]
    """What remained of every reward, the start included."""
    live: Float[Array, " steps"]
    """1.0 for each step that was taken, 0.0 for those after the end."""
    value: Float[Array, ""]
    """The discounted return."""


def play(
    key: jax.Array,
    world: Process,
    policy: Policy,
    *,
    start: Integer | tuple[int, int] | str | None = None,
    learn: Callable[[Any, Transition, Any], Any] | None = None,
) -> tuple[Any, Episode]:
    """Plays one episode, from a given place or from one of the world's starts.

    Returns the policy's parameters after the episode (they change only if the agent learns) and the episode. The policy
    sees the observation that it asks for. Raises ValueError if the world has no horizon, or too long a one.
    """
    if world.horizon is None:
        raise ValueError("an episode needs an end: give the world a horizon, dataclasses.replace(world, horizon=…)")
    require_room(world)
    world, horizon = observed(world, policy), int(world.horizon)
    begin_key = jax.random.split(key, 3)[0]
    observation, state = world.reset(begin_key) if start is None else world.begin(start)
    remaining = world.remaining(state)
    position = Position(observation, state, policy.carry, jnp.ones((), remaining.dtype))
    after = rollout(
        key,
        world,
        policy,
        horizon,
        position,
        reset=False,
        learn=learn,
        record=lambda state: (state.cell, world.remaining(state)),
    )
    steps, (cells, remaining_after) = after.transitions, after.recorded
    episode = Episode(
        jnp.append(state.cell, cells),
        jnp.asarray(steps.action, jnp.int32),
        steps.reward,
        jnp.concatenate([remaining[None], remaining_after]),
        steps.live,
        discounts(world) @ steps.reward,
    )
    return after.params, episode


def require_room(world: Process, episodes: int = 1) -> None:
    """Raises ValueError if episodes that are played at the same time need too much memory."""
    require_episodes(episodes, world.horizon or 0, len(Episode._fields) + world.n_sites, "world")


def require_episodes(episodes: int, steps: int, numbers: int, what: str) -> None:
    """Raises ValueError if episodes with so many numbers a step need too much memory; `what` is played."""
    together = [(episodes, "episodes")] if episodes > 1 else []
    cure = f"play fewer episodes, or give the {what} a shorter horizon, dataclasses.replace({what}, horizon=…)"
    require_memory("playing", *together, (steps, "steps"), (numbers, "numbers"), copies=2, cure=cure)


def observed(world: AProcess, policy: Policy) -> AProcess:
    """The world with the observation that the policy asks for."""
    wanted, own = policy.observation, world.observation
    same = wanted is None or wanted == own or (isinstance(wanted, str) and wanted == f"{own}")
    return world if same else dataclasses.replace(world, observation=wanted)


def discount_of(world: Process, config: Any) -> Scalar:
    """The γ that an agent learns with: that of its `config` if it is set, else the world's."""
    return world.discount if config.discount is None else check_discount(config.discount)


def discounts(world: Process) -> Float[np.ndarray, " steps"]:
    """γᵗ of each step's reward, with t from 1 where the world pays on arrival and from 0 where it pays on departure."""
    begin = 1 if world.timing == "arrival" else 0
    return world.discount ** (np.arange(world.horizon or 0) + begin)
