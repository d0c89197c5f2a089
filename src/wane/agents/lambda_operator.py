"""The exact λ operator of a known world: a policy and its Q_λ for any rewards, in two linear solves.

λO-FB (`wane.agents.forward_backward`) learns, from samples, a policy for every reward and the Φ_λ of this policy. If
the world's kernel is known, one linear solve gives the Φ_λ of any policy, and nothing is left to learn:

    π₀ is uniform,   π_{k+1}(·|s) = softmax(Q_k(s, ·) / (τ max |Q_k|)),   Q_k(s, a) = Σ_s' Φ^{π_k}(s, a, s') r(s')

An agent takes argmax_a Q_K(s, a), where r is what remains of the rewards at every step. With K = 0 it takes the action
that is best if a random walk follows. K = 1 is one improvement, and costs one more solve.

Two points explain the difference from λO-FB (the experiment `lambda-operator`). With γ = 0.99 the values of two actions
differ by about 1 % of their size, so a small relative error of a learned Φ can hide the best action; here Φ is exact.
And the temperature τ is relative to the largest value, so policies do not depend on the unit of the rewards. With an
absolute temperature the policies of small rewards are nearly uniform, and a large reward far away is not found. More
sweeps are not always better: greedy improvement on Q_λ need not converge (`wane.agents.policy_iteration`).

The solve takes a dense matrix of all states, so this agent is for worlds of up to a few thousand states.

    >>> from wane.worlds import make
    >>> from wane.agents.common.rollout import play
    >>> from wane.depletion import Geometric
    >>> world, config = make("asymmetric", depletion=Geometric(1.0), discount=1.0), Config(lam=1.0)
    >>> agent = policy(init(jax.random.key(0), world, config), world, config)
    >>> float(play(jax.random.key(0), world, agent)[1].rewards.sum())
    276.0
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy, no_draws
from wane.agents.forward_backward.tasks import all_rewards
from wane.exact.representations import lambda_representation
from wane.limits import require_memory
from wane.mdp import MDP
from wane.settings import Checked, Positive, Range
from wane.types import Integer, PerSite, Scalar, Tree
from wane.worlds.observe import Seen
from wane.worlds.process import Solvable, single_states

OBSERVATION = "index+remaining"
TINY = 1e-30
"""Added to a divisor, so that nothing is divided by 0."""
Table = Float[Array, "states actions"]


@dataclass(frozen=True)
class Config(Checked):
    """The settings of the λ operator."""

    lam: Annotated[PerSite, Range(0, 1, "a λ")] | None = None
    """λ as the agent believes, one number or one for each state; None takes the world's own"""
    discount: Annotated[Scalar, Range(0, 0.999999)] = 0.99
    """γ"""
    temperature: Positive = 0.005
    """τ, relative to the largest value"""
    sweeps: Annotated[Integer, Range(0, 1_000)] = 1
    """K: improvements of the policy before an action is chosen; each takes one solve"""


class State(NamedTuple):
    """The kernel of the world, and λ."""

    transitions: Float[Array, "states actions states"]
    lam: Float[Array, "*states"]


def init(key: jax.Array, world: Solvable, config: Config) -> State:
    """Returns the world's kernel as a dense array, and λ. Nothing is drawn from `key`.

    Raises ValueError if the kernel needs too much memory, or if the world's rewards do not wear off by a λ.
    """
    n = world.n_states
    cure = "take a smaller world, or evaluate policies with wane.representation, which keeps sparse kernels sparse"
    require_memory("the kernel of every action", (n, "states"), (n, "states"), copies=world.n_actions + 3, cure=cure)
    lam = lam_of(world) if config.lam is None else config.lam
    return State(jnp.asarray(world.mdp.dense(), float), jnp.asarray(lam, float))


def lam_of(world: Solvable) -> Any:
    """The world's λ: one number, or one for each state. Raises ValueError if its rewards do not wear off by a λ."""
    if world.depletion.common_ratio is None:
        raise ValueError(f"the rewards of this world wear off as {world.depletion}: give Config a lam, such as 0.5")
    lam = jnp.asarray(world.depletion.common_ratio, float)
    return lam if lam.ndim == 0 else jnp.ones(world.n_states).at[single_states(world, "a λ for each of them")].set(lam)


def train(key: jax.Array, world: Solvable, config: Config, state: State | None = None) -> tuple[State, None]:
    """Returns the state of `init` and None: there is nothing to learn."""
    return init(key, world, config) if state is None else state, None


def q_values(state: State, chances: Table, rewards: Float[Array, " states"], discount: Scalar) -> Table:
    """The exact Q_λ(s, a) of a policy."""
    mdp = MDP(state.transitions)
    with jax.default_matmul_precision("highest"):  # A GPU would round factors to ten bits.
        phi = lambda_representation(mdp.under(chances), state.lam, discount=discount)
        return jnp.asarray(phi.q_values(mdp, rewards))


def improve(q: Table, temperature: Scalar) -> Table:
    """The softmax policy of some values, with a temperature relative to the largest |Q|."""
    return jax.nn.softmax(q / (temperature * (jnp.abs(q).max() + TINY)))


def operate(state: State, rewards: Float[Array, " states"], config: Config) -> tuple[Table, Table]:
    """The policy π_K of some rewards, and its Q."""
    states, actions = state.transitions.shape[:2]
    solve = partial(q_values, state, rewards=rewards, discount=config.discount)

    def sweep(_: Any, chances: Table) -> Table:
        return improve(solve(chances), config.temperature)

    uniform = jnp.full((states, actions), 1 / actions, state.transitions.dtype)
    chances = jax.lax.fori_loop(0, config.sweeps, sweep, uniform)
    return chances, solve(chances)


def policy(params: State, world: Solvable, config: Config) -> Policy:
    """Returns the greedy policy on the Q of what remains of the rewards."""
    return Policy(partial(_act, world, config), params, draw=no_draws, observation=OBSERVATION)


def _act(
    world: Solvable, config: Config, state: State, carry: Tree, observation: Seen, key: None
) -> tuple[Any, Tree, None]:
    _, q = operate(state, all_rewards(world, observation.remaining), config)
    return jnp.argmax(q[observation.view]).astype(jnp.int32), carry, None


AGENT = Agent("lambda_operator", Config, State, init, train, policy)
