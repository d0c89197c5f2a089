"""Policy iteration on Q_λ, with exact evaluation.

    evaluate    Q(s, a) = Φ^π(s, a, ·) · r̄              (`wane.representation`, any depletion)
    improve     π(s) ← argmax_a Q(s, a)

Here r̄ are fresh rewards: no site was visited yet. With rewards that never wear off (λ = 1) each sweep improves the
policy, and the sequence ends in an optimal policy. With rewards that wear off it need not: Q is the value of one
deviation now, from fresh rewards, while the new policy deviates in every state, and its earlier visits have reduced the
rewards. A sweep can make the policy worse, and the sequence of policies can be a cycle. In TwoRooms, FourRooms and the
toy with one λ for all sites it is a cycle for every λ that was tried up to 0.95, ½ among them; with λ = 0.999 and 1 it
converges. `train` reports the outcome: `period` is 1 if the last policy repeats itself, and otherwise the length of the
cycle.

Among equally good actions the present one is kept, else the first one is taken, so that rounding starts no cycle. The
costs of walls never wear off, and Q counts them.

    >>> from wane.worlds import make
    >>> world = make("toy")
    >>> train(jax.random.key(0), world, Config())[1].converged
    True
    >>> train(jax.random.key(0), world, Config(depletion=Geometric(0.5)))[1].period
    3
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy, no_draws
from wane.agents.gpi import Timing
from wane.depletion import Depletion, Geometric
from wane.exact.representations import evaluate, representation
from wane.mdp import check_policy
from wane.settings import Checked, Count
from wane.types import Integer, Tree
from wane.worlds.process import Solvable, single_states

TIE = 1e-9
"""Actions within this fraction of the largest value count as equally good."""
OBSERVATION = "index"


@dataclass(frozen=True)
class Config(Checked):
    """The settings of policy iteration."""

    depletion: Depletion | None = None
    """what the agent believes; None takes the world's own depletion"""
    timing: Timing = "departure"
    """whether Q counts the present state ("departure", the paper) or the next one ("arrival", as the worlds pay)"""
    policy: Any = None
    """the first policy; None draws random actions"""
    sweeps: Count = 1000
    """the largest number of sweeps"""


class State(NamedTuple):
    """The policy that the agent has found."""

    policy: Int[np.ndarray, " states"]
    """An action for each state."""


class Info(NamedTuple):
    """The sequence of policies and its outcome."""

    policies: Int[np.ndarray, "sweeps states"]
    """All policies in their order, the first one included."""
    values: Float[np.ndarray, "sweeps states"]
    """What each of them earns in the world from each state, by `World.values`."""
    period: int
    """1 if the policies converged, the length of the cycle if they ended in one, 0 if neither has happened yet."""

    @property
    def converged(self) -> bool:
        return self.period == 1


def q_values(
    policy: Int[np.ndarray, " states"], world: Solvable, config: Config
) -> Float[np.ndarray, "states actions"]:
    """Q of a policy on fresh rewards: what the sites pay, minus the cost of bumping into walls."""
    mdp, kernel = world.mdp, world.mdp.under(policy)
    believed = world.depletion if config.depletion is None else config.depletion
    sites = single_states(world, "policy iteration")
    phi = representation(kernel, believed, discount=world.discount, sites=sites)
    on_departure = config.timing == "departure"
    q = np.asarray(phi.q_values(mdp, world.rewards) if on_departure else mdp.backup(phi.values(world.rewards)))
    cost = world.action_costs
    if not cost.any():
        return q
    own = np.arange(world.n_states)
    later = evaluate(kernel, cost[own, policy], Geometric(1.0), discount=world.discount)
    return q - cost - world.discount * np.asarray(mdp.backup(later))


def improve(policy: Int[np.ndarray, " states"], q: Float[np.ndarray, "states actions"]) -> Int[np.ndarray, " states"]:
    """Returns the greedy policy. It keeps the present action where no other action is better."""
    best = q.max(1)
    good = q >= best[:, None] - TIE * np.abs(q).max(initial=0.0)
    stays = good[np.arange(len(policy)), policy]
    return np.where(stays, policy, good.argmax(1))


def init(key: jax.Array, world: Solvable, config: Config) -> State:
    """Returns the first policy."""
    if config.policy is None:
        return State(np.asarray(jax.random.randint(key, (world.n_states,), 0, world.n_actions), np.int64))
    policy = np.asarray(check_policy(config.policy, world.n_states, world.n_actions))
    return State(policy.astype(np.int64) if policy.ndim == 1 else policy.argmax(1))


def update(
    state: State, data: None, world: Solvable, config: Config, key: None = None
) -> tuple[State, Float[np.ndarray, "states actions"]]:
    """Makes one sweep, which needs no data. Returns the new state and the Q that led to it."""
    q = q_values(state.policy, world, config)
    return State(improve(state.policy, q)), q


def train(
    key: jax.Array, world: Solvable, config: Config, state: State | None = None, sweeps: int | None = None
) -> tuple[State, Info]:
    """Sweeps until a policy occurs for the second time, or until the largest number of sweeps is reached."""
    state = init(key, world, config) if state is None else state
    policies, met, period = [state.policy], {state.policy.tobytes(): 0}, 0
    for sweep in range(1, 1 + (config.sweeps if sweeps is None else sweeps)):
        state, _ = update(state, None, world, config)
        policies.append(state.policy)
        before = met.setdefault(state.policy.tobytes(), sweep)
        if before < sweep:
            period = sweep - before
            break
    values = np.array([world.values(policy, horizon=None) for policy in policies])
    return state, Info(np.array(policies), values, period)


def policy(params: State, world: Solvable, config: Config) -> Policy:
    """Returns the policy that was found."""
    return Policy(_act, jnp.asarray(params.policy, jnp.int32), draw=no_draws, observation=OBSERVATION)


def _act(actions: Int[Array, " states"], carry: Tree, cell: Integer, key: None) -> tuple[Int[Array, ""], Tree, None]:
    return actions[cell], carry, None


AGENT = Agent("policy_iteration", Config, State, init, train, policy, update, traceable=())
