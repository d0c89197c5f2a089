"""Steps in NumPy are the steps of the compiled world, for one world and for a batch."""

import dataclasses

import jax
import numpy as np
import pytest

import wane
from stepping import DEPLETIONS, OBSERVATIONS, as_numpy, assert_close, assert_steps_like_the_compiled_world, variety
from wane.worlds import make, names
from wane.worlds.payments import LONGEST_TABLE, Counted, Remembered, payments
from wane.worlds.simulate import Copies, Single


@pytest.mark.parametrize("name", [name for name in names() if "my-" not in name])
def test_every_world(name):
    """All worlds, with depletions, slips and observations in turn; `make fuzz` tests all of them with all others."""
    number = names().index(name)
    depletion = list(DEPLETIONS.values())[number % len(DEPLETIONS)]
    world = make(name, depletion=depletion)
    transitions = assert_steps_like_the_compiled_world(dataclasses.replace(world, **variety(number, world)))
    assert sum((outcome[3] >= 0).sum() for *_, outcome in transitions) > 5, "there were visits"


def test_every_observation_of_one_world():
    """The transitions are known to be right; here each observation of their states is compared."""
    rooms = make("corridor", length=4, depletion=wane.Geometric([0.5, 0.25]))
    worlds = {name: dataclasses.replace(rooms, observation=name) for name in [*OBSERVATIONS, "top-down+remaining"]}
    compiled = jax.jit(jax.vmap(lambda state: {name: as_numpy(world.observe(state)) for name, world in worlds.items()}))
    batches = {name: Copies(world, 3) for name, world in worlds.items()}
    singles = {name: Single(world) for name, world in worlds.items()}
    for simulation in (*batches.values(), *singles.values()):
        simulation.reset(0.3 if isinstance(simulation, Single) else np.array([0.3, 0.6, 0.9]))
    for actions in np.random.default_rng(0).integers(0, 5, (12, 3)):
        for name in worlds:
            batches[name].step(actions)
            singles[name].step(int(actions[0]))
        expected = compiled(batches["index"].state)
        for name in worlds:
            assert_close(batches[name].observe(), expected[name], name)
            assert_close(singles[name].observe(), jax.tree.map(lambda part: part[0], expected[name]), name)


def test_flat_observations_by_hand():
    world = make("corridor", length=3, rewards=[4.0, 8.0], observation="index+remaining+flat")
    single = Single(world)
    single.begin(1)
    single.step(1)
    assert single.observe().tolist() == [0, 0, 1, 0.5, 0.5], "the cell, then what remains, in units of 8"
    assert single.observe().dtype == np.float32
    seen, state = world.begin(1)
    assert seen.tolist() == [0, 1, 0, 0.5, 1]
    cell = dataclasses.replace(world, observation="cell+remaining+flat")
    assert cell.observe(state).tolist() == [1, 2, 0.5, 1]
    symbols = dataclasses.replace(world, observation="symbolic+flat")
    assert symbols.observe(state).tolist() == [1, 1, 1, 1, 1, 1, 3, 2, 4, 1, 1, 1, 1, 1, 1]


def test_what_is_tabulated_and_what_is_asked():
    rewards = np.array([1.0, 2.0])
    kinds = {name: type(payments(depletion, rewards)) for name, depletion in DEPLETIONS.items()}
    counted = {"geometric", "first-visits", "hyperbolic", "power-law", "listed", "written-in-jax"}
    assert {name for name, kind in kinds.items() if kind is Counted} == counted
    assert {name for name, kind in kinds.items() if kind is Remembered} == set(DEPLETIONS) - counted


def test_more_visits_than_the_table_holds():
    curve = wane.Hyperbolic(np.array([1.0, 0.5]))
    one, many = payments(curve, np.array([1.0, 2.0])), payments(curve, np.array([1.0, 2.0]), (2,))
    visits = LONGEST_TABLE + 20
    for _ in range(visits):
        one.advance((1,))
        many.advance((np.array([0]), np.array([1])))
    expected = 2 / (1 + 0.5 * visits)
    assert one.remaining.tolist() == [1.0, pytest.approx(expected, rel=1e-12)]
    assert many.remaining.tolist() == [[1.0, pytest.approx(expected, rel=1e-12)], [1.0, 2.0]]
    many.begin(np.array([True, False]))
    assert many.remaining.tolist() == [[1.0, 2.0]] * 2
    many.advance((np.array([1]), np.array([0])))
    assert many.remaining.tolist() == [[1.0, 2.0], [0.5, 2.0]]


def test_a_batch_begins_anew_in_the_same_step():
    world = make("corridor", length=5, horizon=2, observation="index+remaining")
    batch, rng = Copies(world, 2), np.random.default_rng(0)
    batch.reset(np.array([0.5, 0.5]))
    seen, reward, terminated, truncated, final = batch.auto_step(np.array([1, 3]), rng)
    assert (seen["view"].tolist(), final) == ([3, 1], None)
    seen, reward, terminated, truncated, final = batch.auto_step(np.array([1, 3]), rng)
    assert reward.tolist() == [1, 1]
    assert truncated.tolist() == [True, True]
    assert not terminated.any()
    assert final["view"].tolist() == [4, 0]
    assert final["remaining"].tolist() == [[1, 0.5], [0.5, 1]]
    assert seen["view"].tolist() == [2, 2]
    assert seen["remaining"].tolist() == [[1, 1], [1, 1]]


def test_nothing_that_is_returned_changes_later():
    for name in ("index", "one-hot+remaining", "cell", "symbolic+flat"):
        batch = Copies(make("corridor", length=5, observation=name), 2)
        batch.reset(np.array([0.5, 0.5]))
        kept, remaining = batch.observe(), batch.remaining
        before = jax.tree.map(np.copy, (kept, remaining))
        for action in (1, 1, 4):
            batch.step(np.array([action, 3]))
        np.testing.assert_equal((kept, remaining), before)
