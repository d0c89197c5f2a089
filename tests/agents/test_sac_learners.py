"""Many SAC agents at once: training in parts, steps in blocks, shared simulations, and what agents do afterwards."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.test_sac import KEY, KINDS, LEAVES, TASK, TINY, constant_networks
from wane.agents import sac
from wane.agents.common.driving import drive
from wane.agents.sac import Learners, Variant, algorithm
from wane.agents.sac.players import PlayerProcesses
from wane.settings import SettingError


@pytest.fixture(scope="module")
def learners(quick_compilation):
    """Three kinds with one key each, trained for two epochs at once."""
    kinds = [KINDS[name] for name in ("two", "bandit", "average")]
    variants = Variant(*(jnp.asarray(column) for column in zip(*kinds, strict=True)))
    made = Learners(jnp.stack([KEY] * 3), TASK, TINY, variants)
    states, infos = made.init(), []
    for number in range(2):
        states, info = made.epoch(states, number)
        infos.append(info)
    return made, variants, states, infos


def test_training_in_parts_is_training_at_once(learners):
    """Others get what the first one saved after one epoch, and ends at the same numbers, bit for bit."""
    made, variants, states, infos = learners
    one = Learners(made.keys, TASK, TINY, variants)
    between, _ = one.epoch(one.init(), 0)
    other = Learners(made.keys, TASK, TINY, variants)
    saved = jax.tree_util.tree_map(np.array, (between, one.get()))
    other.set(saved[1])
    after, info = other.epoch(jax.tree_util.tree_map(jnp.asarray, saved[0]), 1)
    for mine, theirs in zip(LEAVES((after, info, other.get())), LEAVES((states, infos[1], made.get())), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.fuzz
@pytest.mark.parametrize("index", range(3))
def test_agents_together_are_each_of_them_alone(index, learners):
    """Acting, episodes, the bandit's draws and updates, for two epochs."""
    made, variants, states, infos = learners
    alone = Learners(made.keys[:1], TASK, TINY, Variant(*(column[index : index + 1] for column in variants)))
    found = alone.init()
    for number in range(2):
        found, info = alone.epoch(found, number)
        for mine, theirs in zip(LEAVES(info), LEAVES(infos[number]), strict=True):
            np.testing.assert_allclose(mine[0], theirs[index], rtol=1e-5, atol=1e-7)
    for mine, theirs in zip(LEAVES(found), LEAVES(states), strict=True):
        np.testing.assert_allclose(mine[0], theirs[index], rtol=1e-5, atol=1e-7)


def test_what_epochs_measure(learners):
    _, _, states, infos = learners
    assert int(states.replay.added[0]) == 19  # the last of 20 steps waits to be learned from
    assert (states.bandit.episodes == 2).all()  # episodes have 7 steps
    assert [info.greedy.shape for info in infos] == [(3,), (3,)]
    assert np.isfinite(infos[0].terms.critic).all()
    assert (infos[1].terms.lam[0], set(np.ravel(infos[1].terms.features[1:] > 0))) == (1, {True})
    np.testing.assert_allclose(infos[1].probabilities.sum(1), 1)
    # Rows hold where a step led, not where the next episode began.
    rows = algorithm.unpack(states.replay.items[0][:19], TASK)
    follows = np.all(np.isclose(rows.next_observation[:-1], rows.observation[1:]), 1)
    assert np.flatnonzero(~follows).tolist() == [6, 13]
    assert not rows.terminated.any()  # truncated steps bootstrap


def test_steps_in_blocks(learners):
    """There are as many updates as steps, and training in parts gives the same result."""
    config, found = dataclasses.replace(TINY, block=2), []
    for parts in (False, True):
        made = Learners(learners[0].keys, TASK, config, learners[1])
        states, infos = made.epoch(made.init(), 0)
        if parts:
            states, saved = jax.tree_util.tree_map(np.array, (states, made.get()))
            states, made = jax.tree_util.tree_map(jnp.asarray, states), Learners(made.keys, TASK, config, learners[1])
            made.set(saved)
        found.append((*made.epoch(states, 1), infos, made._pending))
    for mine, theirs in zip(LEAVES(found[0]), LEAVES(found[1]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    states = found[0][0]
    assert int(states.replay.added[0]) == 18  # the last block of two steps waits to be learned from
    assert (states.optimisers.critics[0].count == 12).all()  # updates begin after 8 of 20 steps
    assert (states.bandit.episodes == 2).all()
    rows = algorithm.unpack(states.replay.items[0][:18], TASK)
    follows = np.all(np.isclose(rows.next_observation[:-1], rows.observation[1:]), 1)
    assert np.flatnonzero(~follows).tolist() == [6, 13]


def test_a_lambda_f_with_lambda_one_changes_neither_values_nor_policy(quick_compilation):
    """SAC with one critic is contained in 1-SAC, which therefore need not be trained twice."""
    kinds = [KINDS[name] for name in ("unit", "two", "one")]
    variants = Variant(*(jnp.asarray(column) for column in zip(*kinds, strict=True)))
    learners = Learners(jnp.stack([KEY] * 3), TASK, TINY, variants)
    states, one = learners.epoch(learners.init(), 0)
    states, two = learners.epoch(states, 1)
    first = jax.tree_util.tree_map(lambda leaf: leaf[:, 0], (states.critics.hidden, states.critics.q))
    same = states.params, states.log_temperature, states.replay, first, one.greedy, two.greedy, two.terms.critic
    for leaf in LEAVES(same):
        np.testing.assert_array_equal(leaf[0], leaf[2])
    assert not np.array_equal(two.terms.critic[0], two.terms.critic[1])
    assert not np.array_equal(states.critics.features.weight[0], states.critics.features.weight[2])


@pytest.mark.slow
def test_several_processes_play_as_one(learners, quick_compilation):
    """Several processes give the same numbers, bit for bit, and each can continue from what the other saved."""
    made, variants = learners[:2]
    config, found = dataclasses.replace(TINY, block=2), []
    alone, several = (Learners(made.keys, TASK, config, variants, processes=count) for count in (1, 2))
    begin = alone.get()
    for first, second in ((alone, several), (several, alone)):
        first.set(begin)
        states, one = first.epoch(first.init(), 0)
        second.set(first.get())
        states, two = second.epoch(states, 1)
        found.append((states, one, two, second.get()))
    for mine, theirs in zip(LEAVES(found[0]), LEAVES(found[1]), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_process_that_fails_or_ends_is_named(learners, quick_compilation):
    several = PlayerProcesses(learners[0].keys[:1], TASK, dataclasses.replace(TINY, block=2), 2)
    with pytest.raises(RuntimeError, match="a process that simulates the task failed:[^$]*no_such_method"):
        several._ask("no_such_method")
    several._pipes[0].send(("get",))
    assert several._pipes[0].recv()[1] is None  # It still answers.
    several._processes[0].kill()
    several._processes[0].join()
    with pytest.raises(RuntimeError, match="a process that simulates the task ended"):
        several.get()


def test_two_critics_and_a_lambda_f_need_three_networks(learners):
    both = Variant(critics=2, lam=0.5, lambda_features=True)
    too_few = pytest.raises(SettingError, match="networks = 2: 3 are needed, because an agent has two critics and a λF")
    with too_few:
        algorithm.init(KEY, TASK, both.applied(TINY))
    with too_few:
        Learners(KEY[None], TASK, TINY, Variant(*(jnp.asarray([setting]) for setting in both)))
    config = both.applied(dataclasses.replace(TINY, networks=3))
    state = constant_networks(algorithm.init(KEY, TASK, config), [5.0, 4.0], [1.0, 2.0, 3.0, 4.0])
    hidden = state.target.hidden.layers[0]
    # The second network has hidden units of 1, and the others of 0. The λF is the third network.
    raised = dataclasses.replace(hidden, bias=hidden.bias.at[1].set(1.0))
    target = state.target._replace(
        hidden=dataclasses.replace(state.target.hidden, layers=(raised,)),
        q=dataclasses.replace(state.target.q, weight=jnp.ones_like(state.target.q.weight)),
        features=dataclasses.replace(state.target.features, weight=jnp.ones_like(state.target.features.weight)),
    )
    q, phi_lam = algorithm.evaluate(algorithm.needed_networks(target, config), jnp.zeros((1, 4)))
    assert q.tolist() == [[5], [4 + 5]]
    assert phi_lam.tolist() == [[1, 2, 3, 4]]


def test_test_episodes_begin_in_different_states():
    learners = Learners(KEY[None], TASK, dataclasses.replace(TINY, evaluation_episodes=3))
    player, policies = learners.player, tuple(LEAVES(learners.init().params))
    player.evaluate(policies, 0)
    first = TASK.copies(player.tests.seeds).observation
    assert len(np.unique(first[:, 0])) == 3
    before = player.tests.seeds
    player.evaluate(policies, 1)
    assert not set(before) & set(player.tests.seeds)


@pytest.mark.fuzz
@pytest.mark.usefixtures("quick_compilation")
def test_train_goes_on_where_it_stopped():
    config = KINDS["bandit"].applied(TINY)
    whole, info = sac.train(KEY, TASK, config)
    part, first = sac.train(KEY, TASK, config, epochs=1)
    again, second = sac.train(KEY, TASK, config, part, first=1, epochs=1)
    for mine, theirs in zip(LEAVES(whole), LEAVES(again), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(info.greedy, np.concatenate([first.greedy, second.greedy]))


def test_policies(learners):
    _, _, states, _ = learners
    actor = jax.tree_util.tree_map(lambda leaf: leaf[0], states.params)
    mean = sac.policy(actor, TASK, TINY)
    played = drive(KEY, TASK, mean, 3, 0.9)
    assert played.states.shape == (3, 8, 2)
    # The last step is part of the episode: no angle jumps to where the next episode begins.
    assert np.abs(np.diff(played.states[..., 0])).max() < 0.5
    assert played.value[0] == pytest.approx(sum(0.9**t * r for t, r in enumerate(played.rewards[0])))
    again = drive(KEY, TASK, mean, 3, 0.9)
    np.testing.assert_array_equal(played.actions, again.actions)
    drawn = drive(KEY, TASK, sac.sampled_policy(actor, TASK, TINY), 3, 0.9)
    assert np.all(np.abs(drawn.actions) <= 1)
    assert not np.allclose(drawn.actions, played.actions)
    single = dataclasses.replace(TINY, spread="deviation")
    x = jnp.ones(3)
    np.testing.assert_allclose(
        algorithm.action_distribution(actor, x, single)[1], 2 * algorithm.action_distribution(actor, x, TINY)[1]
    )
