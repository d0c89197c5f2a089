"""The contract of all agents. Copy this list to write a new one.

An agent is a module of `wane.agents` with

| name | what it is |
| --- | --- |
| `Config` | a frozen dataclass with all settings of the agent |
| `State` | a NamedTuple of arrays: everything that is needed to continue learning |
| `init(key, world, config)` | returns the first `State` |
| `update(state, data, world, config, key)` | learns from one transition or batch: (new state, measurements) |
| `train(key, world, config, state=None, first=0, …)` | the whole training, a pure function: (state, measurements) |
| `policy(params, world, config)` | the greedy `Policy`, which any roll-out can play |

`params` is the part of the `State` that acting needs: the field of that name where there is one, else the whole
`State`. It is what `Trained(agent, world, config, state).save(folder)` writes.

Training can be divided into chunks: the keys of a chunk depend only on the key and on the numbers of its episodes or
epochs, and `state` and `first` say where it continues. `train` can be jitted and vmapped, so seeds and λ are batched.

Some agents deviate from the contract: `gpi`, `lambda_operator` and `planner` solve instead of learning, so they have no
`update`. `policy_iteration` learns from no data, so its `update` takes None. It solves with SciPy, as `gpi` and
`planner` do, so these three cannot be jitted. `sac` drives a simulator on the host: its `world` is a
`wane.worlds.control.Task`, its `train` cannot be jitted either, and a `Fleet` trains many agents as one program.
"""

from types import ModuleType

NAMES = ("Config", "State", "init", "train", "policy")
"""The names that every agent has."""
PLANNERS = ("gpi", "lambda_operator", "planner")
"""Agents that solve instead of learning: they have no `update`."""


def missing_names(agent: ModuleType) -> list[str]:
    """The names of the contract that a module lacks."""
    name = agent.__name__.rsplit(".", 1)[-1]
    wanted = NAMES if name in PLANNERS else (*NAMES, "update")
    return [each for each in wanted if not hasattr(agent, each)]
