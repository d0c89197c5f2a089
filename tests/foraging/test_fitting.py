"""Fits: maxima, intervals, comparison and recovery, on models whose answers are known or found by SciPy."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from wane import foraging
from wane.foraging import ConstantHazard, HarvestCount, Model, Parameter

TASK = foraging.Task.linear({"low": 30, "high": 60}, 6, {"rich": 10, "poor": 30}, harvest=10)


def make_data(seed=0, animals=3, visits=60):
    """Animals that leave by the count of their harvests, each with a slope of its own."""
    rng = np.random.default_rng(seed)
    rows = []
    for animal in range(animals):
        for i in range(visits):
            n = 1
            while n < 30 and rng.random() > 1 / (1 + np.exp(-(0.4 + 0.2 * animal) * (n - 5))):
                n += 1
            rows.append((animal, rng.choice(["low", "high"]), ["rich", "poor"][i % 2], n))
    table = pd.DataFrame(rows, columns=["subject", "kind", "environment", "harvests"])
    return foraging.from_stays(table, TASK, patches="fresh")


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def counted(data):
    return foraging.fit(data, HarvestCount())


@pytest.fixture(scope="module")
def constant(data):
    return foraging.fit(data, ConstantHazard())


def minus_log_likelihood(x, visits):
    """HarvestCount, one decision after the other."""
    total = 0.0
    for row in visits.itertuples():
        for n in range(1, row.harvests + 1):
            total += np.logaddexp(0, (-1 if n == row.harvests else 1) * x[0] * (n - x[1]))
    return total


def test_the_constant_hazard_is_leavings_over_decisions(data, constant):
    for subject, own in data.by_subject():
        row = constant.estimates.set_index("subject").loc[subject]
        n, p = own.decisions, len(own.table) / own.decisions
        assert row["value"] == pytest.approx(p, rel=1e-6)
        half = 1.96 * 1 / np.sqrt(n * p * (1 - p))
        logit = np.log(p / (1 - p))
        np.testing.assert_allclose(
            [row["low"], row["high"]], 1 / (1 + np.exp(-(logit + np.array([-half, half])))), rtol=1e-4
        )
    expected = sum(len(o.table) * np.log(len(o.table) / o.decisions) for _, o in data.by_subject())
    expected += sum((o.decisions - len(o.table)) * np.log(1 - len(o.table) / o.decisions) for _, o in data.by_subject())
    assert constant.log_likelihood == pytest.approx(expected, abs=1e-6)


def test_the_maximum_is_that_of_scipy(data, counted):
    own = data.table[data.table["subject"] == 1]
    best = optimize.minimize(
        minus_log_likelihood, [0.5, 5.0], args=(own,), method="Nelder-Mead", options={"xatol": 1e-6}
    )
    found = counted.parameters(1)
    np.testing.assert_allclose([found["slope"], found["half"]], best.x, rtol=1e-3)
    row = counted.likelihoods.set_index("subject").loc[1]
    assert row["log_likelihood"] == pytest.approx(-best.fun, abs=1e-6)
    assert row["aic"] == pytest.approx(4 + 2 * best.fun, abs=1e-5)
    assert row["bic"] == pytest.approx(2 * np.log(row["decisions"]) + 2 * best.fun, abs=1e-5)
    assert counted.likelihoods["agree"].min() > 0.5


def test_profile_intervals_end_where_the_likelihood_has_fallen(data):
    found = foraging.fit(data, HarvestCount(), intervals="profile")
    own, best = data.table[data.table["subject"] == 0], found.parameters(0)
    level = minus_log_likelihood([best["slope"], best["half"]], own) + stats.chi2.ppf(0.95, 1) / 2
    rows = found.estimates[found.estimates["subject"] == 0].set_index("parameter")
    for end in rows.loc["slope", ["low", "high"]]:
        least = optimize.minimize_scalar(lambda half, end=end: minus_log_likelihood([end, half], own), bounds=(0, 20))
        assert least.fun == pytest.approx(level, abs=2e-3)


def test_what_is_not_identified_has_no_interval(data):
    @dataclass(frozen=True)
    class Twice(Model):
        """Only the sum of its parameters matters."""

        def parameters(self, task):
            return [Parameter("a", -np.inf, np.inf, 1.0), Parameter("b", -np.inf, np.inf, 1.0)]

        def leaving(self, params, decisions, task):
            return (params["a"] + params["b"]) * jnp.ones(decisions.harvests.shape)

    for intervals in ("hessian", "profile"):
        found = foraging.fit(data, Twice(), starts=1, intervals=intervals)
        assert not found.estimates["identified"].any()
        assert found.estimates[["low", "high"]].isna().all(axis=None)


@dataclass(frozen=True)
class Kinked(Model):
    """Log-odds that rise with `bend` up to 0.6 and fall from there on."""

    kinks = True

    def parameters(self, task):
        return [Parameter("bend", 0.0, 1.0, 0.5)]

    def leaving(self, params, decisions, task):
        return -1.5 + jnp.minimum(params["bend"], 1.2 - params["bend"]) * jnp.ones(decisions.harvests.shape)


def test_a_maximum_at_a_kink_has_a_profile_and_no_curvature(data):
    """The log-odds have their largest value, −0.9, at bend = 0.6. The animals leave even more often."""
    often = foraging.from_stays(data.table.assign(harvests=data.table["harvests"].clip(upper=3)), TASK, patches="fresh")
    found = foraging.fit(often, Kinked(), intervals="hessian")
    np.testing.assert_allclose(found.estimates["value"], 0.6, atol=1e-4)
    assert not found.estimates["identified"].any(), "the curvature on one side of a kink is no interval"
    own = foraging.fit(often, Kinked()).estimates
    assert own["identified"].all()
    assert ((own["low"] < 0.6) & (own["high"] > 0.6)).all()
    np.testing.assert_allclose(own["low"] + own["high"], 1.2, atol=1e-3, err_msg="the likelihood is symmetric there")


def test_a_profile_that_is_open_ends_where_the_range_does(data):
    @dataclass(frozen=True)
    class Bound(Model):
        """The chance is at most 0.05, but the animals leave more often: the maximum is at the end of the range."""

        def parameters(self, task):
            return [Parameter("chance", 0.0, 0.05, 0.02)]

        def leaving(self, params, decisions, task):
            logit = jnp.log(params["chance"]) - jnp.log1p(-params["chance"])
            return logit * jnp.ones(decisions.harvests.shape)

    found = foraging.fit(data, Bound(), intervals="profile").estimates
    assert found["identified"].all()
    assert (found["high"] == 0.05).all()
    assert found["low"].between(0.03, 0.05, inclusive="neither").all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.iloc[:1], "subject 0 has one visit only"),
        (lambda t: t.assign(censored=True), "subject 0 never left a patch of its own will"),
        (lambda t: t.assign(harvests=1), "subject 0 left every patch after its first harvest"),
    ],
)
def test_too_little_data_is_refused(data, change, message):
    table = change(data.table.drop(columns="censored"))
    names = {"censored": "censored"} if "censored" in table else {}
    few = foraging.from_stays(table, TASK, patches="fresh", columns=names)
    with pytest.raises(ValueError, match=message):
        foraging.fit(few, ConstantHazard())


def test_models_that_solve_the_task_need_fresh_patches(data):
    worn = foraging.from_stays(data.table.assign(tree="a"), TASK, patches="session", columns={"patch": "tree"})
    with pytest.raises(ValueError, match=r"MarginalValue solves the task, which needs fresh patches"):
        foraging.fit(worn, foraging.MarginalValue())


def test_the_right_model_wins(data, counted, constant):
    found = foraging.compare(data, [ConstantHazard(), HarvestCount()], blocks=3)
    assert found.table["model"].tolist() == ["HarvestCount", "ConstantHazard"]
    assert found.table["log_likelihood"].tolist() == [counted.log_likelihood, constant.log_likelihood]
    assert (found.table["held_out"] < found.table["log_likelihood"]).all(), "what was not fitted is less probable"
    assert found.table["difference"][1] == pytest.approx(found.table["held_out"].diff()[1])
    assert found.table["se"][1] > 0 == found.table["se"][0]
    with pytest.raises(ValueError, match="two models are called 'HarvestCount'"):
        foraging.compare(data, [HarvestCount(), HarvestCount()])


def test_held_out_blocks_are_predicted_from_the_others(data, constant):
    held = foraging.cross_validate(constant, 2)
    own = data.table[data.table["subject"] == 0]
    place = own.groupby("environment").cumcount()
    first = (place < 15).to_numpy()
    p = (~first).sum() / own["harvests"][~first].sum()
    expected = first.sum() * np.log(p) + (own["harvests"][first].sum() - first.sum()) * np.log(1 - p)
    assert held[0, 0] == pytest.approx(expected, abs=1e-6)


def test_predictions_stand_beside_what_was_observed(data, counted):
    table = foraging.leaving_chances(counted, subject=2)
    params = counted.parameters(2)
    row = table[(table["harvests"] == 4) & (table["kind"] == "low") & (table["environment"] == "rich")].iloc[0]
    assert row["predicted"] == pytest.approx(1 / (1 + np.exp(-params["slope"] * (4 - params["half"]))), rel=1e-9)
    own = data.table.query("subject == 2 and kind == 'low' and environment == 'rich'")["harvests"]
    assert row["observed"] == pytest.approx((own == 4).sum() / (own >= 4).sum())


def test_parameters_are_found_again(data):
    """A small version of what benchmarks/coverage.py counts for all models: 95 % intervals cover the truth."""
    found = foraging.recover(HarvestCount(), data, fits=60, seed=1)
    table = found.coverage()
    assert table["fits"].tolist() == [60, 60]
    assert table["coverage"].between(0.85, 1.0).all()
    assert table["identified"].tolist() == [1.0, 1.0]


def test_simulated_animals_follow_the_model(data):
    simulated = foraging.simulate(ConstantHazard(), data, {"chance": 0.25}, copies=20, seed=3)
    assert len(simulated.subjects) == 60
    free = simulated.table[~simulated.table["censored"]]
    assert free["harvests"].mean() == pytest.approx(4.0, abs=0.2)
    forced = foraging.from_stays(
        data.table.assign(most=8, harvests=data.table["harvests"].clip(upper=8)),
        TASK,
        patches="fresh",
        columns={"limit": "most"},
    )
    cut = foraging.simulate(ConstantHazard(), forced, {"chance": 0.1}, seed=3).table
    assert cut["harvests"].max() == 8
    assert cut.loc[cut["harvests"] == 8, "censored"].all()


def test_animals_that_learn_are_simulated_and_fitted():
    data = make_data(animals=2, visits=20)
    params = {"slope": 0.3, "learning": 0.01, "bias": 5.0}
    simulated = foraging.simulate(foraging.LearnedAverage(), data, params, seed=1)
    assert simulated.table["harvests"].between(1, 22).all()
    assert len(simulated.table) == 40


def test_units_of_the_task_stand_in_tables_and_on_axes():
    rats = foraging.rats()
    found = foraging.fit(rats, foraging.MarginalValue(bias=True), pooled=True)
    assert found.estimates["unit"].tolist() == ["1/µL", "µL"]
    assert repr(found).startswith("Fit(MarginalValue+bias, pooled: slope = 0.08")
    assert " 1/µL, bias = 41" in repr(found)
    assert " µL, log-likelihood -" in repr(found)
    figures = foraging.figures
    assert figures.draw_parameters(found, "bias").axes[0].get_ylabel() == "bias (µL)"
    assert figures.draw_harvests(rats).axes[0].get_ylabel() == "harvests of 10 s before leaving"
    assert figures.draw_survival(found, "rich").axes[0].get_xlabel() == "harvests of 10 s"
    everything = [foraging.LearnedAverage(), foraging.Planner("two-exponential", foraging.LinearDrop())]
    units = {p.name: p.unit for model in everything for p in model.parameters(rats.task)}
    per_second = dict.fromkeys(["learning", "slow", "faster"], "1/s")
    assert units == {"slope": "1/µL", "bias": "µL", "weight": "", "drop": "µL"} | per_second


def test_answers_print_in_a_line(data, counted):
    compared = foraging.compare(data, [ConstantHazard(), HarvestCount()], blocks=0)
    known = counted.estimates.assign(true=counted.estimates["value"], covered=True)
    assert repr(compared).startswith("Comparison(AIC above the best: HarvestCount +0.0, ConstantHazard +")
    assert (
        repr(foraging.Recovery(HarvestCount(), known))
        == "Recovery(HarvestCount, 3 fits, covered: slope 100%, half 100%)"
    )
    assert repr(counted).startswith("Fit(HarvestCount, 3 subjects, log-likelihood -")
    assert repr(TASK) == "Task(patches low from 30, high from 60; travel rich 10, poor 30; harvest 10)"
    assert repr(foraging.rats_task()).endswith("high from 120 µL; travel rich 10 s, poor 30 s; harvest 10 s)")
    kinds = {name: [2.0, 1.0] for name in "abcdef"}
    many = repr(foraging.Task(kinds, {"wood": 1.0}, handling=2.0))
    assert "d from 2, … (6 in all); travel wood 1; harvest 1, handling 2)" in many


def test_figures(data, counted, constant, tmp_path):
    from wane.foraging import figures

    compared = foraging.Comparison(
        pd.DataFrame(
            {
                "model": ["a", "b"],
                "held_out": [-1.0, -3.0],
                "difference": [0.0, -2.0],
                "se": [0.0, 1.0],
                "delta_aic": [0.0, 3.0],
            }
        ),
        pd.DataFrame(),
        {},
    )
    recovery = foraging.Recovery(
        HarvestCount(), counted.estimates.assign(true=counted.estimates["value"], covered=True)
    )
    drawn = [
        figures.draw_harvests(data),
        figures.draw_survival(counted, "rich"),
        figures.draw_parameters(counted, "slope"),
        figures.draw_comparison(compared),
        figures.draw_recovery(recovery, "half"),
        figures.draw_confusion(pd.DataFrame(np.eye(2), index=["a", "b"], columns=["a", "b"])),
    ]
    for i, figure in enumerate(drawn):
        figure.savefig(tmp_path / f"{i}.png", dpi=40)
        assert len(figure.axes) == 1
    points = next(line for line in drawn[1].axes[0].lines if line.get_label() == "low")
    own = data.table.query("kind == 'low' and environment == 'rich'")["harvests"]
    assert points.get_ydata()[3] == pytest.approx((own > 3).mean()), "Kaplan–Meier without censoring"
    figures.draw_parameters(counted, "half", ax=drawn[0].axes[0])
    with pytest.raises(ValueError, match="has no parameter 'lam': name one of slope, half"):
        figures.draw_parameters(counted, "lam")
    with pytest.raises(ValueError, match="environment 'moor' has no visits"):
        figures.draw_survival(counted, "moor")


class Pickling(ThreadPoolExecutor):
    """An executor whose work is pickled on its way, as it is on the way to another process or machine."""

    def submit(self, function, /, *arguments):
        function, *arguments = pickle.loads(pickle.dumps((function, *arguments)))
        return super().submit(function, *arguments)


def test_an_executor_fits_as_this_process_does(data):
    models = [ConstantHazard(), HarvestCount()]
    with Pickling(2) as executor:
        there = foraging.compare(data, models, blocks=0, executor=executor)
        confused = foraging.confusion(models, data, copies=4, executor=executor)
    pd.testing.assert_frame_equal(there.table, foraging.compare(data, models, blocks=0).table)
    pd.testing.assert_frame_equal(confused.scores, foraging.confusion(models, data, copies=4).scores)
