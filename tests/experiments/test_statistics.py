import numpy as np
import pytest
from scipy import stats

from wane.lab.statistics import (
    bootstrap,
    interquartile_mean,
    mean_and_error,
    mean_with_interval,
    paired_difference,
    probability_of_improvement,
)


def test_mean_and_standard_error():
    mean, error = mean_and_error([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    assert mean.tolist() == [2.0, 5.0]
    assert error == pytest.approx([1 / np.sqrt(3), 0.0])
    assert mean_and_error([[4.0, 1.0]])[1].tolist() == [0.0, 0.0]


def test_the_interquartile_mean_is_the_mean_of_the_middle_half():
    assert interquartile_mean(np.arange(8.0)) == pytest.approx(np.mean([2, 3, 4, 5]))
    assert interquartile_mean([[0.0, 10.0], [1.0, 11.0], [2.0, 12.0], [99.0, -99.0]], axis=0).tolist() == [1.5, 10.5]


@pytest.mark.parametrize("statistic", [np.mean, interquartile_mean])
def test_the_interval_agrees_with_scipy(statistic):
    scores = np.random.default_rng(3).normal(2.0, 1.0, 20)
    ours = bootstrap(scores, statistic)
    theirs = stats.bootstrap((scores,), statistic, n_resamples=4000, method="percentile", rng=1).confidence_interval
    assert ours.value == statistic(scores)
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.06)


@pytest.mark.parametrize("statistic", [np.mean, interquartile_mean])
def test_all_resamples_at_once_are_the_same_as_one_by_one(statistic):
    scores = np.random.default_rng(4).normal(size=(12, 3))
    one_by_one = bootstrap(scores, lambda sample: statistic(sample), resamples=200)
    assert bootstrap(scores, statistic, resamples=200) == pytest.approx(one_by_one, rel=1e-12)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    covered = [bootstrap(random.normal(1.0, 1.0, 40), resamples=400) for _ in range(300)]
    assert 0.90 < np.mean([low <= 1.0 <= high for _, low, high in covered]) < 0.98


@pytest.mark.parametrize("runs", [3, 5])
def test_few_runs_are_covered_too(runs):
    random = np.random.default_rng(0)
    found = [bootstrap(random.normal(1.0, 1.0, runs), resamples=400) for _ in range(600)]
    assert 0.92 < np.mean([low <= 1.0 <= high for _, low, high in found]) < 0.98


@pytest.mark.parametrize("runs", [3, 40])
def test_the_intervals_of_a_curve_cover_the_truth_as_often_as_they_say(runs):
    scores = np.random.default_rng(0).normal(1.0, 1.0, (runs, 600))
    _, low, high = mean_with_interval(scores)
    assert 0.92 < np.mean((low <= 1.0) & (high >= 1.0)) < 0.98


def test_the_intervals_of_a_curve_agree_with_those_of_its_places():
    scores = np.random.default_rng(4).normal(size=(20, 3))
    each = np.array([bootstrap(column) for column in scores.T]).T
    np.testing.assert_allclose(mean_with_interval(scores), each, atol=0.02)
    mean, error = mean_and_error(scores)
    np.testing.assert_array_equal(mean_with_interval(scores, "error"), [mean, mean - error, mean + error])
    assert np.isnan(mean_with_interval(scores[:1])[1:]).all()


def test_one_run_has_an_infinite_interval():
    assert bootstrap([3.0]) == (3.0, -np.inf, np.inf)


def test_tasks_are_resampled_apart():
    scores = np.column_stack([np.zeros(5), np.full(5, 100.0)])
    assert bootstrap(scores) == (50.0, 50.0, 50.0)


def test_pairing_takes_out_what_the_seeds_share():
    luck = np.random.default_rng(1).normal(0, 100, 10)
    better = paired_difference(luck + 1.0, luck)
    assert better.value == pytest.approx(1.0)
    assert better.low > 0.99
    with pytest.raises(ValueError, match="equal numbers"):
        paired_difference([1.0, 2.0], [1.0])


def test_probability_of_improvement_counts_ties_half():
    assert probability_of_improvement([1.0, 1.0], [1.0, 1.0]).value == 0.5
    assert probability_of_improvement([0.0, 2.0], [1.0, 1.0]).value == 0.5
    ours, theirs = np.random.default_rng(2).normal([[1.0], [0.0]], 1.0, (2, 30))
    found = probability_of_improvement(ours, theirs)
    wins = stats.mannwhitneyu(ours, theirs).statistic / 900
    assert found.value == pytest.approx(wins)
    assert found.low < found.value < found.high


@pytest.mark.parametrize(
    ("scores", "message"),
    [([], "shape"), (np.zeros((2, 2, 2)), "shape"), ([1.0, np.nan, np.inf], "2 of 3 scores are not finite")],
)
def test_bad_scores_are_named(scores, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(scores)
