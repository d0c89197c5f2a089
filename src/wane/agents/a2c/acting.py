"""What the agent sees, and how it acts.

The network takes one vector: the world's own observation, made flat ("index+flat", "index+remaining+flat", …). So
the agent sees what remains of the rewards if and only if the world's observation shows it. In training, a moment also
records the state and what remains of the rewards: the λF's target and the w of the correction are computed from them.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.agents.a2c.config import Config
from wane.agents.a2c.networks import LSTMState, Params, fresh_state, see
from wane.agents.common.policy import Policy, first_best, no_draws, sample_action, uniforms
from wane.types import Integer
from wane.worlds.observe import flatten, largest_reward, shows_pictures
from wane.worlds.world import World


class Moment(NamedTuple):
    """What training records at each moment."""

    x: Float[Array, "*batch inputs"]
    """What the network sees."""
    cell: Int[Array, "*batch"]
    remaining: Float[Array, "*batch sites"]


class Acting(NamedTuple):
    """What the agent's policies act with."""

    params: Params
    keep: Float[Array, ""]
    """What the recurrent state is multiplied by at every step: 1, or 0 for an agent that is not `recurrent`."""
    mask: Float[Array, " inputs"]
    """What each input is multiplied by: 0 hides it."""


def view(world: World, cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> Float[Array, " inputs"]:
    """The world's observation as one vector."""
    rewards, flat = jnp.asarray(world.rewards), dataclasses.replace(world.observation, flat=True)
    share = worth * rewards / largest_reward(rewards) if flat.remaining else None
    return flatten(flat.see(world, cell, facing, worth), share)


def watched(world: World) -> World:
    """Returns the world that training uses: its observations are `Moment`s."""

    def watch(cell: Integer, facing: Integer, worth: Float[Array, " sites"]) -> Moment:
        return Moment(view(world, cell, facing, worth), jnp.asarray(cell), jnp.asarray(world.rewards) * worth)

    return dataclasses.replace(world, observation=watch)


def n_inputs(world: World) -> int:
    """The number of inputs of the network. Raises ValueError if the world's observation is a picture."""
    if shows_pictures(world.observation):
        raise ValueError(
            f"the observation {world.observation} is a picture, and a2c has no network for pictures: choose another, "
            'such as dataclasses.replace(world, observation="index")'
        )
    place, worth = jnp.zeros((), jnp.int32), jnp.ones(world.n_sites)
    return jax.eval_shape(lambda: view(world, place, place, worth)).shape[0]


def input_mask(world: World, config: Config) -> Float[Array, " inputs"]:
    """The factor of each input: 0 for what remains of the rewards, which comes last, if it is not `shown`, else 1."""
    size, last = n_inputs(world), world.n_sites if world.observation.remaining else 0
    return jnp.where(np.arange(size) < size - last, 1.0, jnp.asarray(config.shown, float))


def policy(params: Params, world: World, config: Config) -> Policy:
    """The greedy policy: it takes the most probable action."""
    return _make_policy(partial(_act, _choose_best), params, world, config, no_draws)


def sampled_policy(params: Params, world: World, config: Config) -> Policy:
    """The policy that is trained: it draws its actions. It acts in the world and also in the `watched` world."""
    return _make_policy(partial(_act, _choose_at_random), params, world, config, uniforms(1))


def _make_policy(act: Any, params: Params, world: World, config: Config, draw: Any) -> Policy:
    acting = Acting(params, jnp.asarray(config.recurrent, float), input_mask(world, config))
    return Policy(act, acting, fresh_state(params), draw, dataclasses.replace(world.observation, flat=True))


def _act(choose: Any, acting: Acting, carry: LSTMState, observation: Any, draws: Any) -> tuple[Array, LSTMState, None]:
    x = observation.x if isinstance(observation, Moment) else jnp.ravel(observation)
    carry = see(acting.params, x * acting.mask, carry, acting.keep)
    return choose(acting.params.actor(carry.h), draws), carry, None


def _choose_best(logits: Float[Array, " actions"], draws: None) -> Int[Array, ""]:
    return first_best(jax.nn.softmax(logits))


def _choose_at_random(logits: Float[Array, " actions"], draws: Float[Array, " one"]) -> Int[Array, ""]:
    return sample_action(jnp.cumsum(jax.nn.softmax(logits)), draws[0])
