import sys

import pandas as pd
import pytest

import wane
from wane import cli
from wane.experiments import demo


def test_demo_writes_picture_table_and_page(tmp_path, capsys):
    cli.demo(tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "four_rooms.csv")
    expected = [22.335, 24.988, 25.922, 25.987, 20.907, 26.178]
    assert table["return"].round(3).tolist() == expected
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "demo.html").read_text()
    assert "data:image/png;base64," in page
    assert "data:image/gif;base64," in page
    assert "26.178" in page
    printed = capsys.readouterr().out
    assert "25.922" in printed
    assert "demo.html" in printed


def test_occupancies_of_the_first_figure():
    """Along the policy's path every cell is first met after as many steps as it lies away."""
    found = demo.compute().occupancies
    assert found[0.0].max() == 1
    reached = found[0.0][found[0.0] > 0]
    assert sorted(reached.round(9), reverse=True) == [round(0.9**t, 9) for t in range(len(reached))]
    assert (found[0.0] <= found[0.5]).all()
    assert (found[0.5] <= found[1.0]).all()


def test_the_filmed_episode_earns_the_optimum():
    rooms, best = demo.four_rooms(), demo.compute().best
    start = rooms.map.state(6, 3)
    states, left, returns = demo.episode(rooms, best, start)
    assert len(states) == len(left) == len(returns) == 41
    assert returns[-1] == pytest.approx(best.values[start], abs=1e-5)


def test_errata_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["wane", "errata"])
    cli.main()
    printed = capsys.readouterr().out
    assert printed.count("holds") >= 12
    assert "FAILS" not in printed


def test_unknown_command(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["wane", "dance"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "dance" in capsys.readouterr().err


def test_public_names_are_documented():
    for name in wane.__all__:
        assert getattr(wane, name).__doc__, name
