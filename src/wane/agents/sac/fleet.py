"""Many agents that learn at the same time: the task on the host, the networks and the memory on the device.

Every agent plays in its own copy of the task. All copies take a step together, and one compiled program runs all
agents. The steps come in blocks of `Config.block` steps. The block of steps t, t + 1, … goes like this:

    policies ← the agents' present policies    for a block of several steps, they are copied to the host
    act, step, act, step, …                    on the host, in a separate thread
    learn(transitions of the last block)       on the device, at the same time: for each step of the block, remember its
                                               transitions and update every agent once

So stepping and learning overlap, and there are as many updates as steps. A transition can first take part in an update
one block after it was made, and a policy acts for a whole block. A block of one step is nearest to a loop that waits:
actions travel to the host and transitions to the device at every step. The updates of a larger block are one program,
and nothing travels before it ends.

SAC with one critic and SAC with λ = 1 and a λF act alike, because the λF does not change the values. Agents that act
alike and have the same key share a copy of the task if they step in blocks, so nothing is simulated twice.

Agents may differ in the numbers of a `Variant`. Step t of an agent uses fold_in(key, t), so training in chunks gives
the same result as training in one call. `get` and `set` save and restore what lives on the host.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from wane.agents import bandit
from wane.agents.common.networks import MLP
from wane.agents.sac import training
from wane.agents.sac.config import Config
from wane.agents.sac.programs import act_best, init_all, make_programs, take_apart
from wane.agents.sac.training import State, Terms, Variant
from wane.types import Tree
from wane.worlds.control import Outcome, Task

EXPLORE, EVALUATE = 2**32 - 2, 2**32 - 3
"""Folded into a key, these numbers give the seeds of the task for training and for evaluations. No step has them."""


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
        self, keys: jax.Array, task: Task, config: Config, variants: Variant | None = None, threads: int | None = None
    ):
        """Makes the agents' copies of the task. Each field of `variants` has one number for each agent.

        Without `variants`, all agents have the settings of `config`.
        """
        self.keys, self.task, self.config, self.variants = keys, task, config, variants
        if variants is not None:
            training.require_networks(config, variants.critics, variants.feature_weight)
        # The agents that play, and the copy of the task in which each agent's steps are taken.
        self._players, self._copy = players(keys, variants) if config.block > 1 else (np.arange(len(keys)),) * 2
        self._batch = task.batch(self._seeds(EXPLORE), threads)
        self._test_seeds = np.repeat(self._seeds(EVALUATE), config.evaluation_episodes).tolist()
        self._tests = task.batch(self._test_seeds, threads)
        # A separate thread takes the steps: on a GPU, starting the many small kernels of an update keeps the thread
        # that starts them busy for as long as the update takes.
        self._stepper = ThreadPoolExecutor(1)
        self._wide = bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]
        # The transitions of the last block, which the next call of `learn` takes.
        self._pending = np.zeros((config.block, len(keys), training.row_size(task) + 2), np.float32)
        self._keys_to_act = self._to_act(keys)

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
            act = partial(programs.act, self._to_act(leaves[: programs.n_policy]), self._keys_to_act)
            # The first actions are computed before the update begins: the device computes one thing after another.
            taken = np.asarray(act(self._batch.observation, t))
            stepping = self._stepper.submit(self._play, act, taken, t)
            if t >= config.collection_steps:
                leaves, sums = programs.learn(leaves, sums, self.keys, self.variants, self._pending, t)
                updates += config.block
            elif t > 0:
                leaves = programs.remember(leaves, self.keys, self.variants, self._pending, t)
            self._pending, ended, returns = stepping.result()
            finished += ended
            earned += returns
        states = jax.tree_util.tree_unflatten(structure, leaves)
        return states, self._tell(states, sums, updates, finished, earned, number)

    def _to_act(self, tree: Tree) -> Any:
        """Returns a copy on the host of the players' arrays. A block of one step uses arrays where they are."""
        if self.config.block == 1:
            return tree
        own = jax.tree_util.tree_map(lambda leaf: leaf[self._players], tree)
        # `learn` donates the policies while the agents act by them, so a copy is needed on a machine without a GPU too.
        return jax.device_put(own, jax.devices("cpu")[0], may_alias=False)

    def _play(self, act: Callable[..., Array], taken: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Takes the steps of a block. Returns the transitions, and the number and sum of returns of ended episodes."""
        rows, ended, earned = [], np.zeros(len(taken)), np.zeros(len(taken))
        with jax.enable_x64(self._wide):  # A thread starts with the precision of the process, not of its parent.
            for i in range(self.config.block):
                seen = self._batch.observation
                taken = np.asarray(act(seen, t + i)) if i else taken
                outcome = self._batch.step(taken)
                rows.append(pack(seen, taken, outcome))
                ended += outcome.ended
                earned += np.where(outcome.ended, outcome.earned, 0.0)
        return np.stack(rows)[:, self._copy], ended[self._copy], earned[self._copy]

    def _tell(
        self, states: State, sums: Terms, updates: int, finished: np.ndarray, earned: np.ndarray, number: int
    ) -> Info:
        with np.errstate(invalid="ignore", divide="ignore"):
            means = Terms(*(np.asarray(each, float) / updates for each in sums)) if updates else _nothing(sums)
            returns = np.where(finished > 0, earned / finished, np.nan)
        chances = jax.vmap(bandit.probabilities)(states.bandit)
        return Info(self.evaluate(states.params, number), returns, means, np.asarray(chances))

    def evaluate(self, params: MLP, number: int) -> Float[np.ndarray, " agents"]:
        """The mean return of every agent's test episodes. They begin in different states for every epoch `number`."""
        each, tests, policies = self.config.evaluation_episodes, self._tests, self._to_act(params)
        # Several episodes of one agent begin in different states.
        words = [[seed, number, i % each] for i, seed in enumerate(self._test_seeds)]
        tests.restart([int(np.random.SeedSequence(word).generate_state(1)[0]) for word in words])
        total, live = np.zeros(len(self._test_seeds)), np.ones(len(self._test_seeds))
        for _ in range(self.task.steps):
            actions = act_best(policies, tests.observation.reshape(len(self._players), each, -1))
            outcome = tests.step(np.asarray(actions).reshape(len(total), -1))
            total += outcome.reward * live
            live *= ~outcome.ended
            if not live.any():
                break
        return total.reshape(-1, each).mean(1)[self._copy]

    def get(self) -> dict[str, Any]:
        """Returns what lives on the host: the copies of the task, and the transitions not yet in the replay memory."""
        return {"task": self._batch.get(), "pending": self._pending}

    def set(self, tree: Mapping[str, Any]) -> None:
        """Restores what `get` returned."""
        self._batch.set(tree["task"])
        self._pending = np.array(tree["pending"])

    def _seeds(self, kind: int) -> list[int]:
        bits = jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, kind)))
        return np.asarray(bits(self.keys))[self._players].tolist()


def players(
    keys: jax.Array, variants: Variant | None
) -> tuple[Int[np.ndarray, " players"], Int[np.ndarray, " agents"]]:
    """Returns the first agents of all groups that act alike, and for each agent the number of its group."""
    signs = [np.asarray(jax.random.key_data(keys)).reshape(len(keys), -1)]
    if variants is not None:
        critics, lam, adaptive, weight, averaging = (np.asarray(column, float) for column in variants)
        # The λF changes no value if λ = 1, and the bandit's settings change nothing unless λ is adaptive.
        signs.append(np.stack([critics, lam, adaptive, weight * ((lam < 1) | (adaptive > 0)), averaging * adaptive], 1))
    first, group = np.unique(np.concatenate(signs, 1), axis=0, return_index=True, return_inverse=True)[1:]
    order = np.argsort(first)
    return first[order], np.argsort(order)[group.ravel()]


def pack(
    observation: Float[np.ndarray, "agents observations"], action: Float[np.ndarray, "agents actions"], outcome: Outcome
) -> Float[np.ndarray, "agents numbers"]:
    """One array with the outcome of a step: rows of the memory, whether the episodes ended, and what they earned."""
    single = outcome.reward[:, None], outcome.terminated[:, None], outcome.ended[:, None], outcome.earned[:, None]
    reward, terminated, ended, earned = single
    parts = [observation, action, reward, outcome.next_observation, terminated, ended, earned]
    return np.concatenate(parts, 1, dtype=np.float32, casting="unsafe")


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
