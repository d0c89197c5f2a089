"""A λ operator that is trained on exact targets: a network that gives Φ_λ of the policy of any rewards.

λO-FB (`wane.agents.forward_backward`) bootstraps its targets from samples, and names policies by their own Q. Three
things differ in this one. They make it reach the optimum where λO-FB does not (experiment `learned-operator`):

    Rewards name a policy by the random walk's Q:   π_r(·|s) = softmax(Q⁰_r(s, ·) / (τ max |Q⁰_r|))
    The network corrects the random walk's Φ:       Φ_r(s, s') = Φ⁰(s, s') exp(f_r(s, s'))
    It follows the exact Φ of π_r, and a part of the loss is about the differences of Q between actions.

Policies do not depend on the network, so training is plain regression. The temperature τ is relative, so they do not
depend on the unit of the rewards. And with γ = 0.99 the values of two actions differ by about 1 % of their size: errors
that all actions share do no harm, and errors of the differences do. Read the modules in this order:

| module | what it holds |
| --- | --- |
| `config` | the settings |
| `solving` | the exact Φ_λ of a policy, by products of matrices |
| `networks` | the network, and the policy and the Φ of some rewards |
| `training` | random tasks, the loss, gradient steps |
| `acting` | the policy |

The kernel is the world's own, or one that is counted from a random walk (`Config.episodes`). All arrays are dense, so
this agent is for worlds of up to a few hundred states.
"""

from wane.agents.learned_operator.acting import policy
from wane.agents.learned_operator.config import Config
from wane.agents.learned_operator.networks import Params, operate
from wane.agents.learned_operator.training import Info, State, init, misfit, misfits, train, update

__all__ = ["Config", "Info", "Params", "State", "init", "misfit", "misfits", "operate", "policy", "train", "update"]
