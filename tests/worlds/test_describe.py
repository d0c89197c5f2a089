"""What is described is what comes back, and nothing that is wrong gets in."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from wane.worlds import OBSERVATIONS, World, make, names
from wane.worlds.describe import (
    KINDS,
    depletion_from_description,
    describe,
    describe_depletion,
    from_description,
)

fractions = st.floats(0, 1)
rates = st.floats(1e-3, 1e3)


def per_site(numbers, sites):
    """One number, or an array with one for each site."""
    return st.one_of(numbers, st.lists(numbers, min_size=sites, max_size=sites).map(np.array))


def depletions(sites=3):
    forms = st.sampled_from(["reward", "representation"])
    drop, regrow = per_site(fractions, sites), per_site(st.floats(0.1, 1), sites)
    values = st.lists(st.one_of(st.integers(-5, 5), st.floats(-5, 5)), min_size=1, max_size=5)
    return st.one_of(
        st.builds(wane.Geometric, per_site(fractions, sites)),
        st.builds(wane.FirstVisits, per_site(st.integers(0, 2**40), sites)),
        st.builds(wane.Hyperbolic, per_site(rates, sites)),
        st.builds(wane.PowerLaw, per_site(st.floats(0.05, 50), sites)),
        st.builds(wane.Listed, values, st.floats(-1, 1)),
        st.builds(wane.TimeElapsed, per_site(fractions, sites), per_site(rates, sites)),
        st.builds(wane.EligibilityTrace, drop, regrow, forms),
        st.builds(wane.TotalTime, drop, regrow, forms),
    )


def assert_same(one, two):
    """The same type, the same values, the same precision."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
    if isinstance(one, tuple):
        assert [type(value) for value in one] == [type(value) for value in two]
    np.testing.assert_array_equal(one, two)


def through_json(description):
    return json.loads(json.dumps(description, allow_nan=False))


@given(depletions())
def test_depletions_come_back_exactly(depletion):
    again = depletion_from_description(through_json(describe_depletion(depletion)))
    assert type(again) is type(depletion)
    for field in dataclasses.fields(depletion):
        assert_same(getattr(again, field.name), getattr(depletion, field.name))


def test_every_depletion_of_the_package_is_known():
    public = {name for name in wane.__all__ if eqx.is_array_like(getattr(wane, name)) is False}
    classes = {name for name in public if isinstance(getattr(wane, name), type)}
    expected = {name for name in classes if issubclass(getattr(wane, name), wane.Depletion)}
    assert set(KINDS) == expected - {"Depletion", "Diminishing"}


def test_descriptions_by_hand():
    assert describe_depletion(wane.Geometric(0.5)) == {"kind": "Geometric", "lam": 0.5}
    assert describe_depletion(wane.FirstVisits(2)) == {"kind": "FirstVisits", "n": 2}
    assert describe_depletion(wane.Geometric(jnp.asarray(0.5))) == {"kind": "Geometric", "lam": 0.5}
    trace = {"kind": "EligibilityTrace", "drop": [0.5, 0.25], "regrow": 0.5, "equation": "reward"}
    assert describe_depletion(wane.EligibilityTrace([0.5, 0.25], 0.5)) == trace
    assert isinstance(describe_depletion(wane.FirstVisits(np.int32(2)))["n"], int)
    toy = describe(make("toy"))
    assert toy["map"] == "#####\n#1S2#\n#####"
    assert (toy["sites"], toy["rewards"], toy["start"]) == ([0, 2], [10.0, 6.0], [0.0, 1.0, 0.0])
    assert (toy["horizon"], toy["threshold"], toy["timing"]) == (10, None, "arrival")
    assert toy["policies"] == [[4, 3, 3], [1, 1, 4]]


@st.composite
def settings_of_worlds(draw):
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    letters = np.full((rows, columns), ".")
    letters[0, 0] = "a"
    n = rows * columns
    sites = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=min(3, n)))
    weights = np.array(draw(st.lists(st.floats(0.1, 1), min_size=n, max_size=n)))
    n_actions = draw(st.sampled_from([4, 5]))
    actions = draw(st.lists(st.integers(0, n_actions - 1), min_size=n, max_size=n))
    name = draw(st.sampled_from(["index", "one-hot", "cell", "symbolic"])) + draw(st.sampled_from(["", "+remaining"]))
    return dict(
        map="\n".join("".join(row) for row in letters),
        sites=sites,
        rewards=draw(st.lists(st.floats(-10, 10), min_size=len(sites), max_size=len(sites))),
        depletion=draw(depletions(len(sites))) if sites else wane.Geometric(0.3),
        start=weights / weights.sum(),
        discount=draw(fractions),
        horizon=draw(st.one_of(st.none(), st.integers(1, 100))),
        threshold=draw(st.one_of(st.none(), st.floats(0, 1))),
        n_actions=n_actions,
        slip=draw(fractions),
        wall_penalty=draw(st.floats(0, 5)),
        timing=draw(st.sampled_from(["arrival", "departure"])),
        observation=name,
        policies=[actions, np.full((n, n_actions), 1 / n_actions)],
    )


@given(settings_of_worlds())
def test_worlds_come_back_exactly(settings):
    world = World(**settings)
    again = from_description(through_json(describe(world)))
    assert again.map.text == world.map.text
    assert len(again.policies) == len(world.policies)
    for one, two in zip(again.policies, world.policies, strict=True):
        assert_same(one, two)
    for field in dataclasses.fields(world):
        if field.name not in ("map", "depletion", "policies"):
            assert_same(getattr(again, field.name), getattr(world, field.name))
    assert describe_depletion(again.depletion) == describe_depletion(world.depletion)
    assert describe(again) == describe(world)


@pytest.mark.parametrize("name", names())
def test_the_catalogue_comes_back_and_plays_alike(name):
    world = make(name, slip=0.25)
    again = from_description(through_json(describe(world)))
    key = jax.random.key(0)
    one, two = (room.step(key, room.reset(key)[1], 1) for room in (world, again))
    jax.tree_util.tree_map(np.testing.assert_array_equal, one, two)
    assert again.discount == world.discount


def test_what_is_left_out_has_its_default():
    world = from_description({"map": "a.b", "sites": "ab", "rewards": [1, 2]})
    assert (world.discount, world.horizon, world.depletion.lam) == (0.99, None, 0.5)
    assert world.sites.tolist() == [0, 2]


class Bored(wane.Diminishing):
    def worth(self, memory):
        return 1 / (1 + memory) ** 2


class Geometric(wane.Geometric):
    """A class of the user's own with a name of the package's."""


@pytest.mark.parametrize("own", [Bored(), Geometric(0.5)])
def test_depletions_of_ones_own_are_refused(own):
    with pytest.raises(TypeError, match=r"depletion of your own, which cannot be saved.*dataclasses.replace"):
        describe(make("corridor", depletion=own))


def test_observations_of_ones_own_are_refused():
    with pytest.raises(TypeError, match="is a function, which cannot be saved"):
        describe(make("corridor", observation=lambda cell, facing, worth: worth))


def test_traced_settings_are_refused():
    def total(lam):
        describe(make("corridor", depletion=wane.Geometric(lam)))
        return lam

    with pytest.raises(TypeError, match="Geometric.lam is not known while JAX traces"):
        jax.jit(total)(0.5)


CORRIDOR = describe(make("corridor", length=3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depletion": {"kind": "os.system"}}, "unknown kind of depletion 'os.system': there are Geometric"),
        ({"depletion": {"kind": "Depletion"}}, "unknown kind of depletion 'Depletion'"),
        ({"depletion": {"lam": 0.5}}, 'a dictionary with its "kind"'),
        ({"depletion": "Geometric"}, 'a dictionary with its "kind"'),
        ({"depletion": {"kind": "Geometric"}}, "a Geometric lacks 'lam'"),
        ({"depletion": {"kind": "Geometric", "lam": 0.5, "k": 1}}, "a Geometric has no 'k': it has lam"),
        ({"depletion": {"kind": "Geometric", "lam": 2.0}}, r"must lie in \[0, 1\], got 2"),
        ({"depletion": {"kind": "Geometric", "lam": "0.5"}}, "Geometric.lam is a number, got '0.5'"),
        ({"depletion": {"kind": "Geometric", "lam": True}}, "Geometric.lam is a number, got True"),
        ({"depletion": {"kind": "Geometric", "lam": [[0.1], [0.2, 0.3]]}}, "rows of Geometric.lam have different"),
        ({"depletion": {"kind": "FirstVisits", "n": [2**70, 1]}}, "too large for 64 bits"),
        ({"depletion": {"kind": "TotalTime", "drop": 0.5, "regrow": 0.5, "equation": 3}}, "equation is text, got 3"),
        ({"map": 5}, "map is text, got 5"),
        ({"map": "###"}, "a map needs a free cell"),
        ({"sites": 3}, "sites is a list, got 3"),
        ({"sites": ["__import__('os')"]}, "sites is a number"),
        ({"rewards": ["1", "2"]}, "rewards is a number, got '1'"),
        ({"rewards": [1.0]}, "one finite r̄ for each of the 2 sites"),
        ({"horizon": "ten"}, "horizon is a number, got 'ten'"),
        ({"horizon": 0}, "horizon is a whole number of steps, from 1 to 2,147,483,647"),
        ({"n_actions": None}, "n_actions is a number, got None"),
        ({"timing": ["arrival"]}, "timing is text"),
        ({"observation": "smell"}, "unknown observation 'smell'"),
        ({"observation": {"code": "print()"}}, 'an observation is a dictionary with its "kind"'),
        ({"observation": {"kind": "first-person", "size": [8, "x"]}}, "FirstPerson.size is a number, got 'x'"),
        ({"observation": {"kind": "os.system"}}, "unknown kind of observation 'os.system'"),
        ({"observation": 7}, "observation is text, got 7"),
        ({"start": [0.5, 0.5, 0.5]}, "sum to 1"),
        ({"policies": [[0, 9, 0]]}, "takes action 9 in state 1"),
        ({"discount": None}, "discount is a number, got None"),
        ({"colour": "red"}, "a world has no 'colour': it has map, sites"),
    ],
)
def test_wrong_descriptions_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_description(CORRIDOR | change)


def test_a_description_is_a_dictionary_with_a_map():
    with pytest.raises(ValueError, match="a world is described by a dictionary, got 'corridor'"):
        from_description("corridor")
    with pytest.raises(ValueError, match="the description of a world lacks 'map'"):
        from_description({"sites": [0], "rewards": [1.0]})
    assert set(OBSERVATIONS) >= {"index", "first-person"}
