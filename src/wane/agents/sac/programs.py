"""The compiled programs of a fleet: acting, remembering and learning, each for all agents at once.

The programs take the leaves of the agents' states, not the states: a state has dozens of modules, and taking it apart
and putting it together in Python would take as long as an update does on a GPU. The programs are made once for each
task, configuration and structure of states, so several fleets can share them.

A block holds the transitions of some steps of all agents, one step after another. `remember` and `learn` go through it
step by step while the next block is played, and t is the number of the first step of that next block. Step t of an
agent uses three keys made from fold_in(key, t): key 0 to act, key 1 for the bandit and key 2 to learn.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.agents.common.networks import MLP
from wane.agents.sac import training
from wane.agents.sac.acting import best_action, drawn_action
from wane.agents.sac.config import Config
from wane.agents.sac.networks import make_actor
from wane.agents.sac.training import State, Terms, Variant
from wane.types import Integer
from wane.worlds.control import Task

Leaves = tuple[Array, ...]
"""The leaves of the states of all agents. The leaves of the policies come first."""


class Programs(NamedTuple):
    """Compiled functions of all agents."""

    remember: Any
    """(leaves, keys, variants, block, t) → leaves; donates the given leaves, which cannot be used afterwards"""
    learn: Any
    """(leaves, sums, keys, variants, block, t) → (leaves, sums); donates the given leaves and sums"""


def take_apart(states: State) -> tuple[Leaves, Any]:
    """Returns the leaves of the states, and their structure."""
    leaves, structure = jax.tree_util.tree_flatten(states)
    return tuple(leaves), structure


def policy_structure(task: Task, config: Config) -> Any:
    """The structure of a policy."""
    return jax.tree_util.tree_structure(jax.eval_shape(lambda: make_actor(jax.random.key(0), task, config)))


@cache
def make_act(task: Task, config: Config) -> Any:
    """Returns the program (leaves of the policies, keys, observations, t) → actions."""
    structure = policy_structure(task, config)

    def act(leaves: Leaves, keys: jax.Array, observations: Array, number: Integer) -> Array:
        actors = jax.tree_util.tree_unflatten(structure, leaves)
        return jax.vmap(partial(_act, config, number))(keys, actors, observations)

    return jax.jit(act)


@cache
def make_programs(task: Task, config: Config, structure: Any) -> Programs:
    """Returns the programs for states of the given structure. They are compiled when they are first called."""
    whole = partial(jax.tree_util.tree_unflatten, structure)

    def remember(leaves: Leaves, keys: jax.Array, variants: Any, block: Array, number: Integer) -> Leaves:
        def step(states: State, given: tuple[Array, Array]) -> tuple[State, None]:
            rows, t = given
            return jax.vmap(partial(_remember, config, t))(keys, variants, states, rows), None

        numbers = jnp.asarray(number) + jnp.arange(len(block))
        return take_apart(jax.lax.scan(step, whole(leaves), (block, numbers))[0])[0]

    def learn(
        leaves: Leaves, sums: Terms, keys: jax.Array, variants: Any, block: Array, number: Integer
    ) -> tuple[Leaves, Terms]:
        def step(now: tuple[State, Terms], given: tuple[Array, Array]) -> tuple[tuple[State, Terms], None]:
            (states, sums), (rows, t) = now, given
            states, terms = jax.vmap(partial(_remember_and_learn, task, config, t))(keys, variants, states, rows)
            return (states, Terms(*(total + term for total, term in zip(sums, terms, strict=True)))), None

        numbers = jnp.asarray(number) + jnp.arange(len(block))
        (states, sums), _ = jax.lax.scan(step, (whole(leaves), sums), (block, numbers))
        return take_apart(states)[0], sums

    return Programs(jax.jit(remember, donate_argnums=0), jax.jit(learn, donate_argnums=(0, 1)))


def own_config(config: Config, variant: Variant | None) -> Config:
    """The settings of one agent."""
    return config if variant is None else variant.applied(config)


@partial(jax.jit, static_argnums=(0, 1))
def init_all(task: Task, config: Config, keys: jax.Array, variants: Variant | None) -> State:
    """The first states of all agents."""
    return jax.vmap(lambda key, variant: training.init(key, task, own_config(config, variant)))(keys, variants)


act_best = jax.jit(jax.vmap(best_action))
"""(policies, observations) → mean actions of all agents"""


def _act(config: Config, number: Integer, key: jax.Array, actor: MLP, observation: Array) -> Array:
    """An action of one agent: uniformly random for the first `random_steps` steps, then drawn from its policy."""
    key = jax.random.fold_in(jax.random.fold_in(key, number), 0)
    drawn = drawn_action(actor, observation, key, config)
    uniform = jax.random.uniform(key, drawn.shape, drawn.dtype, -1, 1)
    return jnp.where(jnp.asarray(number) < config.random_steps, uniform, drawn)


def _remember(
    config: Config,
    number: Integer,
    key: jax.Array,
    variant: Variant | None,
    state: State,
    row: Float[Array, " numbers"],
) -> State:
    """The state of one agent after one more step of the task."""
    arm_key = jax.random.fold_in(jax.random.fold_in(key, number), 1)
    ended, earned = row[-2] > 0, row[-1]
    return training.remember(state, row[:-2], ended, earned, arm_key, own_config(config, variant))


def _remember_and_learn(
    task: Task,
    config: Config,
    number: Integer,
    key: jax.Array,
    variant: Variant | None,
    state: State,
    row: Float[Array, " numbers"],
) -> tuple[State, Terms]:
    """The state of one agent after one more step of the task and one update."""
    state = _remember(config, number, key, variant, state, row)
    learn_key = jax.random.fold_in(jax.random.fold_in(key, number), 2)
    return training.learn(state, task, own_config(config, variant), learn_key)
