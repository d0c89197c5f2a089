"""The error of the networks of λO-FB.

In a world whose kernel is known, the Φ_λ of each policy π_z is known exactly, and so is the error of
F(s, a, z)ᵀ B(s') μ(s'), for every z and λ.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.agents.forward_backward.model import Config, Params, all_features, sample_lam, sample_z, softmax_policy
from wane.exact.graph import recurrent_classes
from wane.exact.representations import lambda_representation
from wane.mdp import MDP
from wane.worlds.process import Solvable

Phi = Float[Array, "states actions states"]


class Misfit(NamedTuple):
    """The error of the learned Φ, over all s, a and s'."""

    rms: Float[Array, "*probes"]
    """The root mean square of the error, relative to that of Φ."""
    largest: Float[Array, "*probes"]
    """The largest error, relative to the largest entry of Φ."""


def learned_representation(
    params: Params, z: Float[Array, " dimension"], lam: Float[Array, " lams"] | None = None
) -> Phi:
    """F(s, a, z)ᵀ B(s') μ(s')."""
    with jax.default_matmul_precision("highest"):
        table = params.backward()
        return all_features(params, z, lam) @ table.T / len(table)


def exact_representation(
    params: Params, z: Float[Array, " dimension"], lam: Any, world: Solvable, config: Config
) -> Phi:
    """Φ_λ(s, a, s') of the softmax policy of z."""
    features = all_features(params, z, lam_input(lam, config))
    return representation_of(world, softmax_policy(features, z, config.temperature), lam, config.discount)


def representation_of(world: Solvable, chances: Float[Array, "states actions"], lam: Any, discount: float) -> Phi:
    """Φ_λ(s, a, s') of a policy that takes every action with some probability, such as a softmax.

    With γ = 1 it is 1 / (1 − λ(s')) for all states s from which s' can be reached: each state is visited again and
    again, whatever the first action is, so Φ does not tell actions apart. Raises ValueError if some state is left for
    good.
    """
    n, a = world.n_states, world.n_actions
    if discount == 1:
        classes = recurrent_classes(world.mdp.under(np.full((n, a), 1 / a)))
        if (classes < 0).any():
            raise ValueError(f"state {np.argmin(classes)} is left for good, which γ = 1 does not allow here: discount")
        together = classes[:, None] == classes
        return jnp.broadcast_to((together / (1 - jnp.asarray(lam)))[:, None], (n, a, n))
    mdp = MDP(jnp.asarray(world.mdp.dense(), chances.dtype))
    with jax.default_matmul_precision("highest"):  # a GPU would round factors to ten bits
        return jnp.asarray(lambda_representation(mdp.under(chances), lam, discount=discount).action_matrix(mdp))


def compare(found: Phi, truth: Phi) -> Misfit:
    """The error of a Φ."""
    error = found - truth
    return Misfit(jnp.sqrt(jnp.mean(error**2) / jnp.mean(truth**2)), jnp.abs(error).max() / jnp.abs(truth).max())


def misfit(params: Params, z: Float[Array, " dimension"], lam: Any, world: Solvable, config: Config) -> Misfit:
    """How far the learned Φ of the policy of z is from the exact one."""
    found = learned_representation(params, z, lam_input(lam, config))
    return compare(found, exact_representation(params, z, lam, world, config))


def probe(key: jax.Array, params: Params, lam: Float[Array, "*states"], world: Solvable, config: Config) -> Misfit:
    """The misfit for some random z, and for random λ if F is conditioned on λ."""
    z_key, lam_key = jax.random.split(key)
    z = sample_z(z_key, (config.probes,), config.dimension, config.spread)
    drawn = sample_lam(lam_key, (config.probes,), world.n_states, config.condition)
    lams = jnp.broadcast_to(lam, (config.probes, *lam.shape)) if drawn is None else drawn
    return jax.vmap(lambda z, lam: misfit(params, z, lam, world, config))(z, lams)


def lam_input(lam: Any, config: Config) -> Any:
    """λ as an input of F, or None if F does not take λ."""
    return None if config.condition == "nothing" else lam
