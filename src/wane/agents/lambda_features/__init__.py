"""λ-features: the λ representation of learned features, for worlds that are seen in pixels (the paper's λF).

Base features φ ∈ [0, 1]^D come from `wane.agents.laplacian`. The λF of a policy is the discounted sum of its future
features, each of which wears off as it is collected:

    φ_λ(s, a) = φ(s) ⊙ (1 + γλ E φ_λ(s', a')) + γ (1 − φ(s)) ⊙ E φ_λ(s', a')

Rewards are φ w, and policies are composed by GPI on wᵀφ_λ. Read the modules in this order:

| module | what it holds |
| --- | --- |
| `config` | the settings |
| `networks` | φ_θ, its target and its loss, the weights w of the rewards |
| `fitting` | fitted iteration (the paper's Algorithm 2), and TD along episodes |
| `acting` | the policy |

The exact λF of any features of a tabular world is `wane.lambda_features`.

    world = make("four-rooms", horizon=50)
    state, info = train(jax.random.key(0), world, Config(lam=0.5))
    play(jax.random.key(1), world, policy(state.params, world, Config(lam=0.5)))
"""

from wane.agents.common.contract import Agent
from wane.agents.lambda_features.acting import composed, policy, q_values
from wane.agents.lambda_features.config import Config
from wane.agents.lambda_features.fitting import Info, all_features, fit_iteration, prepare, train, train_each, with_base
from wane.agents.lambda_features.networks import (
    Examples,
    Params,
    State,
    feature_table,
    fit_weights,
    init,
    loss,
    projection,
    targets,
    update,
)
from wane.lazy import attach

AGENT = Agent("lambda_features", Config, State, init, train, policy, update, traceable=("init",), by_site=True)

__all__ = [
    "Config",
    "Examples",
    "Info",
    "Params",
    "State",
    "all_features",
    "composed",
    "feature_table",
    "fit_iteration",
    "fit_weights",
    "init",
    "loss",
    "policy",
    "prepare",
    "projection",
    "q_values",
    "targets",
    "train",
    "train_each",
    "update",
    "with_base",
]

RENAMED = {"Batch": "wane.agents.lambda_features.Examples", "many": "wane.agents.lambda_features.train_each"}
__getattr__, __dir__ = attach(__name__, RENAMED)
