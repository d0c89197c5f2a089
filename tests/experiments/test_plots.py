import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from wane.lab import plot_learning, plots
from wane.lab.plots import power
from wane.lab.statistics import bootstrap, mean_and_error


def curves(seeds=12, episodes=5, agents=("a", "b")):
    index = pd.MultiIndex.from_product([agents, range(seeds), range(episodes)], names=["agent", "seed", "episode"])
    values = np.random.default_rng(0).normal(size=len(index))
    return pd.DataFrame({"value": values}, index=index).reset_index()


def drawn(ax, i=0):
    """The mean of curve i, and the lower and upper end of its interval at each place."""
    vertices = ax.collections[i].get_paths()[0].vertices
    places = ax.lines[i].get_xdata()
    ends = [vertices[np.isclose(vertices[:, 0], place), 1] for place in places]
    return ax.lines[i].get_ydata(), np.array([end.min() for end in ends]), np.array([end.max() for end in ends])


def test_a_curve_is_the_mean_over_seeds_with_its_bootstrap_interval():
    table = curves()
    ax = plot_learning(table)
    assert [line.get_label() for line in ax.lines] == ["a", "b"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    mean, low, high = drawn(ax, 1)
    for i in range(5):
        scores = table.query("agent == 'b' and episode == @i")["value"].to_numpy()
        found = bootstrap(scores)
        assert mean[i] == pytest.approx(found.value)
        assert [low[i], high[i]] == pytest.approx([found.low, found.high], abs=0.05)


def test_few_seeds_have_students_interval_and_error_is_one_standard_error():
    table = curves(seeds=3, agents=("a",))
    runs = table.pivot_table(index="seed", columns="episode", values="value").to_numpy()
    mean, error = mean_and_error(runs)
    _, low, high = drawn(plot_learning(table))
    # The quantile p of Student's law with two degrees of freedom is (2p − 1) / √(2p (1 − p)).
    reach = 0.95 / np.sqrt(2 * 0.975 * 0.025) * error
    np.testing.assert_allclose([low, high], [mean - reach, mean + reach])
    _, low, high = drawn(plot_learning(table, interval="error"))
    np.testing.assert_allclose([low, high], [mean - error, mean + error])


def test_one_seed_has_a_curve_without_an_interval():
    ax = plot_learning(curves(seeds=1, agents=("a",)))
    assert np.all(np.isfinite(ax.lines[0].get_ydata()))
    assert len(ax.collections[0].get_paths()) == 0 or ax.collections[0].get_paths()[0].vertices.size == 0


def test_seeds_that_stop_early_count_as_far_as_they_got():
    table = curves(seeds=3, agents=("a",))
    table = table[(table["seed"] > 0) | (table["episode"] < 3)]
    mean, *_ = drawn(plot_learning(table))
    np.testing.assert_allclose(mean, table.groupby("episode")["value"].mean())


def test_other_columns_axes_and_colours():
    table = curves().rename(columns={"value": "error", "episode": "step", "agent": "lam"})
    table["lam"] = table["lam"].map({"a": 0.5, "b": 1.0})
    own = plots.figure().subplots()
    ax = plot_learning(table, x="step", y="error", by="lam", interval="error", ax=own, colours={0.5: "#ff0000"})
    assert ax is own
    assert [line.get_label() for line in ax.lines] == ["0.5", "1"]
    assert to_hex(ax.lines[0].get_color()) == "#ff0000"
    assert len(plot_learning(table, x="step", y="error", by=None).lines) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": "reward"}, "no column 'reward', it has 'agent', 'seed', 'episode', 'value'"),
        ({"x": "epoch", "by": "lam"}, "no column 'epoch', 'lam'"),
        ({"interval": "std"}, "interval is \"bootstrap\" .* got 'std'"),
    ],
)
def test_what_is_missing_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        plot_learning(curves(), **options)


def test_a_table_without_seeds_or_numbers_is_refused():
    with pytest.raises(ValueError, match="no column 'seed'"):
        plot_learning(curves().drop(columns="seed"))
    with pytest.raises(ValueError, match="nothing to draw: .* column 'value'"):
        plot_learning(curves().assign(value=np.nan))


def test_powers_of_ten_have_raised_exponents():
    assert [power(number) for number in (1e-6, 1e3, 0.05, 2e-6, 1.0, 0.01)] == [
        "10⁻⁶",
        "10³",
        "0.05",
        "2e-06",
        "1",
        "0.01",
    ]
