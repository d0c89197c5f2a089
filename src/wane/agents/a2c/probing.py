"""How far the learned λF is from the exact one.

A recurrent policy has no λF that is a function of the state. With a fresh recurrent state the network is such a
function: it gives a Markov policy π₀(·|s) and a φ_λ(s). The exact λF of π₀ is known (`wane.lambda_representation`). The
error is averaged over the states that sampled episodes visit, weighted by how often they are visited. An agent that is
not `recurrent` and sees nothing but its state acts by π₀, and the error is the error of its λF. Any other agent does
not act by π₀ later in an episode, and its network was trained with a fresh recurrent state only at the first moments of
episodes: then the error says how much of the λF is known without it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.agents.a2c.acting import input_mask, sampled_policy, view
from wane.agents.a2c.config import Config
from wane.agents.a2c.networks import Output, Params, fresh_state, heads, see
from wane.agents.a2c.training import feature_numbers
from wane.agents.common.rollout import discount_of, play
from wane.exact.representations import lambda_representation
from wane.mdp import MDP
from wane.worlds.world import World


class Frozen(NamedTuple):
    """The network with a fresh recurrent state, in every state, before any reward was collected."""

    chances: Float[Array, "states actions"]
    """π₀"""
    features: Float[Array, "states states"]
    """φ_λ(s, s'): the feature of s' in the state s. The features of walls are left out."""


def freeze(params: Params, world: World, config: Config) -> Frozen:
    """Evaluates the network with a fresh recurrent state. Raises ValueError if it lacks a feature for some state."""
    if config.features == "sites":
        raise ValueError('only a λF with a feature for each state is compared: train with features="states" or "cells"')
    mask, fresh = input_mask(world, config), fresh_state(params)
    cells, worth = jnp.arange(world.n_states, dtype=jnp.int32), jnp.ones(world.n_sites)

    def read(cell: Array) -> Output:
        x = view(world, cell, jnp.zeros((), jnp.int32), worth) * mask
        return heads(params, see(params, x, fresh, 1.0).h)

    said = jax.vmap(read)(cells)
    return Frozen(jax.nn.softmax(said.logits), said.features[:, feature_numbers(world, config)[0]])


def exact_features(
    chances: Float[Array, "states actions"], world: World, config: Config
) -> Float[Array, "states states"]:
    """The exact φ_λ of a policy for one-hot φ, which is Φ_λ. The setting `arrival` says which state a step counts."""
    kernel = MDP(jnp.asarray(world.mdp.dense(), chances.dtype)).under(chances)
    with jax.default_matmul_precision("highest"):  # a GPU would round factors to ten bits
        phi = jnp.asarray(lambda_representation(kernel, config.lam, discount=discount_of(world, config)).matrix)
        return phi + jnp.asarray(config.arrival, phi.dtype) * (kernel @ phi - phi)


def visits(key: jax.Array, params: Params, world: World, config: Config) -> Float[Array, " states"]:
    """The share of all moments of sampled episodes that each state has."""
    policy = sampled_policy(params, world, config)
    cells = jax.vmap(lambda key: play(key, world, policy)[1].cells)(jax.random.split(key, config.evaluation_episodes))
    return jax.nn.one_hot(cells, world.n_states).mean((0, 1))


def feature_error(key: jax.Array, params: Params, world: World, config: Config) -> Float[Array, ""]:
    """The root mean square error of the learned φ_λ over visited states, relative to that of the exact φ_λ."""
    frozen = freeze(params, world, config)
    truth, share = exact_features(frozen.chances, world, config), visits(key, params, world, config)[:, None]
    return jnp.sqrt(jnp.sum(share * (frozen.features - truth) ** 2) / jnp.sum(share * truth**2))
