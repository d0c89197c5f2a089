"""The contract of all agents. Copy this list to write a new one.

An agent is a module of `wane.agents` with

| name | what it is |
| --- | --- |
| `Config` | a frozen dataclass: the only place where its settings stand |
| `State` | a NamedTuple of arrays: all that learning goes on from |
| `init(key, world, config)` | the first `State` |
| `update(state, data, world, config, key)` | learns from one transition or one batch: (new state, what it tells) |
| `train(key, world, config, state=None, first=0, …)` | the whole of training, a pure function: (state, what it tells) |
| `policy(params, world, config)` | the greedy `Policy`, which any roll-out can play |

`params` is the part of the `State` that acting needs: the field of that name where there is one, else the whole
`State`. It is what `Trained(agent, world, config, params).save(folder)` writes.

Training can be divided: part p of it uses keys that depend on the key and on the numbers of its episodes or epochs
alone, and `state` and `first` say where it goes on. `jit` and `vmap` go through `train`, so seeds and λ are batched.

Who does not have all of it, and why: `gpi`, `lambda_operator` and `planner` solve instead of learning, so they have no
`update`. `policy_iteration` learns from no data, so its `update` takes None. It solves with SciPy, as `gpi` and
`planner` do, so these three cannot be jitted. `sac` drives a simulator on the host: its `world` is a
`wane.worlds.control.Task`, its `train` cannot be jitted either, and a `Fleet` trains many agents as one program.
"""

from types import ModuleType

NAMES = ("Config", "State", "init", "train", "policy")
"""What every agent has."""
PLANNERS = ("gpi", "lambda_operator", "planner")
"""Agents that solve instead of learning: they have no `update`."""


def missing_names(agent: ModuleType) -> list[str]:
    """The names of the contract that a module lacks."""
    name = agent.__name__.rsplit(".", 1)[-1]
    wanted = NAMES if name in PLANNERS else (*NAMES, "update")
    return [each for each in wanted if not hasattr(agent, each)]
