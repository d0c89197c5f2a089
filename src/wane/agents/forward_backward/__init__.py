"""λO-FB: the λ operator by forward–backward learning (the paper's section 6 and Algorithm 3).

It learns Φ_λ of all policies π_z of a family together, before any reward is known, as

    Φ_λ^{π_z}(s, a, s') ≈ F(s, a, z)ᵀ B(s') μ(s')
    π_z(·|s) = softmax(F(s, ·, z)ᵀ z / τ)

Rewards r select the policy of z_R = Σ_s μ(s) r(s) B(s), whose Q_λ is F(s, a, z_R)ᵀ z_R. As rewards wear off, z_R is
computed again at every step from what remains. Read the modules in this order:

| module | what it holds |
| --- | --- |
| `model` | the settings, F, B, z and the policy π_z |
| `training` | the four terms of the loss, collecting, gradient steps, epochs |
| `acting` | the policy; acting under another λ |
| `lambda_learning` | λ from rewards, by Adam and in closed form |
| `probing` | the error against the exact Φ |
| `tasks` | random tasks to test on |

Where we differ: taken literally, the paper's table means 2,500 gradient steps (`LITERAL`), which are too few to learn.
The default is the schedule of forward–backward learning, on which the paper builds: 100,000 steps.

    world, config = make("four-rooms", threshold=None, wall_penalty=0.0, horizon=50), Config(lam=0.5)
    state, info = jax.jit(lambda key: train(key, world, config))(jax.random.key(0))
    tasks = sample_tasks(jax.random.key(1), world, 10, goals=2)
    undiscounted_returns(world, policy(state.params, world, config), tasks)
"""

from wane.agents.common.contract import Agent
from wane.agents.forward_backward.acting import conditioned_policy, equivalent_policy, policy
from wane.agents.forward_backward.lambda_learning import estimate
from wane.agents.forward_backward.model import LITERAL, Config, Params, Schedule
from wane.agents.forward_backward.probing import exact_representation, learned_representation, misfit
from wane.agents.forward_backward.tasks import Tasks, sample_tasks, undiscounted_returns
from wane.agents.forward_backward.training import Info, State, init, train, update
from wane.lazy import attach

AGENT = Agent("forward_backward", Config, State, init, train, policy, update, unit="epochs")

__all__ = [
    "LITERAL",
    "Config",
    "Info",
    "Params",
    "Schedule",
    "State",
    "Tasks",
    "conditioned_policy",
    "equivalent_policy",
    "estimate",
    "exact_representation",
    "init",
    "learned_representation",
    "misfit",
    "policy",
    "sample_tasks",
    "train",
    "undiscounted_returns",
    "update",
]

__getattr__, __dir__ = attach(__name__, {"draw_tasks": "wane.agents.forward_backward.sample_tasks"})
