"""GPE and GPI: composing policies by their representations (the paper's section 5.3).

Evaluating each policy of a set on what is left of the rewards, r, is one product; acting takes the best of all:

    Q^π(s, a) = Φ^π(s, a, ·) · r,            a = argmax_a max_π Q^π(s, a).

Φ is exact (`wane.representation`), for any depletion: the one that the agent believes in, which need not be the
world's. Φ holds for sites that were never visited, so r is the agent's only memory: with `refresh` it is what is left
now, as in the paper; without, r̄ for ever, which shows what that memory is worth. For λⁿ, what is left times a fresh Φ
is exactly what is left of Φ; for other curves it is the paper's recipe, and an approximation.

The worlds pay on arrival, while Φ(s, a, ·) counts the present state first. The paper acts on it nevertheless, and so
does timing="departure", the default. timing="arrival" is consistent with the worlds: Σ_s' p(s'|s, a) Φ(s', ·).

Actions within 1e-5 of the best count as equal and the first of them is taken: rounding chooses nothing, and single and
double precision play the same episodes. What bumping into walls costs is paid, but not foreseen, as in the paper.

    >>> from wane import Geometric
    >>> from wane.worlds import make
    >>> world = make("four-rooms", threshold=None)
    >>> phi = representations(world, depletion=Geometric(0.5))
    >>> phi.shape, round(float(returns(jax.random.key(0), world, phi).mean()), 2)
    ((4, 68, 5, 3), 25.92)
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from wane.agents.episode import Episode, dot, first_best, play
from wane.depletion import Depletion
from wane.exact.representation import representation
from wane.worlds.world import World


def representations(
    world: World,
    policies: Any = None,
    depletion: Depletion | None = None,
    *,
    timing: Literal["departure", "arrival"] = "departure",
) -> np.ndarray:
    """Φ of every policy, (policies, states, actions, sites).

    By default the world's own policies, and a belief in its own depletion.
    """
    if timing not in ("departure", "arrival"):
        raise ValueError(f'timing is "departure" (the paper) or "arrival" (as the worlds pay), got {timing!r}')
    policies = world.policies if policies is None else policies
    if len(policies) == 0:
        raise ValueError("there is no policy to compose: name some, or take a world that brings its own")
    depletion = world.depletion if depletion is None else depletion
    mdp = world.mdp
    phis = [
        representation(mdp.under(policy), depletion, discount=world.discount, sites=world.sites) for policy in policies
    ]
    return np.stack([phi.action_matrix(mdp) if timing == "departure" else mdp.backup(phi.matrix) for phi in phis])


def q_values(phi_s: Any, left: Any) -> Any:
    """GPE: Q^π(s, a) of every policy, (policies, actions), for Φ(s) of shape (policies, actions, sites)."""
    return dot(phi_s, left)


def act(phi_s: Any, left: Any) -> Any:
    """GPI: the action whose best policy is best, the first of equal ones."""
    return first_best(q_values(phi_s, left).max(0))


def rollout(key: jax.Array, world: World, phi: Any, start: Any = None, *, refresh: Any = True) -> Episode:
    """One episode, from a given place or from a start of the world's; `refresh` may be traced."""
    phi, fresh = jnp.asarray(phi), jnp.asarray(world.rewards)

    def choose(_, cell, left, __):
        return act(phi[:, cell], jnp.where(refresh, left, fresh))

    return play(key, world, choose, start=start)[1]


def returns(key: jax.Array, world: World, phi: Any, starts: Any = None, *, refresh: Any = True) -> jax.Array:
    """The discounted return from each of many starts, by default from every state once; slips differ between them.

    A pure function: `jit` it, and `vmap` it over keys or over representations.
    """
    starts = jnp.arange(world.n_states) if starts is None else jnp.asarray(starts)
    keys = jax.random.split(key, len(starts))
    return jax.vmap(lambda key, start: rollout(key, world, phi, start, refresh=refresh).value)(keys, starts)
