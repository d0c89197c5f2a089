"""Recurrent advantage actor–critic with a λF critic (the paper's section 5.2, figure 5.2 on the right).

An LSTM has three heads: the policy, the value V and the λF φ_λ of one-hot states. The value's target takes into account
that rewards wear off:

    T_λ V(s_t) = r_t + γ (V(s_{t+1}) + (λ − 1) wᵀ(φ(s_t) ⊙ φ_λ(s_{t+1})))

Read the modules in this order:

| module | what it holds |
| --- | --- |
| `config` | the settings |
| `equations` | one function for each equation, of one trajectory |
| `networks` | the LSTM and its heads |
| `acting` | what the agent sees; the greedy policy and the policy that draws its actions |
| `training` | sequences, targets, the loss, training |
| `probing` | the error of the learned λF against the exact one |

JAX may trace λ, the weight of the λF's loss, and whether there is a correction, the LSTM keeps its state and the agent
sees what remains of the rewards, so one program trains agents that differ in them. `Config(correction=False,
feature_weight=0)` is plain A2C. In `Config(correction=False)` the λF is only an auxiliary task.

    >>> import jax
    >>> from wane.worlds import make
    >>> world, config = make("toy"), Config(hidden=8, length=10, epochs=2, updates=5)
    >>> state, info = jax.jit(lambda key: train(key, world, config))(jax.random.key(0))
    >>> state.params.features.weight.shape, info.greedy.shape, info.sampled.shape
    ((8, 15), (2,), (2,))
"""

from wane.agents.a2c.acting import Moment, policy, sampled_policy, watched
from wane.agents.a2c.config import Config
from wane.agents.a2c.networks import LSTMState, Output, Params
from wane.agents.a2c.probing import feature_error
from wane.agents.a2c.training import Info, Sequences, State, Terms, collect, evaluate, init, loss, train, update
from wane.agents.common.contract import Agent
from wane.lazy import attach

AGENT = Agent("a2c", Config, State, init, train, policy, update, unit="epochs")

__all__ = [
    "Config",
    "Info",
    "LSTMState",
    "Moment",
    "Output",
    "Params",
    "Sequences",
    "State",
    "Terms",
    "collect",
    "evaluate",
    "feature_error",
    "init",
    "loss",
    "policy",
    "sampled_policy",
    "train",
    "update",
    "watched",
]

__getattr__, __dir__ = attach(__name__, {"Batch": "wane.agents.a2c.Sequences", "Memory": "wane.agents.a2c.LSTMState"})
