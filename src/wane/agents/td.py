"""Temporal-difference learning of a policy's representation (the paper's appendix on policy evaluation).

    Φ(s, a) ← Φ(s, a) + α δ,     δ = target − Φ(s, a),     a' ~ π(·|s'), the evaluated policy

What the target is depends on the depletion that the agent believes in; Φ' = Φ(s', a'), and λ is one number or one for
each site:

    Geometric(λ)                  1_s ⊙ (1 + γλ Φ') + γ (1 − 1_s) ⊙ Φ'               the λR, definition 4.2
    EligibilityTrace(λ_d, λ_r)    1_s ⊙ (c − γλ_r (1 − λ_d) M') + γ Φ'               the paper's Ω, appendix J
    TotalTime(λ_d, λ_r)           min(1_s + γ (λ_d 1_s + q (1 − 1_s)) ⊙ Φ', cap)     the paper's P, appendix J

The second is learned by alternating with M, the SR of discount γλ_r, as the paper proposes and leaves open; M' is M
before the step. c is worth(0): 1 for the paper's reward, λ_d for its Ω, which also counts the present visit. The third
need not be finite, so its target is cut off, also as proposed; q is 1/λ_r for the paper's reward and λ_r for its P.

The state form, Φ(s), is learned beside the state–action form. As the agent explores around the policy (ε), what it sees
is not what the policy does: the error is weighted by π(a|s) / b(a|s), b being how it acts, which makes the exact answer
the fixed point. The state–action form needs no weight, as a' is the policy's own.

Episodes start in every state in turn. Only the columns of the world's sites are learned unless `sites` says otherwise;
columns never look at each other, so the rest is the same.

    >>> import wane
    >>> world = wane.worlds.make("grid-6x6")
    >>> state, info = jax.jit(lambda key: train(key, world, Config(form="state")))(jax.random.key(0))
    >>> exact = wane.lambda_representation(world.mdp.under(world.policies[0]), 0.5, discount=0.9, sites=world.sites)
    >>> bool(abs(state.phi - exact.matrix).max() < 1e-4)
    True
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wane.agents.episode import Transition, discount_of, play
from wane.depletion import Depletion, Geometric, check_range
from wane.exact.iterate import operator
from wane.exact.representation import check_parameters
from wane.mdp import check_policy, check_sites
from wane.regrowth import EligibilityTrace, TotalTime
from wane.worlds.world import World


@dataclass(frozen=True)
class Config:
    """The paper's settings for the 6 × 6 grid."""

    lam: Any = 0.5
    """fraction of a reward that a visit leaves, as the agent believes: one number, or one for each site"""
    depletion: Depletion | None = None
    """what it believes instead: an EligibilityTrace or a TotalTime"""
    policy: Any = 0
    """the evaluated policy, or its number among the world's own"""
    form: Literal["state", "state-action"] = "state-action"
    sites: Any = None
    """states whose columns are learned; None: the world's sites, "all": every state"""
    discount: float | None = None
    """γ; None: the world's"""
    step_size: float = 0.1
    epsilon: float = 0.2
    """probability of a uniformly random action in place of the policy's"""
    cap: float = 1e3
    """the most that a target may be where the sum can be infinite (TotalTime)"""
    episodes: int = 1500

    def __post_init__(self):
        if not isinstance(self.believed, Geometric | EligibilityTrace | TotalTime):
            raise TypeError(
                f"there is no TD target for {self.believed!r}: Geometric, EligibilityTrace and TotalTime have one; "
                "wane.representation evaluates every depletion exactly"
            )
        if self.form not in ("state", "state-action"):
            raise ValueError(f'form is "state" or "state-action", got {self.form!r}')
        check_range("step_size", self.step_size, 0, 1, "it is the weight of one sample")
        check_range("epsilon", self.epsilon, 0, 1, "it is a probability")

    @property
    def believed(self) -> Depletion:
        return Geometric(self.lam) if self.depletion is None else self.depletion


class State(NamedTuple):
    phi: Any
    """Φ: (states, sites), or (states, actions, sites)"""
    fading: Any = None
    """the SR of discount γλ_r, of the same shape, where an eligibility trace is learned"""


class Info(NamedTuple):
    change: Any
    """the largest change of an entry of Φ in each episode"""
    measured: Any
    """what `measure` made of the state after each episode"""


def trace_target(ahead: Any, fading_ahead: Any, here: Any, depletion: EligibilityTrace, discount: Any) -> Any:
    """Ω's: here ⊙ (c − γλ_r (1 − λ_d) M') + γ Ω'."""
    lost = (1 - depletion.drop) * depletion.regrow * discount * fading_ahead
    return here * (depletion.worth(0.0) - lost) + discount * ahead


def total_time_target(ahead: Any, here: Any, depletion: TotalTime, discount: Any, cap: Any) -> Any:
    """P's: here + γ (λ_d here + q (1 − here)) ⊙ P', cut off."""
    factor = jnp.where(here > 0, depletion.drop, depletion.growth)
    return jnp.minimum(here + discount * factor * ahead, cap)


def targets(ahead: State, here: Any, depletion: Depletion, discount: Any, cap: Any) -> State:
    """What the rows of one state, or of one state and action, should be, by the rows of the next."""
    if isinstance(depletion, EligibilityTrace):
        phi = trace_target(ahead.phi, ahead.fading, here, depletion, discount)
        return State(phi, operator(ahead.fading, here, 1.0, discount * depletion.regrow))
    if isinstance(depletion, TotalTime):
        return State(total_time_target(ahead.phi, here, depletion, discount, cap))
    assert isinstance(depletion, Geometric)
    return State(operator(ahead.phi, here, depletion.lam, discount))


def init(key: jax.Array, world: World, config: Config) -> State:
    """Zeros; nothing is drawn from `key`."""
    sites = sites_of(world, config)
    check_parameters(config.believed, len(sites))
    middle = (world.n_actions,) if config.form == "state-action" else ()
    phi = jnp.zeros((world.n_states, *middle, len(sites)))
    return State(phi, phi if isinstance(config.believed, EligibilityTrace) else None)


def update(state: State, t: Transition, next_action: Any, world: World, config: Config, weight: Any = 1.0) -> State:
    """One transition; `weight` is π(a|s) / b(a|s) in the state form."""
    now, then = (t.cell, t.action), (t.next_cell, next_action)
    if config.form == "state":
        now, then = now[:1], then[:1]
    ahead = jax.tree_util.tree_map(lambda table: table[then], state)
    here = (t.cell == sites_of(world, config)).astype(state.phi.dtype)
    target = targets(ahead, here, config.believed, discount_of(world, config), config.cap)
    step = config.step_size * weight * t.live
    return jax.tree_util.tree_map(lambda table, row: table.at[now].add(step * (row - table[now])), state, target)


def train(
    key: jax.Array,
    world: World,
    config: Config,
    state: State | None = None,
    first: Any = 0,
    episodes: int | None = None,
    *,
    measure: Callable[[State], Any] = lambda state: None,
) -> tuple[State, Info]:
    """Episodes `first`, `first` + 1, …, each with a key of its own: in parts it comes to the same as at once.

    A pure function: `jit` it, `vmap` it over keys and λ.
    """
    state = init(key, world, config) if state is None else state
    evaluated = _probabilities(world, config).astype(state.phi.dtype)
    behaviour = (1 - config.epsilon) * evaluated + config.epsilon / world.n_actions
    weights = evaluated / behaviour if config.form == "state" else jnp.ones_like(evaluated)
    next_action, action = jnp.cumsum(evaluated, axis=1), jnp.cumsum(behaviour, axis=1)

    def act(_, cell, left, draws):
        return choose(action[cell], draws[0])

    def learn(state, t, draws):
        return update(state, t, choose(next_action[t.next_cell], draws[1]), world, config, weights[t.cell, t.action])

    def episode(state, e):
        begin = jnp.asarray(e % world.n_states, jnp.int32)
        after, _ = play(jax.random.fold_in(key, e), world, act, state, learn, start=begin, draws=2)
        return after, Info(jnp.abs(after.phi - state.phi).max(), measure(after))

    return jax.lax.scan(episode, state, first + jnp.arange(config.episodes if episodes is None else episodes))


def choose(cumulative: jax.Array, draw: Any) -> jax.Array:
    """An action by its cumulative chances and one uniform number."""
    return jnp.sum(draw >= cumulative[:-1]).astype(jnp.int32)


def sites_of(world: World, config: Config) -> np.ndarray:
    """The states whose columns are learned."""
    if config.sites is None:
        return world.sites
    every = isinstance(config.sites, str) and config.sites == "all"
    return check_sites(None if every else config.sites, world.n_states)


def _probabilities(world: World, config: Config) -> jax.Array:
    """π(a|s) of the evaluated policy."""
    policy = config.policy
    if np.ndim(policy) == 0:
        if policy not in range(len(world.policies)):
            raise ValueError(f"the world has {len(world.policies)} policies of its own, none with number {policy!r}")
        policy = world.policies[policy]
    policy = check_policy(policy, world.n_states, world.n_actions)
    return jnp.asarray(policy) if policy.ndim == 2 else jax.nn.one_hot(policy, world.n_actions)
