"""The contract of all agents: an agent is a value, which anybody can make.

    AGENT = Agent("mine", Config, State, init, train, policy, update, unit="episodes")

| field | what it is |
| --- | --- |
| `Config` | a frozen dataclass with all settings of the agent, each with a default |
| `State` | a NamedTuple of arrays: everything that is needed to continue learning |
| `init(key, world, config)` | returns the first `State` |
| `train(key, world, config, state=None, first=0, …)` | the whole training, a pure function: (state, measurements) |
| `policy(params, world, config)` | the greedy `Policy`, which any roll-out can play |
| `update(state, data, world, config, key)` | learns from one transition or batch: (new state, measurements) |

`params` is the part of the `State` that acting needs: the field of that name where there is one, else the whole
`State`. It is what `Trained(agent, world, config, state).save(folder)` writes.

Training can be divided into chunks: the keys of a chunk depend only on the key and on the numbers of its episodes or
epochs, and `state` and `first` say where it continues. `train` can be jitted and vmapped, so seeds and λ are batched.

The other fields of the value say where an agent deviates. `gpi`, `lambda_operator` and `planner` solve instead of
learning, so they have no `update`, and `policy_iteration` learns from no data, so its `update` takes None. What solves
with SciPy, walks through data or drives a simulator on the host is not `traceable` by JAX. The `world` of `sac` is a
`wane.worlds.control.ControlTask`.

`find` looks an agent up by its name. Each module of `wane.agents` that is an agent holds its value as `AGENT`; agents
of other packages are found by their entry points (`wane.plugins`). `wane.testing.check_agent` checks the contract.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from wane.names import unknown
from wane.plugins import find as find_offered
from wane.plugins import is_plain, offered

GROUP = "wane.agents"
"""The group of the entry points by which other packages add agents, and the package of our own."""


@dataclass(frozen=True)
class Agent:
    """An algorithm: its name, its settings and its functions. Raises ValueError for a name that no file may hold."""

    name: str
    """Letters, digits, "_" and "-"."""
    Config: type[Any]
    State: type[Any]
    init: Callable[..., Any]
    train: Callable[..., tuple[Any, Any]]
    policy: Callable[..., Any]
    update: Callable[..., tuple[Any, Any]] | None = None
    """None for an agent that solves instead of learning."""
    unit: Literal["episodes", "epochs"] | None = None
    """What training is counted in, which is also the argument of `train` that says how many. None if training cannot
    be divided into chunks."""
    traceable: tuple[Literal["init", "train"], ...] = ("init", "train")
    """The functions that JAX can trace, so that they can be jitted and vmapped."""
    by_site: bool = False
    """Whether it learns something for each site, so that it acts only in worlds with as many. Others act on the rewards
    of all states, or learn for given ones."""

    def __post_init__(self) -> None:
        if not is_plain(self.name):
            raise ValueError(f'the name of an agent is one word of letters, digits, "_" and "-", got {self.name!r}')

    def __repr__(self) -> str:
        return f"Agent({self.name!r}) of {self.init.__module__}"

    @property
    def Params(self) -> type[Any]:
        """The type of the params."""
        return get_type_hints(self.State).get("params", self.State)

    def params_of(self, state: Any) -> Any:
        """Returns the part of a state that acting needs."""
        return state if self.Params is self.State else state.params


def find(name: str, trust: Sequence[str] = ()) -> Agent:
    """Returns the agent of a name: one of `wane.agents`, or one that another package offers as an entry point.

    An agent of another package is imported only if its package was imported before or if `trust` holds its name; else
    this raises ValueError, as it does for an unknown name. Raises TypeError if what the package offers is no agent.
    """
    own = _own(name)
    if own is not None:
        return own
    found = find_offered(GROUP, name, trust)
    if found is None:
        more = "; other packages add theirs as entry points of the group wane.agents"
        raise unknown("agent", name, names(), more)
    if not isinstance(found, Agent):
        raise TypeError(f"the entry point {name!r} of {GROUP} is a {type(found).__name__}: it must be an Agent")
    return found


def names() -> list[str]:
    """Returns the names of all agents: those of `wane.agents`, then those that other packages offer."""
    from wane import agents

    own = [name for name in agents.__all__ if _own(name)]
    return own + [name for name in offered(GROUP) if name not in own]


def _own(name: str) -> Agent | None:
    """Returns the agent of a module of `wane.agents`, or None if it has no such module."""
    from wane import agents

    return getattr(getattr(agents, name), "AGENT", None) if name in agents.__all__ else None
