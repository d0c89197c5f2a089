import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from wane import foraging
from wane.foraging import figures

TABLE = pd.DataFrame(
    {
        "episode": [0] * 10 + [1] * 10,
        "time": [*range(10)] * 2,
        "site": [None, "oak", "oak", "oak", None, None, "elm", "elm", None, None] + [None] * 9 + ["elm"],
        "reward": [0.0, 8.0, 4.0, 2.0, 0.0, 0.0, 8.0, 4.0, 0.0, 0.0] + [0.0] * 9 + [8.0],
    }
)


def ink(figure):
    """Whether the picture has colour on it, and none on its rim: nothing is cut off."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=60)
    picture = np.asarray(Image.open(buffer).convert("L"))
    rim = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    return (picture < 250).any() and (rim > 250).all()


def test_matplotlib_is_imported_when_it_is_used():
    program = """
import sys
from wane import foraging
assert "matplotlib" not in sys.modules
assert callable(foraging.figures.draw_leaving)
assert "matplotlib" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = foraging.nonsense


def test_leaving_marks_both_times():
    figure = figures.draw_leaving(TABLE, 0.5, title="Two trees")
    assert [ax.get_title() for ax in figure.axes] == ["site oak, from time 1", "site elm, from time 6"]
    found = foraging.mvt_leaving_times(TABLE, 0.5)
    for ax, (_, stay) in zip(figure.axes, found.iterrows(), strict=False):
        lines = {line.get_label(): line for line in ax.lines}
        assert lines["agent leaves"].get_xdata()[0] == stay["steps"]
        assert lines["MVT leaves"].get_xdata()[0] == pytest.approx(stay["mvt_steps"], abs=0.2)
        assert len(lines["next reward by staying"].get_xdata()) == stay["steps"]
    assert ink(figure)


def test_an_episode_is_chosen():
    assert [ax.get_title() for ax in figures.draw_leaving(TABLE, 0.5, episode=1).axes] == ["site elm, from time 9"]
    with pytest.raises(ValueError, match="episode 7 has no stay to draw: there are 0, 1"):
        figures.draw_leaving(TABLE, 0.5, episode=7)


def test_differences_by_distance():
    summary = pd.DataFrame({"distance": [2, 4, 6], "mean": [1.0, 0.5, -0.5], "se": [0.2, np.nan, 0.1]})
    figure = figures.draw_difference({"γ = 1": summary, "γ = 0.99": summary.assign(mean=0.0)})
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["2", "4", "6"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["γ = 1", "γ = 0.99"]
    assert ink(figure)
    by_name = figures.draw_difference(summary.assign(distance=["near", "mid", "far"]))
    assert [text.get_text() for text in by_name.axes[0].get_xticklabels()] == ["near", "mid", "far"]
    with pytest.raises(ValueError, match="lacks 'animal' or 'mean'"):
        figures.draw_difference(summary, "animal")


def test_overstaying():
    table = pd.DataFrame({"believed": [0.5, 1.0], "steps": [3, 40], "optimal": 3, "censored": [False, True]})
    figure = figures.draw_overstaying({"plans": table}, true_lam=0.5)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["plans", "optimum", "true λ"]
    assert ink(figure)
