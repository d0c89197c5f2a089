"""Temporal-difference learning of a policy's representation (the paper's appendix on policy evaluation).

    Φ(s, a) ← Φ(s, a) + α (target − Φ(s, a)),     a' ~ π(·|s'), the evaluated policy

The target depends on the depletion that the agent believes in. With Φ' = Φ(s', a') and λ one number or one for each
site, it is

    Geometric(λ)                  1_s ⊙ (1 + γλ Φ') + γ (1 − 1_s) ⊙ Φ'               the λR, definition 4.2
    EligibilityTrace(λ_d, λ_r)    1_s ⊙ (c − γλ_r (1 − λ_d) M') + γ Φ'               the paper's Ω, appendix J
    TotalTime(λ_d, λ_r)           min(1_s + γ (λ_d 1_s + q (1 − 1_s)) ⊙ Φ', cap)     the paper's P, appendix J

Ω is learned in alternation with M, the SR of discount γλ_r, as the paper proposes but does not work out; M' is the row
of M at (s', a') before the update. The constant c is worth(0): 1 for the paper's reward, and λ_d for its Ω, which also
counts the present visit. P need not be finite, so its target is clipped at `cap`, also as the paper proposes; q is
1/λ_r for the paper's reward and λ_r for its P.

Φ(s) of the states can be learned instead of Φ(s, a). The agent explores (ε), so its actions are not those of the
evaluated policy π: the error is weighted by π(a|s) / b(a|s), where b is the agent's behaviour. This makes the exact
answer the fixed point. Φ(s, a) needs no weight, because π draws a'.

Episodes start in every state in turn. Only the columns of the world's sites are learned unless `sites` says otherwise;
no column depends on another one.

    >>> import wane
    >>> world = wane.worlds.make("grid-6x6")
    >>> state, info = jax.jit(lambda key: train(key, world, Config(rows="state")))(jax.random.key(0))
    >>> exact = wane.lambda_representation(world.mdp.under(world.policies[0]), 0.5, discount=0.9, sites=world.sites)
    >>> bool(abs(state.phi - exact.matrix).max() < 1e-4)
    True
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy, dot, first_best, no_draws, sample_action, uniforms
from wane.agents.common.rollout import Transition, discount_of, play
from wane.agents.common.training import numbered
from wane.depletion import Depletion, Geometric
from wane.exact.bellman import bellman_target
from wane.exact.representations import check_parameters
from wane.mdp import check_policy, check_sites
from wane.mdp import probabilities as policy_probabilities
from wane.regrowth import EligibilityTrace, TotalTime
from wane.settings import Checked, Count, Discount, Positive, Probability, Range, Weight, renamed
from wane.types import AnyArray, Integer, PerSite, Scalar, Tree
from wane.worlds.observe import Seen
from wane.worlds.process import Solvable, Tabular, at_site, bootstrap_discount, numbered_sites

OBSERVATION = "index"
Row = Float[AnyArray, " sites"]


@renamed(form="rows")
@dataclass(frozen=True)
class Config(Checked):
    """The settings of TD. The defaults are the paper's for the 6 × 6 grid."""

    lam: Annotated[PerSite, Range(0, 1, "a λ")] = 0.5
    """fraction of a reward that a visit leaves, as the agent believes: one number, or one for each site"""
    depletion: Depletion | None = None
    """what the agent believes instead of a λ: a depletion that has a target in `TARGETS`"""
    policy: Any = 0
    """the evaluated policy, or its number among the world's own"""
    rows: Literal["state", "state-action"] = "state-action"
    """what Φ has a row for: each state, or each state and action"""
    sites: Any = None
    """states whose columns are learned; None takes the world's sites, "all" takes every state"""
    discount: Discount | None = None
    """γ; None takes the world's"""
    step_size: Weight = 0.1
    """α"""
    epsilon: Probability = 0.2
    """ε: probability of a uniformly random action in place of the policy's"""
    cap: Positive = 1e3
    """the largest target where the sum can be infinite (TotalTime)"""
    episodes: Count = 1500

    def rules(self) -> None:
        """Raises TypeError for a depletion that has no TD target."""
        if target_of(self.believed) is None:
            *most, last = [kind.__name__ for kind in TARGETS]
            raise TypeError(
                f"there is no TD target for {self.believed!r}: {', '.join(most)} and {last} have one; add yours to "
                "wane.agents.td.TARGETS. wane.representation evaluates every depletion exactly"
            )

    @property
    def believed(self) -> Depletion:
        """The depletion that the agent believes in."""
        return Geometric(self.lam) if self.depletion is None else self.depletion


class State(NamedTuple):
    """What the agent has learned."""

    phi: Float[AnyArray, "states *actions sites"]
    """Φ(s, ·), or Φ(s, a, ·)."""
    fading: Float[AnyArray, "states *actions sites"] | None = None
    """M, the SR of discount γλ_r, if the agent believes in an eligibility trace, else None."""


class Info(NamedTuple):
    """Measurements of each episode of training."""

    change: Float[Array, " episodes"]
    """The largest change of an entry of Φ."""
    measured: Any
    """What `measure` returned for the state after the episode."""


def trace_target(phi_next: Row, fading_next: Row, visited: Row, depletion: EligibilityTrace, discount: Scalar) -> Row:
    """The target of Ω: 1_s ⊙ (c − γλ_r (1 − λ_d) M') + γ Ω'."""
    lost = (1 - depletion.drop) * depletion.regrow * discount * fading_next
    return visited * (depletion.worth(0.0) - lost) + discount * phi_next


def total_time_target(phi_next: Row, visited: Row, depletion: TotalTime, discount: Scalar, cap: Scalar) -> Row:
    """The target of P: 1_s + γ (λ_d 1_s + q (1 − 1_s)) ⊙ P', clipped at `cap`."""
    factor = jnp.where(visited > 0, depletion.drop, depletion.growth)
    return jnp.minimum(visited + discount * factor * phi_next, cap)


def _geometric(rows_next: State, visited: Row, depletion: Any, discount: Scalar, cap: Scalar) -> State:
    return State(bellman_target(rows_next.phi, visited, depletion.common_ratio, discount))


def _trace(rows_next: State, visited: Row, depletion: EligibilityTrace, discount: Scalar, cap: Scalar) -> State:
    assert rows_next.fading is not None
    phi = trace_target(rows_next.phi, rows_next.fading, visited, depletion, discount)
    return State(phi, bellman_target(rows_next.fading, visited, 1.0, discount * depletion.regrow))


def _total_time(rows_next: State, visited: Row, depletion: TotalTime, discount: Scalar, cap: Scalar) -> State:
    return State(total_time_target(rows_next.phi, visited, depletion, discount, cap))


class Target(NamedTuple):
    """How TD learns the representation of a kind of depletion."""

    rows: Callable[[State, Row, Any, Scalar, Scalar], State]
    """The targets of the rows of (s_t, a_t), given the rows of (s_{t+1}, a'), 1_s, the depletion, γ and the cap."""
    fading: bool = False
    """Whether it needs a second table, M."""


TARGETS: dict[type[Depletion], Target] = {
    Geometric: Target(_geometric),
    EligibilityTrace: Target(_trace, fading=True),
    TotalTime: Target(_total_time),
}
"""The targets of kinds of depletions. Add that of your own: TARGETS[Mine] = Target(…)."""


def target_of(depletion: Depletion) -> Target | None:
    """The target of a depletion, or None if it has none. Whatever leaves the same fraction has that of the λR."""
    if depletion.common_ratio is not None:
        return TARGETS[Geometric]
    return next((TARGETS[kind] for kind in type(depletion).__mro__ if kind in TARGETS), None)


def targets(rows_next: State, visited: Row, depletion: Depletion, discount: Scalar, cap: Scalar) -> State:
    """The targets of the rows of (s_t, a_t), given the rows of (s_{t+1}, a')."""
    target = target_of(depletion)
    assert target is not None
    return target.rows(rows_next, visited, depletion, discount, cap)


def init(key: jax.Array, world: Tabular, config: Config) -> State:
    """Returns tables of zeros. Nothing is drawn from `key`."""
    columns = int(columns_of(world, config).max(initial=-1)) + 1
    check_parameters(config.believed, columns)
    middle = (world.n_actions,) if config.rows == "state-action" else ()
    phi = jnp.zeros((world.n_states, *middle, columns))
    target = target_of(config.believed)
    return State(phi, phi if target is not None and target.fading else None)


def update(
    state: State, data: Transition, world: Tabular, config: Config, key: Float[Array, " two"]
) -> tuple[State, State]:
    """Learns from one transition. Returns the new state and the TD errors.

    `key` holds two uniform numbers: the first has chosen the action, and the second chooses a'.
    """
    chances = probabilities(world, config)
    cell, next_cell = data.observation, data.next_observation
    next_action = sample_action(jnp.asarray(np.cumsum(chances, 1))[next_cell], key[1])
    now, then = (cell, data.action), (next_cell, next_action)
    step = config.step_size * data.live
    if config.rows == "state":
        now, then = now[:1], then[:1]
        step = step * jnp.asarray(importance_weights(chances, config))[cell, data.action]
    rows_next = jax.tree_util.tree_map(lambda table: table[then], state)
    visited = at_site(columns_of(world, config), cell, state.phi.shape[-1]).astype(state.phi.dtype)
    discount = bootstrap_discount(world, discount_of(world, config), cell, data.action)
    target = targets(rows_next, visited, config.believed, discount, config.cap)
    error = jax.tree_util.tree_map(lambda table, row: row - table[now], state, target)
    return jax.tree_util.tree_map(lambda table, row: table.at[now].add(step * row), state, error), error


def train(
    key: jax.Array,
    world: Tabular,
    config: Config,
    state: State | None = None,
    first: Integer = 0,
    episodes: int | None = None,
    *,
    measure: Callable[[State], Any] = lambda state: None,
) -> tuple[State, Info]:
    """Learns in episodes `first`, `first` + 1, …, by default as many as the configuration says.

    It is a pure function: `jit` it, `vmap` it over keys and λ. `measure(state)` is called after each of them.
    """
    state = init(key, world, config) if state is None else state
    chances = jnp.asarray(np.cumsum(behaviour(probabilities(world, config), config), 1), state.phi.dtype)

    def act(state, carry, cell, draws):
        return sample_action(chances[cell], draws[0]), carry, None

    def episode(state, number):
        explore = Policy(act, state, draw=uniforms(2), observation=OBSERVATION)
        after, _ = play(
            jax.random.fold_in(key, number),
            world,
            explore,
            start=jnp.asarray(number % world.n_states, jnp.int32),
            learn=lambda state, data, draws: update(state, data, world, config, draws)[0],
        )
        return after, Info(jnp.abs(after.phi - state.phi).max(), measure(after))

    return jax.lax.scan(episode, state, numbered(first, config.episodes if episodes is None else episodes))


def policy(params: State, world: Solvable, config: Config) -> Policy:
    """Returns the greedy policy: one improvement of the evaluated policy, for what remains of the rewards.

    With Φ(s) it acts on Σ_s' p(s'|s, a) Φ(s', ·). Raises ValueError if Φ is not that of the world's sites.
    """
    if not np.array_equal(columns_of(world, config), world.site_of):
        raise ValueError("only a Φ of the world's own sites tells what to do there: train with sites=None")
    phi = params.phi if config.rows == "state-action" else world.mdp.backup(np.asarray(params.phi))
    return Policy(_act, jnp.asarray(phi), draw=no_draws, observation="index+remaining")


def _act(
    phi: Float[Array, "states actions sites"], carry: Tree, observation: Seen, key: None
) -> tuple[Int[Array, ""], Tree, None]:
    return first_best(dot(phi[observation.view], observation.remaining)), carry, None


def columns_of(world: Tabular, config: Config) -> Int[np.ndarray, " states"]:
    """The number of the column that each state is counted in, −1 for a state that is counted in none."""
    if config.sites is None:
        return np.asarray(world.site_of)
    every = isinstance(config.sites, str) and config.sites == "all"
    return numbered_sites(check_sites(None if every else config.sites, world.n_states)[:, None], world.n_states)


def probabilities(world: Tabular, config: Config) -> Float[np.ndarray, "states actions"]:
    """π(a|s) of the evaluated policy. Raises ValueError if the world has no policy of that number."""
    policy = config.policy
    if np.ndim(policy) == 0:
        if policy not in range(len(world.policies)):
            raise ValueError(f"the world has {len(world.policies)} policies of its own, none with number {policy!r}")
        policy = world.policies[policy]
    policy = check_policy(policy, world.n_states, world.n_actions)
    return np.asarray(policy_probabilities(policy, world.n_actions), float)


def behaviour(chances: Float[np.ndarray, "states actions"], config: Config) -> Float[np.ndarray, "states actions"]:
    """b(a|s): the evaluated policy with a share ε of uniformly random actions."""
    return (1 - config.epsilon) * chances + config.epsilon / chances.shape[1]


def importance_weights(
    chances: Float[np.ndarray, "states actions"], config: Config
) -> Float[np.ndarray, "states actions"]:
    """π(a|s) / b(a|s), and 0 for actions that the agent never takes."""
    taken = behaviour(chances, config)
    return np.divide(chances, taken, out=np.zeros_like(chances), where=taken > 0)


AGENT = Agent("td", Config, State, init, train, policy, update, unit="episodes", by_site=True)
