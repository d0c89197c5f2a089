"""Soft actor–critic, and λ-SAC: one critic that adapts its own pessimism (the paper's appendix on SAC).

Critics overestimate values, so SAC has two critics and uses the lower of their values. λ-SAC has one critic. Its target
treats rewards as if they wore off, with a λ that a bandit chooses for each episode:

    T Q(s_t, a_t) = r_t + γ (Q̄(s_{t+1}, a_{t+1}) + (λ − 1) wᵀ(φ(s_t, a_t) ⊙ φ_λ(s_{t+1}, a_{t+1})) − α log π)

| module | what it holds |
| --- | --- |
| `config` | the settings |
| `equations` | one function for each equation |
| `algorithm` | the algorithm from top to bottom: networks, targets, one update, the policy |
| `learners` | machinery: many agents at once, compiled programs, training, the costs of an update |
| `players` | machinery: copies of the task, stepped by one process or by several |

`wane.agents.bandit` is the bandit, `wane.worlds.control` has the tasks. The paper has these kinds of agents:

| agent | `Config` |
| --- | --- |
| SAC with two critics | `Config(critics=2, adaptive=False, lambda_features=False)` |
| SAC with one critic | `Config(adaptive=False, lambda_features=False)` |
| x-SAC, with a fixed λ | `Config(adaptive=False, lam=x)` |
| λ-SAC | `Config()` |

Where we differ from the paper: it does not say which network gives the φ_λ in the target. Here the target network does,
in the λF's own target too. The λF and the critics are separate networks, and w is solved for with a small ridge.

    >>> from wane.worlds.control import ControlTask
    >>> task = ControlTask("Pendulum-v1")
    >>> config = Config(epochs=20, random_steps=500, learning_rate=1e-3, replay=20_000)
    >>> config.epochs * config.steps, task.n_observations, task.n_actions
    (20000, 3, 1)

    state, info = train(jax.random.key(0), task, config)
    info.greedy       # returns of the evaluations
"""

from wane.agents.common.contract import Agent
from wane.agents.sac.algorithm import (
    Critics,
    State,
    Terms,
    Transitions,
    init,
    learn,
    policy,
    remember,
    sampled_policy,
    update,
)
from wane.agents.sac.config import Config
from wane.agents.sac.learners import Info, Learners, Variant, train, update_flops, variant_of
from wane.lazy import attach

AGENT = Agent("sac", Config, State, init, train, policy, update, unit="epochs", traceable=("init",))

__all__ = [
    "Config",
    "Critics",
    "Info",
    "Learners",
    "State",
    "Terms",
    "Transitions",
    "Variant",
    "init",
    "learn",
    "policy",
    "remember",
    "sampled_policy",
    "train",
    "update",
    "update_flops",
    "variant_of",
]

RENAMED = {"Batch": "wane.agents.sac.Transitions", "Fleet": "wane.agents.sac.Learners"}
__getattr__, __dir__ = attach(__name__, RENAMED)
