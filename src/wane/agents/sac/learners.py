"""Machinery: many agents that learn at the same time: the task on the host, the networks on the device.

Every agent plays in its own copy of the task. All copies take a step together, and one compiled program runs all
agents. The steps come in blocks of `Config.block` steps. The block of steps t, t + 1, … goes like this:

    policies ← the agents' present policies    for a block of several steps, they are copied to the host
    act, step, act, step, …                    on the host, in a separate thread or in several processes
    learn(transitions of the last block)       on the device, at the same time: for each step of the block, remember its
                                               transitions and update every agent once

So stepping and learning overlap, and there are as many updates as steps. A transition can first take part in an update
one block after it was made, and a policy acts for a whole block. A block of one step is nearest to a loop that waits:
actions travel to the host and transitions to the device at every step. The updates of a larger block are one program,
and nothing travels before it ends.

Agents may differ in the settings of a `Variant`. Step t of an agent uses fold_in(key, t), so training in chunks gives
the same result as training in one call. `get` and `set` save and restore what lives on the host.

The compiled programs take the leaves of the agents' states, not the states: a state has dozens of modules, and taking
it apart and putting it together in Python would take as long as an update does on a GPU. They are made once for each
task, configuration and structure of states, so several `Learners` share them. Step t of an agent uses three keys made
from fold_in(key, t): key 0 to act, key 1 for the bandit and key 2 to learn.
"""

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.agents import bandit
from wane.agents.common.training import numbered
from wane.agents.sac.algorithm import State, Terms, init, learn, remember, row_size
from wane.agents.sac.config import Config
from wane.agents.sac.players import Leaves, Player, PlayerProcesses, policy_structure
from wane.types import Integer
from wane.worlds.control import ControlTask


class Variant(NamedTuple):
    """The settings of a `Config` that distinguish kinds of agents. Each may be traced, or an array over agents."""

    critics: Any = 1
    lam: Any = 1.0
    adaptive: Any = False
    lambda_features: Any = False
    averaging: Any = False
    """The bandit's setting of that name."""

    def applied(self, config: Config) -> Config:
        """Returns the settings of an agent of this kind."""
        own = dataclasses.replace(config.bandit, averaging=self.averaging)
        settings = {name: value for name, value in self._asdict().items() if name != "averaging"}
        return dataclasses.replace(config, bandit=own, **settings)


def variant_of(config: Config) -> Variant:
    """The kind of agent that a configuration describes."""
    return Variant(config.critics, config.lam, config.adaptive, config.lambda_features, config.bandit.averaging)


class Info(NamedTuple):
    """Measurements of an epoch, with the agents along the first axis."""

    greedy: Float[np.ndarray, " agents"]
    """The mean return of the evaluation after the epoch, with the mean action and without discounting."""
    returns: Float[np.ndarray, " agents"]
    """The mean return of the training episodes that ended in the epoch; NaN if none ended."""
    terms: Terms
    """Means over the updates of the epoch; NaN if there were none."""
    probabilities: Float[np.ndarray, "agents arms"]
    """The probabilities of the bandit's arms at the end of the epoch."""


class Learners:
    """Agents, one for each key, and the copies of the task that they play in."""

    def __init__(
        self,
        keys: jax.Array,
        task: ControlTask,
        config: Config,
        variants: Variant | None = None,
        threads: int | None = None,
        processes: int = 1,
    ):
        """Makes the agents' copies of the task. Each field of `variants` has one number for each agent.

        Without `variants`, all agents have the settings of `config`. The copies are stepped by `threads` threads of
        this process, or by several `processes` with one thread each, which needs blocks of several steps. A script that
        starts processes must be able to be imported, so it starts them under `if __name__ == "__main__":`.
        """
        self.keys, self.task, self.config, self.variants = keys, task, config, variants
        if variants is not None:
            config.require_networks(variants.critics, variants.lambda_features)
        together = processes > 1 and config.block > 1
        self.player = (
            PlayerProcesses(keys, task, config, processes) if together else Player(keys, task, config, threads)
        )
        self._n_policy = policy_structure(task, config).num_leaves
        # A separate thread plays: on a GPU, starting the many small kernels of an update keeps the thread that starts
        # them busy for as long as the update takes.
        self._stepper = ThreadPoolExecutor(1)
        # The transitions of the last block, which the next call of `learn` takes.
        self._pending = np.zeros((config.block, len(keys), row_size(task) + 2), np.float32)

    def init(self) -> State:
        """The first states of all agents."""
        states = init_all(self.task, self.config, self.keys, self.variants)
        # Target networks begin equal to the networks that they follow, but must be separate arrays, because `learn`
        # donates both.
        return jax.tree_util.tree_map(jnp.array, states)

    def epoch(self, states: State, number: int) -> tuple[State, Info]:
        """Runs epoch `number` of all agents and then an evaluation. The given states cannot be used afterwards."""
        size, config, begin = len(self.keys), self.config, number * self.config.steps
        sums, updates = Terms(*(jnp.zeros(size) for _ in Terms._fields)), 0
        finished, earned = np.zeros(size), np.zeros(size)
        leaves, structure = take_apart(states)
        wait, learn = (make_program(self.task, config, structure, learns) for learns in (False, True))
        for t in range(begin, begin + config.steps, config.block):
            policies = self.player.receive(leaves[: self._n_policy])
            # The first actions are computed before the update begins: the device computes one thing after another.
            first = self.player.first_actions(policies, t)
            playing = self._stepper.submit(self.player.play, policies, t, first)
            learns = t >= config.collection_steps
            if t > 0:
                program = learn if learns else wait
                leaves, sums = program(leaves, sums, self.keys, self.variants, self._pending, t)
            updates += config.block * learns
            self._pending, ended, returns = playing.result()
            finished += ended
            earned += returns
        states = jax.tree_util.tree_unflatten(structure, leaves)
        return states, self._measure(states, sums, updates, finished, earned, number)

    def _measure(
        self, states: State, sums: Terms, updates: int, finished: np.ndarray, earned: np.ndarray, number: int
    ) -> Info:
        with np.errstate(invalid="ignore", divide="ignore"):
            means = Terms(*(np.asarray(each, float) / updates for each in sums))  # NaN if there was no update
            returns = np.where(finished > 0, earned / finished, np.nan)
        chances = jax.vmap(bandit.probabilities)(states.bandit)
        policies = self.player.receive(tuple(jax.tree_util.tree_leaves(states.params)))
        return Info(self.player.evaluate(policies, number), returns, means, np.asarray(chances))

    def get(self) -> dict[str, Any]:
        """Returns what lives on the host: the copies of the task, and the transitions not yet in the replay."""
        return {"task": self.player.get(), "pending": self._pending}

    def set(self, tree: Mapping[str, Any]) -> None:
        """Restores what `get` returned."""
        self.player.set(tree["task"])
        self._pending = np.array(tree["pending"])


def train(
    key: jax.Array,
    world: ControlTask,
    config: Config,
    state: State | None = None,
    first: int = 0,
    epochs: int | None = None,
) -> tuple[State, Info]:
    """Trains one agent for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    The task is simulated on the host, so this function cannot be jitted; `Learners` train many agents together.
    Training in chunks (`state=…, first=…`) gives the same result as training in one call. Returns the state and an
    `Info` with the epochs along the first axis of all arrays.
    """
    learners = Learners(key[None], world, config)
    states = learners.init() if state is None else jax.tree_util.tree_map(lambda leaf: jnp.array(leaf)[None], state)
    if state is not None:
        learners.set(state.simulator)
    states, infos = states._replace(simulator=None), []
    for number in range(first, first + (config.epochs if epochs is None else epochs)):
        states, info = learners.epoch(states, number)
        infos.append(info)
    one: State = jax.tree_util.tree_map(lambda leaf: leaf[0], states)
    info = jax.tree_util.tree_map(lambda *leaves: np.stack(leaves)[:, 0], *infos)
    return one._replace(simulator=learners.get()), info


def take_apart(states: State) -> tuple[Leaves, Any]:
    """Returns the leaves of the states, and their structure."""
    leaves, structure = jax.tree_util.tree_flatten(states)
    return tuple(leaves), structure


@cache
def make_program(task: ControlTask, config: Config, structure: Any, learns: bool) -> Any:
    """Returns the program (leaves, sums, keys, variants, block, t) → (leaves, sums) for states of a structure.

    It remembers the transitions of a block, and if it `learns`, it updates every agent after each of them and adds the
    measurements to `sums`. It donates the given leaves and sums, which cannot be used afterwards.
    """

    def one(number: Integer, key: jax.Array, variant: Variant | None, state: State, row: Array) -> tuple[State, Any]:
        own, key = own_config(config, variant), jax.random.fold_in(key, number)
        state = remember(state, row[:-2], row[-2] > 0, row[-1], jax.random.fold_in(key, 1), own)
        return learn(state, task, own, jax.random.fold_in(key, 2)) if learns else (state, None)

    def program(
        leaves: Leaves, sums: Terms, keys: jax.Array, variants: Any, block: Array, number: Integer
    ) -> tuple[Leaves, Terms]:
        def step(now: tuple[State, Terms], given: tuple[Array, Array]) -> tuple[tuple[State, Terms], None]:
            (states, sums), (rows, t) = now, given
            states, terms = jax.vmap(partial(one, t))(keys, variants, states, rows)
            return (states, jax.tree_util.tree_map(jnp.add, sums, terms) if learns else sums), None

        states = jax.tree_util.tree_unflatten(structure, leaves)
        (states, sums), _ = jax.lax.scan(step, (states, sums), (block, numbered(number, len(block))))
        return take_apart(states)[0], sums

    return jax.jit(program, donate_argnums=(0, 1))


def own_config(config: Config, variant: Variant | None) -> Config:
    """The settings of one agent."""
    return config if variant is None else variant.applied(config)


@partial(jax.jit, static_argnums=(0, 1))
def init_all(task: ControlTask, config: Config, keys: jax.Array, variants: Variant | None) -> State:
    """The first states of all agents."""
    return jax.vmap(lambda key, variant: init(key, task, own_config(config, variant)))(keys, variants)


def update_flops(task: ControlTask, config: Config, variant: Variant) -> float:
    """The number of FLOPs of one update of one agent of the kind `variant`, of the program that XLA makes of it.

    Each kind is compiled separately, so the program leaves out what the agent does not have: a second critic, a λF. The
    count includes the look-up of the batch, all networks forward and backward, Adam and the target networks. It does
    not include the Cholesky factor of the regression (about D³/3 for D features), which XLA hands to a library. The
    program is compiled for the CPU on every machine, so the count does not depend on the libraries of a GPU.
    """
    with jax.default_device(jax.devices("cpu")[0]):
        own, key = variant.applied(config), jax.random.key(0)
        # Shapes suffice to compile, so no replay of a million transitions is allocated.
        state = jax.eval_shape(lambda key: init(key, task, own), key)
        program: Any = jax.jit(lambda state, key: learn(state, task, own, key))
        found = program.lower(state, key).compile().cost_analysis()
    # Some versions of JAX give a count for each device.
    return float((found[0] if isinstance(found, list) else found)["flops"])
