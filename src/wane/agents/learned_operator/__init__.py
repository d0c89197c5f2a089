"""A λ operator that is trained on exact targets: a network maps any rewards to the Φ_λ of the policy for these rewards.

λO-FB (`wane.agents.forward_backward`) bootstraps its targets from samples, and defines its policies by its own Q. This
agent differs in three points, which make it reach the optimum where λO-FB does not (experiment `learned-operator`):

    The random walk's Q defines the policy of r:    π_r(·|s) = softmax(Q⁰_r(s, ·) / (τ max |Q⁰_r|))
    The network corrects the random walk's Φ:       Φ_r(s, s') = Φ⁰(s, s') exp(f_r(s, s'))
    Its target is the exact Φ of π_r, and a part of the loss measures the differences of Q between actions.

Policies do not depend on the network, so training is plain regression. The temperature τ is relative, so policies do
not depend on the unit of the rewards. With γ = 0.99 the values of two actions differ by about 1 % of their size: errors
that all actions share do no harm, but errors of the differences do. Read the modules in this order:

| module | what it holds |
| --- | --- |
| `config` | the settings |
| `solving` | the exact Φ_λ of a policy, by products of matrices |
| `networks` | the network, and the policy and the Φ of some rewards |
| `training` | random tasks, the loss, gradient steps |
| `acting` | the policy |

The kernel is the world's own, or is estimated by counting the transitions of a random walk (`Config.episodes`). All
arrays are dense, so this agent is for worlds of up to a few hundred states.
"""

from wane.agents.common.contract import Agent
from wane.agents.learned_operator.acting import policy
from wane.agents.learned_operator.config import Config
from wane.agents.learned_operator.networks import Params, operate
from wane.agents.learned_operator.training import Info, State, init, misfit, misfits, train, update

AGENT = Agent("learned_operator", Config, State, init, train, policy, update, unit="epochs")

__all__ = ["Config", "Info", "Params", "State", "init", "misfit", "misfits", "operate", "policy", "train", "update"]
