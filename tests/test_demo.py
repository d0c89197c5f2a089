"""`wane demo`, which shows the paper's composition of policies beside the optimum."""

import io

import numpy as np
import pytest
from rich.console import Console

from wane import demo
from wane.extras import MissingExtra
from wane.worlds import World


@pytest.fixture(scope="module")
def walked():
    return demo.walks()


def test_the_true_lambda_earns_most_of_the_foragers_and_the_optimum_more(walked):
    _, (first, true, successor, best) = walked
    np.testing.assert_allclose([true.mean, best.mean], [25.92, 26.178], atol=0.005)
    assert successor.mean < first.mean < true.mean < best.mean
    assert all(walk.episode.value <= best.episode.value for walk in (first, true, successor))


def test_what_is_shown_adds_up(walked):
    world, found = walked
    for walk in found:
        rewards, cells = walk.episode.rewards, walk.episode.cells
        assert demo._discounted(world, rewards) == pytest.approx(float(walk.episode.value))
        assert sum(np.sum(cells[1:] == site) for site in world.sites) == np.sum(rewards > 0)
        drawn = demo.paint(world, walk.episode, len(cells)).plain.splitlines()
        assert {len(line) for line in drawn} == {2 * world.map.shape[1]}
        row, column = world.map.cells[cells[-1]]
        assert drawn[row][2 * column] == "@"
        assert sum(line.count("@") for line in drawn) == 1


@pytest.mark.parametrize("width", [80, 120])
def test_it_walks_where_there_is_room(walked, monkeypatch, tmp_path, width):
    """A terminal that is too narrow gets the last picture only."""
    monkeypatch.setattr(demo, "walks", lambda: walked)
    monkeypatch.setattr(demo, "FRAME_SECONDS", 0.0)
    monkeypatch.setattr(demo, "write", lambda world, found, out: [f"film: {out}"])
    text = io.StringIO()
    demo.show(Console(file=text, force_terminal=True, width=width, height=40), tmp_path)
    frames = text.getvalue().count("return ")
    last = max(len(walk.episode.rewards) for walk in walked[1])
    assert frames == 4 if width == 80 else frames >= 4 * last
    assert "…" not in text.getvalue(), "the table fits into 80 columns"
    assert str(tmp_path) in text.getvalue()


def test_the_page_needs_no_extra_and_the_films_name_theirs(walked, monkeypatch, tmp_path):
    world, found = walked
    lines = demo.write(world, found[:1], tmp_path)
    assert (tmp_path / "explorer.html").stat().st_size > 10_000
    assert (tmp_path / "lambda-0.gif").read_bytes()[:4] == b"GIF8"
    assert lines[1] == f"film: {tmp_path / 'lambda-0.gif'}"

    def refuse(*given, **options):
        raise MissingExtra("no films")

    monkeypatch.setattr(World, "film", refuse)
    assert "[plots]" in demo.write(world, found[:1], tmp_path)[1]


def test_the_command_writes_into_the_folder_of_all_runs(command, walked, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "walks", lambda: (walked[0], walked[1][-1:]))
    status, out, errors = command("demo", "--out", tmp_path, "--no-animate")
    assert (status, errors) == (0, "")
    assert "optimum" in out
    assert (tmp_path / "demo" / "optimum.gif").exists()
