"""Many agents that learn at the same time: the task on the host, the networks and the memory on the device.

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

Agents may differ in the numbers of a `Variant`. Step t of an agent uses fold_in(key, t), so training in chunks gives
the same result as training in one call. `get` and `set` save and restore what lives on the host.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from wane.agents import bandit
from wane.agents.sac import training
from wane.agents.sac.config import Config
from wane.agents.sac.playing import Crew, Player
from wane.agents.sac.programs import init_all, make_programs, policy_structure, take_apart
from wane.agents.sac.training import State, Terms, Variant
from wane.worlds.control import Task


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


class Fleet:
    """Agents, one for each key, and the copies of the task that they play in."""

    def __init__(
        self,
        keys: jax.Array,
        task: Task,
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
            training.require_networks(config, variants.critics, variants.feature_weight)
        together = processes > 1 and config.block > 1
        self.player = Crew(keys, task, config, processes) if together else Player(keys, task, config, threads)
        self._n_policy = policy_structure(task, config).num_leaves
        # A separate thread plays: on a GPU, starting the many small kernels of an update keeps the thread that starts
        # them busy for as long as the update takes.
        self._stepper = ThreadPoolExecutor(1)
        # The transitions of the last block, which the next call of `learn` takes.
        self._pending = np.zeros((config.block, len(keys), training.row_size(task) + 2), np.float32)

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
        programs = make_programs(self.task, config, structure)
        for t in range(begin, begin + config.steps, config.block):
            policies = self.player.take(leaves[: self._n_policy])
            # The first actions are computed before the update begins: the device computes one thing after another.
            first = self.player.first_actions(policies, t)
            playing = self._stepper.submit(self.player.play, policies, t, first)
            if t >= config.collection_steps:
                leaves, sums = programs.learn(leaves, sums, self.keys, self.variants, self._pending, t)
                updates += config.block
            elif t > 0:
                leaves = programs.remember(leaves, self.keys, self.variants, self._pending, t)
            self._pending, ended, returns = playing.result()
            finished += ended
            earned += returns
        states = jax.tree_util.tree_unflatten(structure, leaves)
        return states, self._tell(states, sums, updates, finished, earned, number)

    def _tell(
        self, states: State, sums: Terms, updates: int, finished: np.ndarray, earned: np.ndarray, number: int
    ) -> Info:
        with np.errstate(invalid="ignore", divide="ignore"):
            means = Terms(*(np.asarray(each, float) / updates for each in sums)) if updates else _nothing(sums)
            returns = np.where(finished > 0, earned / finished, np.nan)
        chances = jax.vmap(bandit.probabilities)(states.bandit)
        policies = self.player.take(tuple(jax.tree_util.tree_leaves(states.params)))
        return Info(self.player.evaluate(policies, number), returns, means, np.asarray(chances))

    def get(self) -> dict[str, Any]:
        """Returns what lives on the host: the copies of the task, and the transitions not yet in the replay memory."""
        return {"task": self.player.get(), "pending": self._pending}

    def set(self, tree: Mapping[str, Any]) -> None:
        """Restores what `get` returned."""
        self.player.set(tree["task"])
        self._pending = np.array(tree["pending"])


def _nothing(sums: Terms) -> Terms:
    return Terms(*(np.full(np.shape(each), np.nan) for each in sums))


def train(
    key: jax.Array, world: Task, config: Config, state: State | None = None, first: int = 0, epochs: int | None = None
) -> tuple[State, Info]:
    """Trains one agent for epochs `first`, `first` + 1, …, by default as many as the configuration says.

    The task is simulated on the host, so this function cannot be jitted; a `Fleet` trains many agents together.
    Training in chunks (`state=…, first=…`) gives the same result as training in one call. Returns the state and an
    `Info` with the epochs along the first axis of all arrays.
    """
    fleet = Fleet(key[None], world, config)
    states = fleet.init() if state is None else jax.tree_util.tree_map(lambda leaf: jnp.array(leaf)[None], state)
    if state is not None:
        fleet.set(state.simulator)
    states, told = states._replace(simulator=None), []
    for number in range(first, first + (config.epochs if epochs is None else epochs)):
        states, info = fleet.epoch(states, number)
        told.append(info)
    one: State = jax.tree_util.tree_map(lambda leaf: leaf[0], states)
    info = jax.tree_util.tree_map(lambda *leaves: np.stack(leaves)[:, 0], *told)
    return one._replace(simulator=fleet.get()), info
