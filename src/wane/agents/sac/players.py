"""Machinery: copies of the task on the host, in which agents act, stepped by this process or by several.

A `Player` is one process. Python runs one thread at a time, so one process that acts and steps for many agents keeps a
fast GPU waiting. `PlayerProcesses` divide the agents among processes, each of which plays a whole block for its agents
without waiting for the others.
Policies reach the processes through shared memory, and transitions return through pipes. The numbers are the same, bit
for bit, for any number of processes (tested).
"""

import ctypes
import multiprocessing
import os
import signal
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.agents.common.networks import MLP
from wane.agents.sac.algorithm import best_action, make_actor, sampled_action
from wane.agents.sac.config import Config
from wane.types import Integer
from wane.worlds.control import ControlTask, Outcome

EXPLORE, EVALUATE = 2**32 - 2, 2**32 - 3
"""Folded into a key, these numbers give the seeds of the task for training and for evaluations. No step has them."""


Leaves = tuple[Array, ...]
"""The leaves of the policies of all agents, or of their states, of which those of the policies come first."""


class Block(NamedTuple):
    """A block of steps."""

    rows: Float[np.ndarray, "steps agents numbers"]
    """The transitions: see `pack`."""
    ended: Float[np.ndarray, " agents"]
    """The number of episodes that ended."""
    earned: Float[np.ndarray, " agents"]
    """The sum of the returns of these episodes."""


def policy_structure(task: ControlTask, config: Config) -> Any:
    """The structure of a policy."""
    return jax.tree_util.tree_structure(jax.eval_shape(lambda: make_actor(jax.random.key(0), task, config)))


@cache
def make_act(task: ControlTask, config: Config) -> Any:
    """Returns the program (leaves of the policies, keys, observations, t) → actions.

    An action is uniformly random for the first `random_steps` steps, and then drawn from the policy.
    """
    structure = policy_structure(task, config)

    def act(leaves: Leaves, keys: jax.Array, observations: Array, number: Integer) -> Array:
        def one(key: jax.Array, actor: MLP, observation: Array) -> Array:
            key = jax.random.fold_in(jax.random.fold_in(key, number), 0)
            drawn = sampled_action(actor, observation, key, config)
            uniform = jax.random.uniform(key, drawn.shape, drawn.dtype, -1, 1)
            return jnp.where(jnp.asarray(number) < config.random_steps, uniform, drawn)

        return jax.vmap(one)(keys, jax.tree_util.tree_unflatten(structure, leaves), observations)

    return jax.jit(act)


act_best = jax.jit(jax.vmap(best_action))
"""(policies, observations) → mean actions of all agents"""


class Player:
    """The copies of the task that agents play in, one for each key, and others for evaluations."""

    def __init__(self, keys: jax.Array, task: ControlTask, config: Config, threads: int | None = None):
        """Makes the copies. `threads` is the number of threads that step them."""
        self._config, self._act, self._limit = config, make_act(task, config), task.steps
        self._structure = policy_structure(task, config)
        self._copies = task.copies(_seeds(keys, EXPLORE), threads)
        self._test_seeds = np.repeat(_seeds(keys, EVALUATE), config.evaluation_episodes).tolist()
        self.tests = task.copies(self._test_seeds, threads)
        self._wide = bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]
        self._keys = self.receive(keys)

    def receive(self, policies: Any) -> Any:
        """Returns the arrays of the policies where they will be used, which is on the host for blocks of several steps.

        An update donates the policies, so the agents act by a copy while the update runs.
        """
        if self._config.block == 1:
            return policies
        return jax.device_put(policies, jax.devices("cpu")[0], may_alias=False)

    def first_actions(self, policies: Any, t: int) -> np.ndarray | None:
        """The actions of step t, if a device computes them that will soon be busy with an update."""
        if self._config.block > 1:
            return None
        return np.asarray(self._act(policies, self._keys, self._copies.observation, t))

    def play(self, policies: Any, t: int, first: np.ndarray | None = None) -> Block:
        """Takes the steps t, t + 1, … of a block, with the actions `first` if they are known already."""
        rows, ended, earned = [], 0.0, 0.0
        with jax.enable_x64(self._wide):  # A thread starts with the precision of the process, not of its parent.
            for i in range(self._config.block):
                seen = self._copies.observation
                new = i > 0 or first is None
                taken = np.asarray(self._act(policies, self._keys, seen, t + i) if new else first)
                outcome = self._copies.step(taken)
                rows.append(pack(seen, taken, outcome))
                ended = ended + outcome.ended
                earned = earned + np.where(outcome.ended, outcome.earned, 0.0)
        return Block(np.stack(rows), np.asarray(ended, float), np.asarray(earned))

    def evaluate(self, policies: Any, number: int) -> Float[np.ndarray, " agents"]:
        """The mean return of every agent's test episodes. They begin in different states for every epoch `number`."""
        each, tests = self._config.evaluation_episodes, self.tests
        actors = jax.tree_util.tree_unflatten(self._structure, policies)
        # Several episodes of one agent begin in different states.
        words = [[seed, number, i % each] for i, seed in enumerate(self._test_seeds)]
        tests.restart([int(np.random.SeedSequence(word).generate_state(1)[0]) for word in words])
        total, live = np.zeros(len(words)), np.ones(len(words))
        for _ in range(self._limit):
            actions = act_best(actors, tests.observation.reshape(len(words) // each, each, -1))
            outcome = tests.step(np.asarray(actions).reshape(len(words), -1))
            total += outcome.reward * live
            live *= ~outcome.ended
            if not live.any():
                break
        return total.reshape(-1, each).mean(1)

    def get(self) -> dict[str, np.ndarray]:
        """Returns everything that the future of the copies depends on, with the copies along the first axes."""
        return self._copies.get()

    def set(self, tree: Mapping[str, Any]) -> None:
        """Restores what `get` returned."""
        self._copies.set(tree)


class PlayerProcesses:
    """A `Player` whose agents are divided among several processes. It needs blocks of at least two steps."""

    def __init__(self, keys: jax.Array, task: ControlTask, config: Config, processes: int):
        """Starts the processes. They end when this object is no longer used, and when this process ends."""
        assert config.block > 1
        # Each process is a fresh interpreter, because a fork of a process that runs JAX hangs.
        context, wide = multiprocessing.get_context("spawn"), bool(jax.config.jax_enable_x64)  # pyright: ignore
        one = jax.tree_util.tree_leaves(jax.eval_shape(lambda: make_actor(keys[0], task, config)))
        like = [((len(keys), *leaf.shape), leaf.dtype) for leaf in one]
        shared = context.RawArray(ctypes.c_byte, sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in like))
        self._shared = _views(shared, like)
        self._parts = np.array_split(np.arange(len(keys)), min(processes, len(keys)))
        self._pipes, self._processes = [], []
        for part in self._parts:
            pipe, theirs = context.Pipe()
            given = np.asarray(jax.random.key_data(keys[part])), str(jax.random.key_impl(keys))
            rows = slice(int(part[0]), int(part[-1]) + 1)
            arguments = theirs, given, task, config, wide, shared, like, rows
            self._processes.append(context.Process(target=_serve, args=arguments, daemon=True))
            self._processes[-1].start()
            theirs.close()
            self._pipes.append(pipe)

    def receive(self, policies: Leaves) -> None:
        """Copies the policies to the shared memory."""
        for leaf in policies:
            leaf.copy_to_host_async()
        for place, leaf in zip(self._shared, policies, strict=True):
            np.copyto(place, np.asarray(leaf))

    def first_actions(self, policies: Any, t: int) -> None:
        """Nothing: the processes compute all actions."""

    def play(self, policies: Any, t: int, first: Any = None) -> Block:
        """Takes the steps of a block, with the policies that were last given to `receive`."""
        rows, ended, earned = zip(*self._ask("play", t), strict=True)
        return Block(np.concatenate(rows, 1), np.concatenate(ended), np.concatenate(earned))

    def evaluate(self, policies: Any, number: int) -> Float[np.ndarray, " agents"]:
        """The mean return of every agent's test episodes, with the policies that were last given to `receive`."""
        return np.concatenate(self._ask("evaluate", number))

    def get(self) -> dict[str, np.ndarray]:
        """Returns what `Player.get` returns for all agents, whatever the number of processes."""
        parts = self._ask("get")
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def set(self, tree: Mapping[str, Any]) -> None:
        """Restores what `get` returned."""
        self._exchange([("set", {name: np.asarray(leaf)[part] for name, leaf in tree.items()}) for part in self._parts])

    def _ask(self, method: str, *values: Any) -> list[Any]:
        return self._exchange([(method, *values)] * len(self._pipes))

    def _exchange(self, questions: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a method in every process, and returns the answers. Raises RuntimeError if a process fails or ends."""
        try:
            for pipe, question in zip(self._pipes, questions, strict=True):
                pipe.send(question)
            found = [pipe.recv() for pipe in self._pipes]
        except (EOFError, ConnectionError) as error:
            raise RuntimeError("a process that simulates the task ended, perhaps for lack of memory") from error
        for _, trouble in found:
            if trouble:
                raise RuntimeError(f"a process that simulates the task failed:\n{trouble}")
        return [answer for answer, _ in found]


def _serve(
    pipe: Any, keys: tuple[Any, str], task: ControlTask, config: Config, wide: bool, shared: Any, like: Any, rows: slice
) -> None:
    """Plays for some agents in a process of its own, until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and only the first one decides.
    # The GPU belongs to the first process, which must not wait for a core while it starts kernels. Every other
    # process uses one core.
    if hasattr(os, "nice"):
        os.nice(5)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # Another thread would have to be woken at every step.
    jax.config.update("jax_enable_x64", wide)
    player = None
    while True:
        try:
            method, *values = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            player = player or Player(jax.random.wrap_key_data(keys[0], impl=keys[1]), task, config, threads=1)
            if method in ("play", "evaluate"):
                values = [tuple(jnp.array(view[rows]) for view in _views(shared, like)), *values]
            answer = getattr(player, method)(*values), None
        except Exception:
            answer = None, traceback.format_exc()
        try:
            pipe.send(answer)
        except OSError:
            return


def _views(shared: Any, like: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    """Returns the arrays of the given shapes and types that lie in shared memory one after another."""
    views, start = [], 0
    for shape, dtype in like:
        views.append(np.frombuffer(shared, dtype, int(np.prod(shape)), start).reshape(shape))
        start += views[-1].nbytes
    return views


def _seeds(keys: jax.Array, kind: int) -> list[int]:
    bits = jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, kind)))
    return np.asarray(bits(keys)).tolist()


def pack(
    observation: Float[np.ndarray, "agents observations"], action: Float[np.ndarray, "agents actions"], outcome: Outcome
) -> Float[np.ndarray, "agents numbers"]:
    """One array with the outcome of a step: rows of the replay, whether the episodes ended, and what they earned."""
    single = outcome.reward[:, None], outcome.terminated[:, None], outcome.ended[:, None], outcome.earned[:, None]
    reward, terminated, ended, earned = single
    parts = [observation, action, reward, outcome.next_observation, terminated, ended, earned]
    return np.concatenate(parts, 1, dtype=np.float32, casting="unsafe")
