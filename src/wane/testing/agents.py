"""Whether an agent keeps the contract of `wane.agents.common.contract`, as far as training and playing can tell.

    >>> from wane.agents import q_learning
    >>> from wane.testing import check_agent
    >>> check_agent(q_learning.AGENT, config=q_learning.Config(episodes=3))

The agent is trained for a moment, at once and in two chunks, alone and in a batch; then it is saved, loaded and played.
"""

import dataclasses
import inspect
import tempfile
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from wane.agents.common.contract import Agent
from wane.agents.common.policy import Policy
from wane.agents.trained import Trained, load
from wane.types import Tree
from wane.worlds import make
from wane.worlds.control import ControlTask

KEY = jax.random.key(0)
ROUNDING = 1e-9
"""By how much numbers of one compiled program may differ from those of another, relative to the largest of them."""


def check_agent(agent: Agent, world: Any = None, config: Any = None) -> None:
    """Raises AssertionError, with the rule that was broken and the cure, unless an agent keeps the contract.

    The `world` is one in which the agent can learn, by default a small one on a map. The `config` holds settings with
    which training takes seconds; by default they are those of `Config()`.
    """
    if not isinstance(agent, Agent):
        raise AssertionError(f"{agent!r} is a {type(agent).__name__}: make a wane.agents.Agent of its functions")
    _check_config(agent)
    _check_arguments(agent)
    world = make("four-rooms-7", horizon=12) if world is None else world
    config = agent.Config() if config is None else config
    _check_init(agent, world, config)
    state = _check_train(agent, world, config)
    if agent.unit is not None:
        _check_chunks(agent, world, config, state)
    if "train" in agent.traceable:
        _check_batches(agent, world, config)
    _check_policy(agent, world, config, state)


def _require(fine: Any, agent: Agent, message: str) -> None:
    if not fine:
        raise AssertionError(f"the agent {agent.name!r} does not keep the contract: {message}")


def _check_config(agent: Agent) -> None:
    kind = agent.Config
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]
    _require(frozen, agent, "its Config is no frozen dataclass: decorate it with @dataclass(frozen=True)")
    for field in dataclasses.fields(kind):
        given = {field.default, field.default_factory} != {dataclasses.MISSING}
        _require(given, agent, f"the setting {field.name!r} of its Config has no default")
    # A dataclass without a docstring gets its signature as one.
    documented = kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
    _require(documented, agent, "its Config has no docstring that says where the settings come from")
    _require(kind() == kind() or repr(kind()) == repr(kind()), agent, "two Configs without settings differ")


def _check_arguments(agent: Agent) -> None:
    """The functions can be called as the contract says."""
    calls = {
        "init": (("key", "world", "config"), {}),
        "train": (("key", "world", "config"), {"state": None}),
        "policy": (("params", "world", "config"), {}),
        "update": (("state", "data", "world", "config", "key"), {}),
    }
    if agent.unit is not None:
        calls["train"] = (("key", "world", "config", "state", "first"), {agent.unit: 1})
    for name, (words, named) in calls.items():
        function = getattr(agent, name)
        try:
            None if function is None else inspect.signature(function).bind(*words, **named)
        except TypeError as error:
            wanted = ", ".join([*words, *(f"{each}=…" for each in named)])
            raise AssertionError(
                f"the agent {agent.name!r} does not keep the contract: {name}({wanted}) cannot be called ({error})"
            ) from error


def _check_init(agent: Agent, world: Any, config: Any) -> None:
    state = agent.init(KEY, world, config)
    _require(isinstance(state, agent.State), agent, f"init returns a {type(state).__name__}, and no State")
    params, kind = agent.params_of(state), agent.Params
    _require(isinstance(params, kind), agent, f"the params of its State are a {type(params).__name__}, no {kind}")
    _require(_alike(state, agent.init(KEY, world, config)), agent, "init gives two answers for one key")
    if "init" in agent.traceable:
        try:
            traced = jax.eval_shape(lambda key: agent.init(key, world, config), KEY)
        except jax.errors.JAXTypeError as error:
            _cannot_be_traced(agent, "init", error)
        same = _shapes(traced) == _shapes(state)
        _require(same, agent, "init gives other shapes where JAX traces it, so that nothing can be saved")


def _cannot_be_traced(agent: Agent, name: str, error: Exception) -> NoReturn:
    left = tuple(each for each in agent.traceable if each != name)
    raise AssertionError(
        f"the agent {agent.name!r} does not keep the contract: JAX cannot trace {name}, so say traceable={left}, or "
        f"compute in JAX what the error names: {error}"
    ) from error


def _train(agent: Agent, key: Any, world: Any, config: Any, state: Any = None, first: int = 0, count: int = 2) -> Any:
    if agent.unit is None:
        return agent.train(key, world, config)
    return agent.train(key, world, config, state, first, **{agent.unit: count})


def _check_train(agent: Agent, world: Any, config: Any) -> Any:
    answer = _train(agent, KEY, world, config)
    pair = isinstance(answer, tuple) and not hasattr(answer, "_fields") and len(answer) == 2
    _require(pair, agent, "train returns no pair, (state, measurements)")
    state = answer[0]
    _require(isinstance(state, agent.State), agent, f"train returns a {type(state).__name__}, and no State")
    _require(_alike(answer, _train(agent, KEY, world, config)), agent, "training twice with one key gives two answers")
    begun = agent.init(KEY, world, config)
    same = _shapes(agent.params_of(state)) == _shapes(agent.params_of(begun))
    _require(same, agent, "training changes the shapes or the types of the params that init has made")
    return state


def _check_chunks(agent: Agent, world: Any, config: Any, whole: Any) -> None:
    half, _ = _train(agent, KEY, world, config, count=1)
    again, _ = _train(agent, KEY, world, config, half, 1, 1)
    cure = f"let all that is drawn in one of the {agent.unit} depend on fold_in(key, its number), numbered from `first`"
    _require(_alike(whole, again), agent, f"training in two chunks differs from training at once: {cure}")


def _check_batches(agent: Agent, world: Any, config: Any) -> None:
    """Training is one program over seeds, and over λ where the Config has one."""
    keys = jax.random.split(KEY, 2)
    lams = jnp.array([0.3, 0.6])
    has_lam = isinstance(getattr(config, "lam", None), float)

    def train(key: jax.Array, lam: jax.Array) -> Any:
        return _train(agent, key, world, dataclasses.replace(config, lam=lam) if has_lam else config)[0]

    try:
        together = jax.jit(jax.vmap(train))(keys, lams)
    except jax.errors.JAXTypeError as error:
        _cannot_be_traced(agent, "train", error)
    own = dataclasses.replace(config, lam=float(lams[1])) if has_lam else config
    alone = _train(agent, keys[1], world, own)[0]
    one = jax.tree_util.tree_map(lambda leaf: leaf[1], together)
    what = "seeds and λ" if has_lam else "seeds"
    _require(_alike(one, alone), agent, f"an agent of a batch of {what} learns something else than alone")


def _check_policy(agent: Agent, world: Any, config: Any, state: Any) -> None:
    """The policy plays, and plays the same after it was saved and loaded."""
    trained = Trained(agent, world, config, state)
    _require(isinstance(trained.policy(), Policy), agent, "policy returns no wane.agents.common.policy.Policy")
    with tempfile.TemporaryDirectory() as folder:
        again = load(trained.save(folder), agent=agent)
    _require(repr(again.config) == repr(config), agent, f"its Config comes back from a file as {again.config!r}")
    _require(_equal(again.params, trained.params), agent, "its params come back from a file with other numbers")
    played, replayed = (each.play(jax.random.key(1))[1] for each in (trained, again))
    _require(_equal(played, replayed), agent, "a saved agent plays another episode than before")
    if not isinstance(world, ControlTask):
        action = np.asarray(played.actions)
        within = np.all((action >= 0) & (action < world.n_actions))
        _require(within, agent, f"its policy takes an action that is not within 0 to {world.n_actions - 1}")
    finite = np.all(np.isfinite(np.asarray(played.rewards, float)))
    _require(finite, agent, "an episode of its policy pays what is no finite number")


def _shapes(tree: Tree) -> list[tuple[tuple[int, ...], Any]]:
    return [(np.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree_util.tree_leaves(tree)]


def _equal(one: Tree, other: Tree) -> bool:
    pairs = list(zip(*map(jax.tree_util.tree_leaves, (one, other)), strict=True))
    return all(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True) for a, b in map(_plain, pairs))


def _alike(one: Tree, other: Tree) -> bool:
    """Whether two trees hold the same numbers up to rounding, which differs between compiled programs."""
    leaves, others = map(jax.tree_util.tree_leaves, (one, other))
    if len(leaves) != len(others):
        return False
    single = jnp.result_type(float) == jnp.float32
    within = 1e-4 if single else ROUNDING
    for a, b in map(_plain, zip(leaves, others, strict=True)):
        if a.shape != b.shape:
            return False
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=1.0) if a.dtype.kind == "f" else 0.0
        if not np.allclose(a, b, rtol=0, atol=within * largest, equal_nan=True):
            return False
    return True


def _plain(pair: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Returns two leaves as NumPy arrays; random keys as their numbers."""
    return tuple(
        np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key) else leaf)
        for leaf in pair
    )  # pyright: ignore[reportReturnType]
