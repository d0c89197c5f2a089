"""GPE and GPI: composing policies by their representations (the paper's section 5.3).

One product evaluates each policy of a set on what remains of the rewards, r. The agent takes the best action of all:

    Q^π(s, a) = Φ^π(s, a, ·) · r
    a = argmax_a max_π Q^π(s, a)

Φ is exact (`wane.representation`) and may use any depletion: the one that the agent believes in, which need not be the
world's. Φ is computed for sites that were never visited, so r is the agent's only memory. With `refresh` r is what
remains now, as in the paper; without it r is always r̄, which shows the value of that memory. For λⁿ the product of a
fresh Φ and what remains is the exact value from now on. For other curves it is the paper's recipe, an approximation.

The worlds pay on arrival, while Φ(s, a, ·) counts the present state first. The paper acts on this Φ nevertheless, and
so does timing="departure", the default. With timing="arrival" the agent acts on Σ_s' p(s'|s, a) Φ(s', ·), which is
consistent with the worlds.

`composed` can also follow the policy that is best in the present state, argmax_π Q^π(s, π(s)), instead of comparing all
actions.

Actions within 1e-5 of the best count as equal and the first of them is taken, so that rounding decides nothing and
single and double precision play the same episodes. The agent pays for bumping into walls, but does not foresee this
cost, as in the paper.

The agent plans and does not learn: `init` solves for Φ, `train` returns the same Φ, and there is no `update`.

    >>> from wane.depletion import Geometric
    >>> from wane.worlds import make
    >>> world = make("four-rooms", threshold=None)
    >>> phi = representations(world, depletion=Geometric(0.5))
    >>> phi.shape, round(float(discounted_returns(jax.random.key(0), world, phi).mean()), 2)
    ((4, 68, 5, 3), 25.92)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy, compose, dot, no_draws
from wane.agents.common.rollout import Episode, play
from wane.depletion import Depletion
from wane.exact.representations import representation
from wane.mdp import check_policy
from wane.settings import Checked
from wane.types import AnyArray, Tree
from wane.worlds.observe import Seen
from wane.worlds.process import Solvable, single_states

OBSERVATION = "index+remaining"
Timing = Literal["departure", "arrival"]


@dataclass(frozen=True)
class Config(Checked):
    """The settings of GPI."""

    depletion: Depletion | None = None
    """what the agent believes; None takes the world's own depletion"""
    timing: Timing = "departure"
    """whether Q counts the present state ("departure", the paper) or the next one ("arrival", as the worlds pay)"""
    refresh: bool = True
    """whether the agent looks up what remains of the rewards at every step"""
    policies: Any = None
    """the policies to compose; None takes the world's own"""


class State(NamedTuple):
    """What the agent has solved for."""

    phi: Float[AnyArray, "policies states actions sites"]


def check_timing(timing: str) -> None:
    """Raises ValueError unless `timing` is "departure" or "arrival"."""
    if timing not in ("departure", "arrival"):
        raise ValueError(f'timing is "departure" (the paper) or "arrival" (as the worlds pay), got {timing!r}')


def representations(
    world: Solvable,
    policies: Sequence[Any] | np.ndarray | None = None,
    depletion: Depletion | None = None,
    *,
    timing: Timing = "departure",
) -> Float[AnyArray, "policies states actions sites"]:
    """Φ of every policy: by default of the world's own policies, under the world's own depletion.

    Raises ValueError if there is no policy.
    """
    check_timing(timing)
    chosen: Any = world.policies if policies is None else policies
    if len(chosen) == 0:
        raise ValueError("there is no policy to compose: pass some, or use a world that has policies")
    depletion = world.depletion if depletion is None else depletion
    mdp, sites = world.mdp, single_states(world, "GPI")
    phis = [representation(mdp.under(policy), depletion, discount=world.discount, sites=sites) for policy in chosen]
    return np.stack([phi.action_matrix(mdp) if timing == "departure" else mdp.backup(phi.matrix) for phi in phis])


def q_values(
    phi_s: Float[AnyArray, "policies actions sites"], remaining: Float[AnyArray, " sites"]
) -> Float[AnyArray, "policies actions"]:
    """GPE: Q^π(s, a) of every policy in one state."""
    return dot(phi_s, remaining)


def greedy_action(
    phi_s: Float[AnyArray, "policies actions sites"], remaining: Float[AnyArray, " sites"]
) -> Int[Array, ""]:
    """GPI: the action with the highest value under any of the policies, the first of equally good ones."""
    return compose(q_values(phi_s, remaining))


def init(key: jax.Array, world: Solvable, config: Config) -> State:
    """Solves for Φ of every policy. Nothing is drawn from `key`."""
    return State(representations(world, config.policies, config.depletion, timing=config.timing))


def train(key: jax.Array, world: Solvable, config: Config, state: State | None = None) -> tuple[State, None]:
    """Returns the state of `init` and None: there is nothing to learn."""
    return init(key, world, config) if state is None else state, None


def policy(params: State, world: Solvable, config: Config) -> Policy:
    """Returns the policy that composes the given policies."""
    return composed(params.phi, world, config.refresh)


def composed(
    phi: Float[AnyArray, "policies states actions sites"],
    world: Solvable,
    refresh: bool | Bool[Array, ""] = True,
    policies: Sequence[Any] | None = None,
) -> Policy:
    """The policy that composes policies with the given Φ; `refresh` and Φ may be traced.

    With `policies` it follows the best of them instead of comparing all actions.
    """
    own_actions = None if policies is None else jnp.asarray(action_table(policies, world))
    params = jnp.asarray(phi), jnp.asarray(refresh), jnp.asarray(world.rewards), own_actions
    return Policy(_act, params, draw=no_draws, observation=OBSERVATION)


def action_table(policies: Sequence[Any], world: Solvable) -> Int[np.ndarray, "policies states"]:
    """The action of every policy in every state. Raises ValueError for a policy that draws its actions at random."""
    checked = [check_policy(policy, world.n_states, world.n_actions) for policy in policies]
    for number, policy in enumerate(checked):
        if policy.ndim == 2 and not np.all(np.max(policy, 1) == 1):
            raise ValueError(f"policy {number} draws its actions at random, so it has no action of its own to follow")
    return np.stack([np.argmax(policy, 1) if policy.ndim == 2 else policy for policy in checked]).astype(np.int32)


def _act(
    params: tuple[Array, Array, Array, Array | None], carry: Tree, observation: Seen, key: None
) -> tuple[Int[Array, ""], Tree, None]:
    phi, refresh, fresh, own_actions = params
    rewards = jnp.where(refresh, observation.remaining, fresh)
    q = q_values(phi[:, observation.view], rewards)
    return compose(q, None if own_actions is None else own_actions[:, observation.view]), carry, None


def play_composed(
    key: jax.Array,
    world: Solvable,
    phi: Float[AnyArray, "policies states actions sites"],
    start: Any = None,
    *,
    refresh: bool | Bool[Array, ""] = True,
    policies: Sequence[Any] | None = None,
) -> Episode:
    """Plays one episode of the composed policy, from a given place or from one of the world's starts."""
    return play(key, world, composed(phi, world, refresh, policies), start=start)[1]


def discounted_returns(
    key: jax.Array,
    world: Solvable,
    phi: Float[AnyArray, "policies states actions sites"],
    starts: Sequence[int] | Int[AnyArray, " starts"] | None = None,
    *,
    refresh: bool | Bool[Array, ""] = True,
    policies: Sequence[Any] | None = None,
) -> Float[Array, " starts"]:
    """The discounted return from each of many starts, by default from every state once.

    Each start has its own random slips. This is a pure function: `jit` it, and `vmap` it over keys or representations.
    """
    starts = jnp.arange(world.n_states) if starts is None else jnp.asarray(starts)
    keys = jax.random.split(key, len(starts))

    def one(key: Array, start: Array) -> Array:
        return play_composed(key, world, phi, start, refresh=refresh, policies=policies).value

    return jax.vmap(one)(keys, starts)


AGENT = Agent("gpi", Config, State, init, train, policy, traceable=(), by_site=True)
