"""Soft actor–critic, and λ-SAC: one critic that adapts its own pessimism (the paper's appendix on SAC).

Critics overestimate values, so SAC has two critics and uses the lower of their values. λ-SAC has one critic. Its target
treats rewards as if they wore off, with a λ that a bandit chooses for each episode:

    T Q(s_t, a_t) = r_t + γ (Q̄(s_{t+1}, a_{t+1}) + (λ − 1) wᵀ(φ(s_t, a_t) ⊙ φ_λ(s_{t+1}, a_{t+1})) − α log π)

Read the modules in this order:

| module | what it holds |
| --- | --- |
| `config` | the settings |
| `equations` | one function for each equation |
| `networks` | the policy, two critics and the λF |
| `training` | one update; what a step changes; kinds of agents as numbers |
| `acting` | the policy that takes its mean action, and the policy that draws its action |
| `programs` | compiled functions with which many agents act, remember and learn |
| `playing` | copies of the task, stepped by one process or by several |
| `fleet` | many agents, with the task on the host and the networks on the device; training |
| `costs` | FLOPs of an update, counted by the compiler |

`wane.agents.bandit` is the bandit, `wane.worlds.control` has the tasks. The paper has these kinds of agents:

| agent | `Config` |
| --- | --- |
| SAC with two critics | `Config(critics=2, adaptive=0, feature_weight=0)` |
| SAC with one critic | `Config(adaptive=0, feature_weight=0)` |
| x-SAC, with a fixed λ | `Config(adaptive=0, lam=x)` |
| λ-SAC | `Config()` |

Where we differ from the paper: it does not say which network gives the φ_λ in the target. Here the target network does,
in the λF's own target too. The λF and the critics are separate networks, and w is solved for with a small ridge.

    >>> from wane.worlds.control import Task
    >>> task, config = Task("Pendulum-v1"), Config(epochs=20, random_steps=500, learning_rate=1e-3, memory=20_000)
    >>> config.epochs * config.steps, task.n_observations, task.n_actions
    (20000, 3, 1)

    state, info = train(jax.random.key(0), task, config)
    info.greedy       # returns of the evaluations
"""

from wane.agents.common.contract import Agent
from wane.agents.sac.acting import policy, sampled_policy
from wane.agents.sac.config import Config
from wane.agents.sac.costs import update_flops
from wane.agents.sac.fleet import Fleet, Info, train
from wane.agents.sac.networks import Critics
from wane.agents.sac.training import Batch, State, Terms, Variant, init, learn, remember, update, variant_of

AGENT = Agent("sac", Config, State, init, train, policy, update, unit="epochs", traceable=("init",))

__all__ = [
    "Batch",
    "Config",
    "Critics",
    "Fleet",
    "Info",
    "State",
    "Terms",
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
