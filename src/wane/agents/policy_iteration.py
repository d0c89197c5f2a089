"""Policy iteration on Q_λ, with exact evaluation.

    evaluate    Q(s, a) = Φ^π(s, a, ·) · r̄              (`wane.representation`, any depletion)
    improve     π(s) ← argmax_a Q(s, a)

r̄ are fresh rewards: no site was visited yet. With rewards that never wear off (λ = 1) each sweep improves the policy
and the sequence ends in an optimal one. With rewards that do, it need not: Q says what one deviation is worth, now and
never again, from fresh rewards, while a policy deviates wherever it goes, and its earlier visits have left less. A
sweep can make the policy worse, and the sequence can go round in a circle. In TwoRooms, FourRooms and the toy with one
λ throughout it does so for every λ tried up to 0.95, ½ among them; with λ = 0.999 and 1 it converges. `train` says
what happened: `period` is 1 if the last policy repeats itself, and otherwise the length of the circle.

Of equally good actions the present one is kept, else the first is taken, so that rounding starts no circle. Where
walls cost something, that never wears off, and Q counts it.

    >>> from wane.worlds import make
    >>> world = make("toy")
    >>> train(jax.random.key(0), world, Config())[1].converged
    True
    >>> train(jax.random.key(0), world, Config(depletion=Geometric(0.5)))[1].period
    3
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from wane.depletion import Depletion, Geometric
from wane.exact.representation import evaluate, representation
from wane.mdp import check_policy
from wane.worlds.world import World

TIE = 1e-9
"""actions within this fraction of the largest value are equally good"""


@dataclass(frozen=True)
class Config:
    depletion: Depletion | None = None
    """what the agent believes; None: the world's own"""
    timing: Literal["departure", "arrival"] = "departure"
    """Q = Φ(s, a, ·) · r̄, which counts the present state, or E Φ(s', ·) · r̄, which fits worlds that pay on arrival"""
    policy: Any = None
    """the first policy; None: random actions"""
    sweeps: int = 1000
    """the most sweeps"""

    def __post_init__(self):
        if self.timing not in ("departure", "arrival"):
            raise ValueError(f'timing is "departure" (the paper) or "arrival" (as worlds pay), got {self.timing!r}')


class State(NamedTuple):
    policy: np.ndarray
    """an action for each state"""


class Info(NamedTuple):
    policies: np.ndarray
    """every policy on the way, the first included: (sweeps + 1, states)"""
    values: np.ndarray
    """what each of them earns in the world from each state, by `World.values`: (sweeps + 1, states)"""
    period: int
    """1: converged; more: the length of the circle that the last policies go round in; 0: neither was seen yet"""

    @property
    def converged(self) -> bool:
        return self.period == 1


def q_values(policy: np.ndarray, world: World, config: Config) -> np.ndarray:
    """Q of a policy on fresh rewards, (states, actions): what the sites pay, less what bumping costs."""
    mdp, kernel = world.mdp, world.mdp.under(policy)
    believed = world.depletion if config.depletion is None else config.depletion
    phi = representation(kernel, believed, discount=world.discount, sites=world.sites)
    q = phi.q_values(mdp, world.rewards) if config.timing == "departure" else mdp.backup(phi.values(world.rewards))
    if world.wall_penalty == 0:
        return q
    cost = world.wall_penalty * (1 - world.slip) * world.map.bumps(world.n_actions)
    own = np.arange(world.n_states)
    to_come = evaluate(kernel, cost[own, policy], Geometric(1.0), discount=world.discount)
    return q - cost - world.discount * mdp.backup(to_come)


def improve(policy: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The greedy policy; where the present action is as good as any, it stays."""
    best = q.max(1)
    good = q >= best[:, None] - TIE * np.abs(q).max(initial=0.0)
    stays = good[np.arange(len(policy)), policy]
    return np.where(stays, policy, good.argmax(1))


def init(key: jax.Array, world: World, config: Config) -> State:
    """The policy to begin with."""
    if config.policy is None:
        return State(np.asarray(jax.random.randint(key, (world.n_states,), 0, world.n_actions), np.int64))
    policy = np.asarray(check_policy(config.policy, world.n_states, world.n_actions))
    return State(policy.astype(np.int64) if policy.ndim == 1 else policy.argmax(1))


def update(state: State, world: World, config: Config) -> State:
    """One sweep."""
    return State(improve(state.policy, q_values(state.policy, world, config)))


def train(
    key: jax.Array, world: World, config: Config, state: State | None = None, sweeps: int | None = None
) -> tuple[State, Info]:
    """Sweeps until a policy comes back, or until there were enough; going on from `state` comes to the same."""
    state = init(key, world, config) if state is None else state
    policies, seen, period = [state.policy], {state.policy.tobytes(): 0}, 0
    for sweep in range(1, 1 + (config.sweeps if sweeps is None else sweeps)):
        state = update(state, world, config)
        policies.append(state.policy)
        met = seen.setdefault(state.policy.tobytes(), sweep)
        if met < sweep:
            period = sweep - met
            break
    return state, Info(np.array(policies), np.array([world.values(policy) for policy in policies]), period)
