"""The theorem and the exactly solved task, against brute force over all ways to leave."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

from wane import Geometric, foraging
from wane.foraging.theorem import preferences

TASK = foraging.Task(
    {"low": [6.0, 5, 4, 3, 2, 1], "odd": [0.0, 9, 1, 5, 0.5, 0]}, {"near": 1.0, "far": 4.0}, harvest=2.0
)


def annuity(s, t):
    return t if s == 0 else (1 - np.exp(-s * t)) / s


def best_by_brute_force(task, away, s):
    """The best numbers of harvests and their ρ, over all combinations."""
    h, longest = float(task.harvest), task.longest
    found = []
    for counts in itertools.product(range(1, longest + 1), repeat=len(task.kinds)):
        gained = [
            sum(np.exp(-s * h * (i + 1)) * row[i] for i in range(n)) for n, row in zip(counts, task.curve, strict=True)
        ]
        spent = [annuity(s, n * h + away) for n in counts]
        found.append((task.weights[0] @ gained / (task.weights[0] @ spent), counts))
    return max(found)


@pytest.mark.parametrize("s", [0.0, 0.05, 0.6])
def test_optimal_harvests_are_the_best_of_all(s):
    found = foraging.optimal_harvests(TASK, foraging.Exponential(s))
    for i, environment in enumerate(TASK.environments):
        rho, counts = best_by_brute_force(TASK, TASK.away[i], s)
        rows = found[found["environment"] == environment]
        assert rows["harvests"].tolist() == list(counts)
        if s == 0:
            assert rows["rate"].iloc[0] == pytest.approx(rho, rel=1e-12)


def preference_by_brute_force(task, away, s):
    """What leaving is worth more than staying, with all numbers of further harvests tried; (kinds, harvests)."""
    rho, _ = best_by_brute_force(task, away, s)
    h, curve = float(task.harvest), np.pad(task.curve, ((0, 0), (0, 2)))
    found = np.zeros(task.curve.shape)
    for (k, n), _ in np.ndenumerate(found):
        rest = curve[k, n + 1 :]
        stay = max(
            sum(np.exp(-s * h * (i + 1)) * rest[i] for i in range(m)) - rho * annuity(s, m * h + away)
            for m in range(1, len(rest) + 1)
        )
        found[k, n] = -rho * annuity(s, away) - stay
    return found


@pytest.mark.parametrize("s", [0.0, 0.3])
def test_preferences_are_differences_of_values(s):
    found = preferences(TASK, foraging.Exponential(s))
    for i, away in enumerate(TASK.away):
        np.testing.assert_allclose(found[i], preference_by_brute_force(TASK, away, s), atol=1e-10)


def test_discounting_is_an_average_over_planners():
    k = 0.4
    found = preferences(TASK, foraging.HyperbolicDiscount(k))[0]
    exact = integrate.quad_vec(lambda x: np.exp(-x) * preference_by_brute_force(TASK, 1.0, k * x), 0, 40, epsabs=1e-4)[
        0
    ]
    np.testing.assert_allclose(found, exact, atol=0.01)
    next_reward = np.pad(TASK.curve, ((0, 0), (0, 1)))[:, 1:]
    quasi = preferences(TASK, foraging.QuasiHyperbolic(0.7, 0.3))
    np.testing.assert_allclose(
        quasi, 0.7 * preferences(TASK, foraging.Exponential(0.3)) - 0.3 * next_reward, atol=1e-12
    )


def test_charnov_in_continuous_time():
    """g(t) = t/(t + a) is best left at √(aτ), for every τ; a handling time is part of the curve."""
    gain = {"oak": lambda t: t / (t + 4.0)}
    found = foraging.continuous_leaving_times(gain, {"near": 1.0, "far": 9.0}, longest=60.0)
    np.testing.assert_allclose(found["time"], [2.0, 6.0], rtol=1e-5)
    np.testing.assert_allclose(found["rate"], [(2 / 6) / 3, (6 / 10) / 15], rtol=1e-9)
    late = foraging.continuous_leaving_times(
        {"oak": lambda t: max(t - 2, 0) / (max(t - 2, 0) + 4.0)}, {"e": 7.0}, longest=60.0
    )
    assert late["time"][0] == pytest.approx(2 + 6.0, rel=1e-5), "the handling time adds to the travel time"
    with pytest.raises(ValueError, match="longest = 0: a number above 0 is needed"):
        foraging.continuous_leaving_times(gain, {"near": 1.0}, longest=0.0)


def test_handling_adds_to_travel():
    both = [foraging.Task(TASK.rewards, {"e": t}, harvest=2.0, handling=q) for t, q in ((4.0, 0.0), (1.0, 3.0))]
    assert (
        foraging.optimal_harvests(both[0])["harvests"].tolist()
        == foraging.optimal_harvests(both[1])["harvests"].tolist()
    )


def test_the_rats_beside_the_optimum():
    table = foraging.harvests_beside_optimum(foraging.rats())
    assert table["optimal"].tolist() == [1, 3, 7, 2, 5, 9]
    np.testing.assert_allclose(table["observed"], [3.54, 6.52, 10.62, 5.23, 8.65, 12.43], atol=0.006)
    assert (table["difference"] > 2.5).all()
    assert table["visits"].sum() == 2615
    np.testing.assert_allclose(table["share"], [0.896] * 3 + [0.923] * 3, atol=0.001)


def test_long_run_rates_of_harvests_beyond_the_curve_and_of_what_is_not_there():
    task = foraging.Task({"oak": [8.0, 4.0]}, {"wood": 2.0})
    assert foraging.long_run_rate(task, "wood", {"oak": 4}) == 12.0 / 6.0, "two harvests that pay nothing take time"
    with pytest.raises(ValueError, match="the task has no environment 'moor': name one of 'wood'"):
        foraging.long_run_rate(task, "moor", {"oak": 1})
    for harvests in ({}, {"oak": -1}, {"oak": np.nan}):
        with pytest.raises(
            ValueError, match="harvests of kind 'oak' are .*: give a number of at least 0 for each kind"
        ):
            foraging.long_run_rate(task, "wood", harvests)


FIRST = {"low": 32.5, "middle": 45.0, "high": 57.5}
SHARES = {
    "rich": dict(zip(FIRST, (0.2, 0.3, 0.5), strict=True)),
    "poor": dict(zip(FIRST, (0.5, 0.3, 0.2), strict=True)),
}
TRAVEL = {"rich": 6.0, "poor": 6.0}


def test_kinds_may_be_met_more_often_in_one_environment_than_in_another():
    """The task of Le Heron et al. (2020): rewards fall as e^(−0.075 t), and the rich one has more high patches."""
    curves = {kind: first * np.exp(-0.075 * np.arange(120)) for kind, first in FIRST.items()}
    found = foraging.optimal_harvests(foraging.Task(curves, TRAVEL, chances=SHARES))
    np.testing.assert_allclose(found["rate"][[0, 3]], [22.70, 19.27], atol=0.005)
    for i, environment in enumerate(TRAVEL):
        alone = foraging.Task(curves, {environment: 6.0}, chances=SHARES[environment])
        one = foraging.optimal_harvests(alone)
        assert one["harvests"].tolist() == found["harvests"][3 * i : 3 * i + 3].tolist()
        assert one["rate"][0] == pytest.approx(found["rate"][3 * i], rel=1e-12)
    gain = {kind: lambda t, r=first: r * (1 - np.exp(-0.075 * t)) / 0.075 for kind, first in FIRST.items()}
    smooth = foraging.continuous_leaving_times(gain, TRAVEL, longest=120.0, chances=SHARES)
    np.testing.assert_allclose(smooth["rate"][[0, 3]], [21.87, 18.57], atol=0.005)


def test_handling_may_differ_by_environment():
    settings = dict(rewards=TASK.rewards, travel={"a": 1.0, "b": 2.0})
    both = foraging.Task(**settings, handling={"a": 3.0, "b": 0.5})
    assert both.away.tolist() == [4.0, 2.5]
    rows = foraging.optimal_harvests(both)
    for i, environment in enumerate(both.environments):
        alone = foraging.Task(
            TASK.rewards, {environment: both.travel[environment]}, handling=both.handling[environment]
        )
        assert foraging.optimal_harvests(alone)["time"].tolist() == rows["time"][2 * i : 2 * i + 2].tolist()
    for change, message in (
        (
            dict(handling={"a": 1.0}),
            "handling names 'a', and the environments are 'a', 'b': give one number, or a time",
        ),
        (dict(handling={"a": 1.0, "b": -1.0}), r"handling\['b'\] = -1: a number of at least 0 is needed"),
        (dict(handling=-1.0), "handling = -1: a number of at least 0 is needed"),
        (
            dict(chances={"a": {"low": 1, "odd": 1}}),
            "chances names 'a', and the environments are 'a', 'b': give {kind: ",
        ),
        (dict(chances={"a": {"low": 1, "odd": 1}, "b": {"low": 1}}), r"chances\['b'\] and rewards must name the same"),
        (dict(chances={"a": {"low": 1, "odd": 1}, "b": {"low": 0, "odd": 0}}), r"because chances\['b'\] are"),
        (dict(chances={"low": -1, "odd": 1}), r"chances\['low'\] = -1: a number of at least 0 is needed"),
    ):
        with pytest.raises(ValueError, match=message):
            foraging.Task(**settings, **change)


def test_shares_of_kinds_that_the_task_does_not_say_are_warned_of():
    rng, curves = np.random.default_rng(0), {kind: [first, 1.0] for kind, first in FIRST.items()}
    rows = [(e, rng.choice([*FIRST], p=[*SHARES[e].values()]), 1) for e in TRAVEL for _ in range(150)]
    table = pd.DataFrame(rows, columns=["environment", "kind", "harvests"]).assign(subject=1)
    foraging.from_stays(table, foraging.Task(curves, TRAVEL, chances=SHARES), patches="fresh")
    with pytest.warns(
        UserWarning, match="in environment 'rich' .* of the kinds low, middle, high, but the task says 33"
    ):
        foraging.from_stays(table[table["environment"] == "rich"], foraging.Task(curves, TRAVEL), patches="fresh")
    never = foraging.Task(curves, {"rich": 6.0}, chances={"low": 0.0, "middle": 3.0, "high": 5.0})
    with pytest.warns(UserWarning, match="but the task says 0, 38, 62 %"):
        foraging.from_stays(table[table["environment"] == "rich"], never, patches="fresh")


def test_tasks_from_depletions():
    task = foraging.Task.depleting({"oak": 8.0}, Geometric(0.5), {"wood": 1.0}, longest=6)
    assert task.rewards["oak"].tolist() == [8, 4, 2, 1, 0.5, 0.25]
    # ρ = 12/3 = 4 after two harvests, 14/4 = 3.5 after three, 8/2 = 4 after one: a tie is no reason to leave.
    assert foraging.optimal_harvests(task)["rate"][0] == 4.0
