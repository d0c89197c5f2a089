"""Arguments are checked before anything is computed: nothing is fitted here, so nothing may be asked to be."""

import numpy as np
import pandas as pd
import pytest

from foraging.test_fitting import TASK, make_data
from wane import foraging
from wane.foraging import ConstantHazard, HarvestCount

VISITS = pd.DataFrame({"patch": ["oak"], "arrival": [1.0], "departure": [5.0]})
TIMES = np.arange(4.0)


@pytest.fixture(scope="module")
def data():
    return make_data(animals=2, visits=8)


@pytest.fixture
def no_fits(monkeypatch):
    """A search for a maximum is an error."""
    monkeypatch.setattr("wane.foraging.fitting.solve", None)
    monkeypatch.setattr("wane.foraging.patch_curves._fit", None)


@pytest.mark.usefixtures("no_fits")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda d: foraging.fit(d, ConstantHazard(), starts=0),
            "starts = 0: a whole number between 1 and 1,000,000 is",
        ),
        (lambda d: foraging.fit(d, ConstantHazard(), seed=-1), "seed = -1: a whole number between 0 and"),
        (
            lambda d: foraging.fit(d, ConstantHazard(), level=1),
            "level = 1: the probability of an interval, a number abo",
        ),
        (
            lambda d: foraging.fit(d, ConstantHazard(), intervals="x"),
            'intervals = x: "hessian", "profile" or "none" is',
        ),
        (
            lambda d: foraging.compare(d, [ConstantHazard()], blocks=1.5),
            "blocks = 1.5: a whole number of blocks between",
        ),
        (lambda d: foraging.compare(d, [ConstantHazard()], blocks=1), "blocks = 1: a whole number between 2 and 4"),
        (
            lambda d: foraging.compare(d, [ConstantHazard()], blocks=9),
            "because subject 0 has 4 visits in environment 'ri",
        ),
        (lambda d: foraging.compare(d, []), "the list of models is empty: name one model at least"),
        (lambda d: foraging.recover(ConstantHazard(), d, fits=0), "fits = 0: a whole number"),
        (lambda d: foraging.recover(ConstantHazard(), d, intervals="x"), "intervals = x"),
        (
            lambda d: foraging.simulate(HarvestCount(), d, {"half": 5.0}),
            "params has no 'slope'; give each of them, by it",
        ),
        (lambda d: foraging.simulate(ConstantHazard(), d, {"chance": 0.1, "k": 1}), "params has an unknown 'k'; give"),
        (
            lambda d: foraging.simulate(ConstantHazard(), d, {"chance": np.inf}),
            "the parameter chance is inf: give a fin",
        ),
        (lambda d: foraging.confusion([ConstantHazard()] * 2, d), "two models are called 'ConstantHazard'"),
        (lambda d: foraging.confusion([ConstantHazard()], d, copies=4.5), "copies = 4.5: a whole number between 4 and"),
        (
            lambda d: foraging.confusion([ConstantHazard()], d, params={"x": {}}),
            "unknown model in params 'x': there are",
        ),
        (lambda d: foraging.confusion([ConstantHazard()], d, criterion="x"), 'criterion = x: "aic" or "bic" is needed'),
        (lambda d: foraging.from_events(VISITS, step=1, end=np.inf), "end = inf: a number that is finite is needed"),
        (lambda d: foraging.from_events(VISITS, step="1"), "step = 1: a number above 0 is needed"),
        (
            lambda d: foraging.Cleaning(fill=-1),
            "fill = -1: a whole number of steps of",
        ),
        (
            lambda d: foraging.Cleaning(shortest=-1),
            "shortest = -1: a whole number of",
        ),
        (
            lambda d: foraging.Cleaning(tolerance=11),
            "tolerance = 11: a number of steps",
        ),
        (
            lambda d: foraging.fit_depletion(VISITS, noise="normal", level=2),
            "level = 2: the probability of an interval",
        ),
        (
            lambda d: foraging.threshold(6.0, 1.0, 1, 50, rule="chanrov"),
            'rule = chanrov: "charnov", .*; did you mean char',
        ),
        (lambda d: foraging.empirical_kernel([[0, 1]], 2, prior=-1), "prior = -1: a number of at least 0 is needed"),
        (lambda d: foraging.empirical_policy([[0]], [], 2, 2), "1 sequences of states and 0 of actions: give as many"),
        (lambda d: foraging.from_stays(d.table, TASK, patches=3), 'patches is 3: give "fresh" if every visit finds a'),
        (lambda d: foraging.from_track(TIMES, TIMES, TIMES, patches={"a": "oak"}), "patch 'a': give Circle"),
        (
            lambda d: d.where(pd.Series([True])),
            r"rows has the shape \(1,\): give True or False for each of the 16 visits",
        ),
        (lambda d: foraging.rats("all"), 'last_harvest = all: "chosen" or "forced" is needed'),
    ],
)
def test_numbers_and_words_are_checked_first(data, call, message):
    with pytest.raises(ValueError, match=message):
        call(data)


@pytest.mark.usefixtures("unchecked_types")
def test_fields_are_checked_like_arguments():
    with pytest.raises(ValueError, match="fill = 1.5: a whole number of steps"):
        foraging.Cleaning(fill=1.5)


@pytest.mark.usefixtures("no_fits", "unchecked_types")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda d: foraging.fit(d.table, ConstantHazard()),
            r"data is a DataFrame, and a PatchVisits .*: call from_stays\(",
        ),
        (
            lambda d: foraging.compare(TASK, [ConstantHazard()]),
            r"data is a Task, and a PatchVisits is needed: call from_",
        ),
        (
            lambda d: foraging.fit(d, ConstantHazard),
            r"model is the class ConstantHazard, and a Model is needed: make one",
        ),
        (lambda d: foraging.fit(d, "theorem"), r"model is the text 'theorem', and a Model is needed: .*find_model\("),
        (lambda d: foraging.compare(d, ConstantHazard()), "models is a ConstantHazard, and a list is needed"),
        (
            lambda d: foraging.compare(d, [ConstantHazard]),
            r"models\[0\] is the class ConstantHazard, and a Model is needed",
        ),
        (
            lambda d: foraging.from_stays(d.table, {}, patches="fresh"),
            r"task is a dict, and a Task is needed: describe",
        ),
        (
            lambda d: foraging.optimal_harvests(TASK, 0.9),
            r"discount is 0.9, and a Discount is needed: make one, such as",
        ),
        (
            lambda d: foraging.gain_curve(VISITS),
            r"recording is a DataFrame, and a Recording is needed: call from_events",
        ),
        (
            lambda d: foraging.cross_validate(d, 5),
            r"found is a PatchVisits, and a Fit is needed: call fit\(data, model\)",
        ),
        (
            lambda d: foraging.figures.draw_comparison(d),
            r"found is a PatchVisits, and a Comparison is needed: call compare",
        ),
        (
            lambda d: foraging.Task([1.0], {"rich": 1}),
            r"rewards is a list, and a dictionary is needed, with a value for",
        ),
    ],
)
def test_things_of_another_kind_are_told_with_what_makes_the_right_one(data, call, message):
    with pytest.raises(TypeError, match=message):
        call(data)
