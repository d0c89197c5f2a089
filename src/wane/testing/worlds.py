"""Whether a world keeps the contract of `wane.worlds.process`, as far as playing in it can tell.

    >>> import wane
    >>> from wane.testing import check_world
    >>> check_world(wane.worlds.make("corridor"))

Some copies of the world are played with random actions as one compiled program (`jit`, `vmap` and `scan`). Beside each
of them a depletion is followed through the same visits: what the world says remains must be what the depletion leaves.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from wane.agents.common.policy import Policy
from wane.agents.common.rollout import play
from wane.depletion import Depletion
from wane.types import Tree
from wane.worlds.base import select
from wane.worlds.process import Process, Solvable, Tabular, at_site, numbered_sites, without_threshold

COPIES, MOST_STEPS = 16, 200
"""How many copies are played, and for how many steps at most."""
EPISODES, SHORT = 2000, 20
"""How many episodes are compared with exact values, and how many steps each of them has at most."""
SPREAD = 5.0
"""How many standard errors a mean may be off: chance alone exceeds this once in two million checks."""


def check_world(world: Any, key: jax.Array | None = None) -> None:
    """Raises AssertionError, with the rule that was broken and the cure, unless a world keeps the contract.

    Every world is checked as a `Process`; one with states as a `Tabular` process, and one with an `mdp` as a `Solvable`
    one. The same `key` makes the same check. It takes a few seconds, most of them for compiling.
    """
    key = jax.random.key(0) if key is None else key
    _check_names(world)
    _check_settings(world)
    if hasattr(world, "n_states"):
        _check_states(world)
    _check_one_step(key, world)
    _check_many_steps(world, _walk(key, world))
    if hasattr(world, "mdp"):
        _check_transitions(key, world)
        _check_values(key, world)


def _require(fine: Any, world: Any, message: str) -> None:
    if not bool(fine):
        raise AssertionError(f"{type(world).__name__} is not a world that agents can rely on: {message}")


def _check_names(world: Any) -> None:
    kinds = [
        Process,
        *([Tabular] if hasattr(world, "n_states") else []),
        *([Solvable] if hasattr(world, "mdp") else []),
    ]
    for kind in kinds:
        names = sorted({name for each in kind.__mro__ for name in vars(each) if not name.startswith("_")})
        missing = [name for name in names if not hasattr(world, name)]
        _require(not missing, world, f"it lacks {', '.join(missing)}, which wane.worlds.process.{kind.__name__} names")
    made = dataclasses.is_dataclass(world) and not isinstance(world, type)
    _require(made, world, "it is no dataclass, so dataclasses.replace cannot give it another observation")


def _check_settings(world: Process) -> None:
    _require(world.n_actions >= 1, world, f"it has {world.n_actions} actions, and at least one is needed")
    rewards, shape = np.asarray(world.rewards, float), (world.n_sites,)
    _require(rewards.shape == shape and np.all(np.isfinite(rewards)), world, f"rewards are no finite numbers {shape}")
    _require(isinstance(world.depletion, Depletion), world, "its depletion is no wane.Depletion")
    _require(0 <= float(world.discount) <= 1, world, f"its discount is {world.discount}, which is not within [0, 1]")
    words = ("arrival", "departure")
    _require(world.timing in words, world, f"its timing is {world.timing!r}, and neither {' nor '.join(words)}")
    _require(world.horizon is None or world.horizon >= 1, world, f"its horizon is {world.horizon}: use None for none")


def _check_states(world: Tabular) -> None:
    n, start = world.n_states, np.asarray(world.start, float)
    fine = start.shape == (n,) and np.all(start >= 0) and np.isclose(start.sum(), 1)
    _require(fine, world, f"`start` is no probability for each of its {n} states")
    patches = [np.asarray(states, int) for states in world.patches]
    _require(len(patches) == world.n_sites, world, f"it has {world.n_sites} sites and {len(patches)} patches")
    listed = np.concatenate([np.zeros(0, int), *patches])
    within = np.all((listed >= 0) & (listed < n)) and all(len(states) for states in patches)
    _require(within, world, f"a patch is empty or holds a state that is not within 0 to {n - 1}")
    _require(len(np.unique(listed)) == len(listed), world, "a state belongs to two sites, or is listed twice")
    same = np.array_equal(world.site_of, numbered_sites(patches, n))
    _require(same, world, "`site_of` does not say the same as `patches`")
    for cell in np.unique(np.linspace(0, n - 1, 8).astype(int)):
        begun = int(world.begin(int(cell))[1].cell)
        _require(begun == cell, world, f"begin({cell}) begins in state {begun}")


def _check_one_step(key: jax.Array, world: Process) -> None:
    reset_key, step_key = jax.random.split(key)
    first, again, compiled = world.reset(reset_key), world.reset(reset_key), jax.jit(world.reset)(reset_key)
    _require(_alike(first, again) and _alike(first, compiled), world, "reset gives two answers for one key")
    seen, state = first
    steps = [step(step_key, state, jnp.zeros((), int)) for step in (world.step, world.step, jax.jit(world.step))]
    count = {len(step) for step in steps}
    _require(
        count == {6}, world, f"step returns {count} things: observation, state, reward, terminated, truncated, info"
    )
    _require(_alike(steps[0], steps[1]) and _alike(steps[0], steps[2]), world, "step gives two answers for one key")
    for what, before, after in (("observation", seen, steps[0][0]), ("state", state, steps[0][1])):
        message = f"a step changes the shape or the type of its {what}, {_types(before)} to {_types(after)}"
        _require(
            _types(before) == _types(after), world, message + ", so that no loop can be compiled: cast it in `step`"
        )
    reward, *ends = steps[0][2:5]
    scalar = jnp.shape(reward) == () and jnp.issubdtype(jnp.result_type(reward), jnp.floating)
    _require(scalar, world, f"a reward is one float, got {_types(reward)}")
    flags = all(jnp.shape(end) == () and jnp.result_type(end).kind == "b" for end in ends)
    _require(flags, world, f"terminated and truncated are one boolean each, got {_types(ends)}")
    _require(hasattr(state, "cell"), world, "its state has no `cell`, the place of the agent, which episodes record")
    fresh = np.asarray(world.rewards) * np.asarray(world.depletion.worth(world.depletion.initial((world.n_sites,))))
    close = np.allclose(world.remaining(state), fresh, rtol=1e-5)
    _require(close, world, f"what remains at the start is {world.remaining(state)}, and not r̄ · worth, {fresh}")


class _Walk(NamedTuple):
    """What happened in the copies (copies, steps)."""

    rewards: Float[np.ndarray, "copies steps"]
    terminated: Bool[np.ndarray, "copies steps"]
    truncated: Bool[np.ndarray, "copies steps"]
    remaining: Float[np.ndarray, "copies steps sites"]
    expected: Float[np.ndarray, "copies steps sites"]
    """What the depletion leaves after the same visits; what `remaining` says if the world has no states."""


def _walk(key: jax.Array, world: Process) -> _Walk:
    """Plays copies with random actions, as one program, beyond terminations."""
    steps = min(world.horizon or MOST_STEPS, MOST_STEPS)

    def step(now: tuple[Tree, Tree], key: Array) -> tuple[tuple[Tree, Tree], tuple[Array, ...]]:
        (state, memory), (act_key, step_key) = now, jax.random.split(key)
        action = jax.random.randint(act_key, (), 0, world.n_actions)
        _, after, reward, terminated, truncated, _ = world.step(step_key, state, action)
        remaining = world.remaining(after)
        if not isinstance(world, Tabular):
            return (after, memory), (reward, terminated, truncated, remaining, remaining)
        paid = after.cell if world.timing == "arrival" else state.cell
        visited = at_site(world.site_of, paid, world.n_sites)
        memory = select(visited, world.depletion.visit(memory), world.depletion.wait(memory))
        expected = jnp.broadcast_to(world.rewards * world.depletion.worth(memory), remaining.shape)
        return (after, memory), (reward, terminated, truncated, remaining, expected)

    def copy(key: Array) -> tuple[Array, ...]:
        memory = jax.tree_util.tree_map(jnp.asarray, world.depletion.initial((world.n_sites,)))
        return jax.lax.scan(step, (world.reset(key)[1], memory), jax.random.split(key, steps))[1]

    return _Walk(*map(np.asarray, jax.jit(jax.vmap(copy))(jax.random.split(key, COPIES))))


def _check_many_steps(world: Process, walk: _Walk) -> None:
    ended = np.logical_or.accumulate(walk.terminated, axis=1)
    before_end = np.pad(~ended, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
    live = before_end[..., None]
    _require(np.all(np.isfinite(walk.rewards) | ~before_end), world, "a step pays what is no finite number")
    _require(not np.any(walk.terminated & walk.truncated), world, "a step is terminated and truncated at once")
    _require(
        not ended.any() or getattr(world, "ends_early", True), world, "an episode ended, and `ends_early` is False"
    )
    close = np.isclose(walk.remaining, walk.expected, rtol=1e-4, atol=1e-6) | ~live | walk.terminated[..., None]
    _require(np.all(close), world, "what remains of a site is not what its depletion leaves after the same visits")
    nonnegative = _never_negative(world.depletion, walk.remaining.shape[1], world.n_sites)
    negative = (walk.remaining < 0) & (np.asarray(world.rewards) >= 0) & live
    _require(not (nonnegative and negative.any()), world, "less than nothing remains of a reward that is not negative")
    early = walk.truncated[:, :-1] if world.horizon == walk.truncated.shape[1] else walk.truncated
    _require(not np.any(early & before_end[:, : early.shape[1]]), world, "an episode is cut off before its horizon")
    if world.horizon == walk.truncated.shape[1]:
        over = walk.truncated[:, -1] | ended[:, -1]
        _require(np.all(over), world, f"an episode goes on after its horizon of {world.horizon} steps")


def _never_negative(depletion: Depletion, steps: int, n_sites: int) -> bool:
    """Whether no number of visits in a row makes a reward negative. Some curves do, as wane.Listed([1, −1])."""
    memory = depletion.initial((n_sites,))
    for _ in range(steps):
        if np.any(np.asarray(depletion.worth(memory)) < 0):
            return False
        memory = depletion.visit(memory)
    return True


def _check_transitions(key: jax.Array, world: Solvable) -> None:
    """Each state is left once by each action: the next state must be one that the `mdp` knows."""
    cells, actions = (part.ravel() for part in np.indices((world.n_states, world.n_actions)))
    chosen = np.linspace(0, len(cells) - 1, min(len(cells), 1000)).astype(int)
    cells, actions = cells[chosen], actions[chosen]

    def following(key: Array, cell: Array, action: Array) -> Array:
        return world.step(key, world.begin(cell)[1], action)[1].cell

    after = jax.jit(jax.vmap(following))(jax.random.split(key, len(cells)), jnp.asarray(cells), jnp.asarray(actions))
    for cell, action, there in zip(cells, actions, np.asarray(after), strict=True):
        row: Any = world.mdp.action(int(action))[[int(cell)]]
        row = row.toarray()[0] if hasattr(row, "toarray") else np.asarray(row)[0]
        fine = row[there] > 0 or not row.any()
        _require(fine, world, f"action {action} leads from state {cell} to {there}, to which its mdp gives no chance")


def _check_values(key: jax.Array, world: Solvable) -> None:
    """The mean return of random actions is what `values` says."""
    horizon = min(world.horizon or SHORT, SHORT)
    short = without_threshold(dataclasses.replace(world, horizon=horizon))

    def act(params: None, carry: None, seen: Tree, key: Array) -> tuple[Array, None, None]:
        return jax.random.randint(key, (), 0, world.n_actions), carry, None

    episodes = jax.jit(jax.vmap(lambda key: play(key, short, Policy(act))[1].value))
    returns = np.asarray(episodes(jax.random.split(key, EPISODES)), float)
    uniform = np.full((world.n_states, world.n_actions), 1 / world.n_actions)
    exact = float(np.asarray(world.start) @ world.values(uniform, horizon=horizon))
    error = SPREAD * returns.std() / np.sqrt(EPISODES) + 1e-5 * max(abs(exact), 1.0)
    message = f"random actions earn {returns.mean():.6g} ± {error:.2g} on average, and its `values` say {exact:.6g}"
    _require(abs(returns.mean() - exact) <= error, world, message)


def _alike(one: Tree, other: Tree) -> bool:
    leaves, others = jax.tree_util.tree_leaves(one), jax.tree_util.tree_leaves(other)
    return len(leaves) == len(others) and all(
        np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) for a, b in zip(leaves, others, strict=True)
    )


def _types(tree: Tree) -> str:
    """The structure, the shapes and the types of a tree, in words."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return str(jax.tree_util.tree_unflatten(structure, [f"{jnp.result_type(x)}{list(jnp.shape(x))}" for x in leaves]))
