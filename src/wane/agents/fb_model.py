"""The two networks of λO-FB, what they say about Φ, and what is true.

    Φ_λ^{π_z}(s, a, s') ≈ F(s, a, z)ᵀ B(s') μ(s'),   π_z(·|s) = softmax(F(s, ·, z)ᵀ z / τ),   z_R = Σ_s μ(s) r(s) B(s)

μ is uniform. F takes [1_s, z / √(1 + ‖z‖²/d)], B takes 1_s. The first layer of a one-hot input is a row of its weights,
so B of all states is one small product, and only z costs F anything there.

On worlds that can be written down, Φ_λ of each π_z is known exactly, and so is the model's error, for every z and λ.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.exact.representation import lambda_representation
from wane.mdp import MDP
from wane.worlds.world import World

Layers = tuple[tuple[jax.Array, jax.Array], ...]


class Params(NamedTuple):
    forward: Layers
    backward: Layers


def layers(key: jax.Array, sizes: list[int]) -> Layers:
    """Weights and biases, uniform in ±1/√(inputs)."""
    made = []
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        draws = jax.random.uniform(jax.random.fold_in(key, i), (n_in + 1, n_out), minval=-1, maxval=1)
        made.append((draws[:-1] / np.sqrt(n_in), draws[-1] / np.sqrt(n_in)))
    return tuple(made)


def forward(layers: Layers, cell: Any, z: Any, lam: Any = None) -> jax.Array:
    """F(s, ·, z): an array (…, actions, d); λ is a further input where F is conditioned on it."""
    weight, bias = layers[0]
    inputs = z / jnp.sqrt(1 + jnp.mean(z**2, -1, keepdims=True))
    inputs = inputs if lam is None else jnp.concatenate([inputs, lam], -1)
    n_states = len(weight) - inputs.shape[-1]
    out = _mlp(layers[1:], rows(weight[:n_states], cell) + inputs @ weight[n_states:] + bias)
    return out.reshape(*out.shape[:-1], -1, z.shape[-1])


def backward(layers: Layers) -> jax.Array:
    """B of every state: an array (states, d)."""
    weight, bias = layers[0]
    return _mlp(layers[1:], weight + bias)


def _mlp(layers: Layers, x: Any) -> jax.Array:
    for weight, bias in layers:
        x = jax.nn.relu(x) @ weight + bias
    return x


def rows(table: Any, cell: Any) -> jax.Array:
    """table[cell] as a product: its gradient is one too, while that of indexing adds up in any order on a GPU."""
    return jax.nn.one_hot(cell, len(table), dtype=table.dtype) @ table


def policy(features: Any, z: Any, temperature: float) -> jax.Array:
    """π_z(·|s) from F(s, ·, z)."""
    return jax.nn.softmax(jnp.einsum("...ad,...d->...a", features, z) / temperature)


def policy_features(layers: Layers, cell: Any, z: Any, lam: Any, temperature: float) -> jax.Array:
    """Σ_a π_z(a|s) F(s, a, z): an array (…, d)."""
    features = forward(layers, cell, z, lam)
    return jnp.einsum("...a,...ad->...d", policy(features, z, temperature), features)


def q_values(params: Params, cell: Any, z: Any, lam: Any = None) -> jax.Array:
    """F(s, ·, z)ᵀ z: an array (…, actions)."""
    return jnp.einsum("...ad,...d->...a", forward(params.forward, cell, z, lam), z)


def reward_vector(table: Any, rewards: Any) -> jax.Array:
    """z_R, from B of every state."""
    return rewards @ table / len(table)


def act(params: Params, cell: Any, rewards: Any, table: Any = None, lam: Any = None) -> jax.Array:
    """argmax_a F(s, a, z_R)ᵀ z_R for what is left of the reward of every state (`table`: B, where it is known)."""
    z = reward_vector(backward(params.backward) if table is None else table, rewards)
    return jnp.argmax(q_values(params, cell, z, lam)).astype(jnp.int32)


def sample_z(key: jax.Array, shape: tuple[int, ...], dimension: int, spread: float) -> jax.Array:
    """ν: a random direction of length √d, times a Cauchy number."""
    direction, length = jax.random.split(key)
    z = jax.random.normal(direction, (*shape, dimension))
    z = z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True))
    return z * spread * jax.random.cauchy(length, (*shape, 1))


def sample_lam(key: jax.Array, shape: tuple[int, ...], n_states: int, condition: str) -> Any:
    """λ inputs of F, uniform in [0, 1]: (…, 1), or (…, states) with half of them the same in all states, or None."""
    if condition == "nothing":
        return None
    keys = jax.random.split(key, 3)
    common = jax.random.uniform(keys[0], (*shape, 1))
    if condition == "uniform":
        return common
    each = jax.random.uniform(keys[1], (*shape, n_states))
    return jnp.where(jax.random.bernoulli(keys[2], shape=(*shape, 1)), common, each)


def everywhere(params: Params, z: Any, lam: Any = None) -> jax.Array:
    """F(s, a, z) of all s and a: an array (states, actions, d)."""
    cells = jnp.arange(len(params.backward[0][0]))
    return jax.vmap(lambda cell: forward(params.forward, cell, z, lam))(cells)


def model(params: Params, z: Any, lam: Any = None) -> jax.Array:
    """F(s, a, z)ᵀ B(s') μ(s'): an array (states, actions, states)."""
    with jax.default_matmul_precision("highest"):
        table = backward(params.backward)
        return everywhere(params, z, lam) @ table.T / len(table)


def exact(world: World, chances: Any, lam: Any, discount: float) -> jax.Array:
    """Φ_λ(s, a, s') of a policy that takes every action with some probability, such as a softmax.

    With γ = 1 that is 1 / (1 − λ(s')) wherever there is a way to s': each state is visited again and again, whatever
    the first action. Nothing is left to choose by.
    """
    n, a = world.n_states, world.n_actions
    if discount == 1:
        together = world.map.regions[:, None] == world.map.regions
        return jnp.broadcast_to((together / (1 - jnp.asarray(lam)))[:, None], (n, a, n))
    transitions = np.stack([world.mdp.action(i).toarray() for i in range(a)], 1)
    mdp = MDP(jnp.asarray(transitions, chances.dtype))
    with jax.default_matmul_precision("highest"):  # a GPU would round factors to ten bits
        return lambda_representation(mdp.under(chances), lam, discount=discount).action_matrix(mdp)


class Error(NamedTuple):
    """Of FᵀBμ, over all s, a and s'."""

    rms: Any
    """root mean square, relative to that of Φ"""
    largest: Any
    """relative to the largest entry of Φ"""


def compare(found: Any, truth: Any) -> Error:
    error = found - truth
    return Error(jnp.sqrt(jnp.mean(error**2) / jnp.mean(truth**2)), jnp.abs(error).max() / jnp.abs(truth).max())
