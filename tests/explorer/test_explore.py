"""The page as Python makes it: one file, its policy, the command, and worlds that it cannot show."""

import base64
import dataclasses
import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

import wane
from wane.explorer import bundle
from wane.files import DamagedFile
from wane.worlds import World, catalog, make, names
from wane.worlds.describe import describe


def told(**settings):
    """The JSON of a world of two cells."""
    return json.dumps({"map": "..", "sites": [[0, 0]], "rewards": [1]} | settings)


def link_of(text):
    return "#" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_one_small_file_with_a_strict_policy(page_file):
    text = page_file.read_text("utf-8")
    assert page_file.stat().st_size < 300_000
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?!#)[^"'\s>]""", markup) == []
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    scripts = re.findall(r"<script(?: id=\"mathematics\")?>(.*?)</script>", text, flags=re.S)
    assert len(scripts) == 2
    assert [bundle._hash(script) in policy for script in scripts] == [True, True]
    for word in ("eval(", "innerHTML", "Function(", "document.write", "fetch(", "XMLHttpRequest", "WebSocket"):
        assert word not in "".join(scripts), word


def test_no_text_of_a_world_can_become_markup():
    page = wane.explore("toy", view={"show": "</script><script>alert(1)</script>"})
    assert "<script>alert" not in page.html
    assert "\\u003cscript>alert" in page.html


def test_jupyter_gets_a_frame_that_reaches_nothing():
    page = wane.explore(make("toy"))
    shown = page._repr_html_()
    assert 'sandbox="allow-scripts allow-downloads allow-popups"' in shown
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1]) == page.html


def test_the_frame_works_in_a_notebook(browser, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><body>{wane.explore('toy')._repr_html_()}", "utf-8")
    tab = browser.new_context(offline=True).new_page()
    complaints = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto((tmp_path / "notebook.html").as_uri())
    frame = tab.frames[1]
    frame.wait_for_function("() => wane.app?.app.store.look?.visits.length === 3")
    frame.click("#tour-start")
    assert frame.locator("#tour-title").text_content() == "The second ice cream"
    assert complaints == []


def test_modules_come_after_what_they_import():
    order = bundle._in_order("app")
    assert len(order) == len(set(order))
    for name in order:
        imported = [found["module"] for found in bundle._IMPORT.finditer(bundle._read(name))]
        assert all(order.index(each) < order.index(name) for each in imported), name
        assert not re.search(r"^\s*(import|export) ", bundle._wrapped(name), flags=re.M), name
    assert set(order) == {path.stem for path in bundle.SOURCE.glob("*.js")}


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"timing": "departure"}, 'timing="arrival"'),
        ({"discount": 1.0}, "discounts up to 0.9999, not 1"),
        ({"horizon": 5000}, "at most 1000 steps"),
        ({"depletion": wane.EligibilityTrace(0.5, 0.9)}, "not EligibilityTrace"),
        # Without these limits the page would be written, and would not start.
        ({"rewards": [1.0, 2000.0, 1.0]}, "rewards from -1000 to 1000, not 2000"),
        ({"wall_penalty": -1e6}, "a wall_penalty from -1000 to 1000, not -1e+06"),
        ({"threshold": 1e6}, "a threshold from -1000 to 1000, not 1e+06"),
        ({"depletion": wane.FirstVisits(10**30)}, "FirstVisits(n) from 0 to 1000, not 1e+30"),
        ({"depletion": wane.TimeElapsed(0.5, [1.0, 1e-9, 1.0])}, "TimeElapsed(rate) from 0.001 to 1000, not 1e-09"),
        ({"depletion": wane.Geometric([[0.5, 0.5, 0.5]])}, "one Geometric(lam), or one for each site"),
    ],
)
def test_worlds_that_the_page_cannot_show_are_refused(changes, culprit):
    with pytest.raises(ValueError, match=re.escape(culprit)):
        wane.explore(dataclasses.replace(make("two-rooms"), **changes))


def test_large_maps_and_many_sites_are_refused():
    with pytest.raises(ValueError, match="up to 42 × 42 cells, not 3 × 60"):
        wane.explore(make("corridor", length=58))
    with pytest.raises(ValueError, match="at most 40 sites, not 60"):
        wane.explore(make("open-field", patches=15))


@pytest.mark.parametrize("name", names())
def test_a_world_survives_its_json(name):
    world = make(name)
    assert describe(World.from_json(world.to_json())) == describe(world)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("world.json", "pass its pathlib.Path"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "described by a dictionary"),
        (told(os=1), "has no 'os'"),
        (told(rewards=[np.nan]), "finite"),
        (told(discount=10**400), "discount is beyond 1.8e308"),
        (told(start=[[0] * 2] * 2), "start array([[0, 0],"),
        (told(n_actions=np.inf), "n_actions is a whole number, got inf"),
        (told(horizon=2.5), "horizon is a whole number, got 2.5"),
        (told(start="x" * 5000), "xxx' stands 0 times on the map"),
        (told(policies=json.loads("[" * 300 + "]" * 300)), "nests lists or dictionaries more than 50 deep"),
        (told(depletion={"kind": "Geometric", "lam": 10**400}), "Geometric(lam) is beyond 1.8e308"),
        (told(depletion={"kind": "Geometric", "lam": True}), "Geometric.lam is a number, got True"),
        (told(depletion={"kind": "FirstVisits", "n": -(10**400)}), "FirstVisits(n) is beyond 1.8e308"),
        (told(depletion={"kind": "Listed", "values": 3}), "Listed(values) needs a non-empty list of numbers, got 3"),
        (told(depletion={"kind": "Listed", "values": [10**400]}), "Listed(values) is beyond 1.8e308"),
        (told(depletion={"kind": "Listed", "values": [1], "tail": 10**400}), "Listed(tail=…) is beyond 1.8e308"),
    ],
)
def test_json_from_elsewhere_is_refused_with_a_reason(text, reason):
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        World.from_json(text)
    assert len(str(refused.value)) < 500


def test_json_that_other_programs_write(tmp_path):
    """JavaScript writes 1e20 as an integer of 21 digits, and others write 4 as 4.0."""
    world = World.from_json(told(depletion={"kind": "FirstVisits", "n": 10**20}, rewards=[10**20], n_actions=4.0))
    assert (world.depletion.n, world.rewards[0], world.n_actions) == (1e20, 1e20, 4)
    with pytest.raises(DamagedFile, match="is missing"):
        World.from_json(tmp_path / "none.json")


def test_the_command_writes_and_opens(command, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    out = tmp_path / "page.html"
    status, printed, _ = command("explore", "four-rooms", "--lam", "0.25", "--out", out)
    assert (status, printed.strip()) == (0, f"explorer: {out}")
    assert opened == [out.as_uri()]
    data = json.loads(re.search(r'id="data">(.*?)</script>', out.read_text("utf-8"))[1])
    assert data["state"]["world"]["depletion"] == {"kind": "Geometric", "lam": 0.25}
    assert data["state"]["world"]["start"] == [9, 9]
    (tmp_path / "world.json").write_text(make("toy").to_json())
    assert command("explore", tmp_path / "world.json", "--out", out, "--no-open")[0] == 0
    assert len(opened) == 1
    assert hashlib.sha256(out.read_bytes()).digest() == hashlib.sha256(wane.explore("toy").html.encode()).digest()


def test_the_command_tells_mistakes_in_one_line(command, tmp_path):
    assert "did you mean" in command("explore", "four-room", "--out", tmp_path / "x.html")[2]
    assert command("explore", "four-rooms", "--lam", "2")[0] == 2
    assert command("explore", "orchard", "--file", "none.py", "--out", tmp_path / "x.html")[0] == 2
    (tmp_path / "world.json").write_text(told(discount=10**400))
    status, _, errors = command("explore", tmp_path / "world.json", "--out", tmp_path / "x.html")
    assert (status, errors.count("\n"), errors.startswith("wane: discount is beyond")) == (1, 1, True)
    assert np.sum([path.suffix == ".html" for path in tmp_path.iterdir()]) == 0


WHOLE = link_of('{"world": ' + told() + ', "view": {"seed": 2}}')


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("#abcd", "it is damaged or cut off"),
        (WHOLE[:60], "it is damaged or cut off"),
        (WHOLE[:30] + "é" + WHOLE[30:], "it is damaged or cut off"),
        (link_of('{"world": ' + told(discount=2) + "}"), "holds no world that can be shown: discount must be"),
        (link_of('{"world": ' + told(discount=np.nan) + "}"), "holds no world that can be shown: discount must be"),
        (link_of('{"world": ' + told() + ', "view": {"seed": NaN}}'), "the view of the link"),
        (link_of('{"world": ' + told() + ', "view": {"seed": 1e999}}'), "the view of the link"),
        (link_of('{"world": ' + told() + ', "view": {"show": "\\ud800"}}'), "the view of the link"),
    ],
)
def test_a_damaged_link_is_blamed_on_the_link(command, tmp_path, link, reason):
    status, _, errors = command("explore", link, "--out", tmp_path / "x.html", "--no-open")
    assert (status, errors.count("\n"), "the link #" in errors, "file" in errors) == (1, 1, True, False)
    assert reason in errors
    assert not (tmp_path / "x.html").exists()


def test_a_link_is_taken_whole_or_from_its_mark_on():
    assert wane.explore("https://example.org/explorer-page.html" + WHOLE).state == wane.explore(WHOLE).state
    assert wane.explore(WHOLE).state["view"] == {"seed": 2}
    with pytest.raises(ValueError, match="the view is not data that JSON can hold"):
        wane.explore("toy", view={"seed": np.inf})


def test_the_world_of_the_page_on_extending_is_shown(command, tmp_path, monkeypatch):
    """The file and the command are those of the page."""
    monkeypatch.setattr(catalog, "_WORLDS", dict(catalog._WORLDS))
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
    code = next(code for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "def orchard" in code)
    words = re.search(r"^wane (explore orchard .*)$", page, re.M)[1].split()
    assert "in a Python file that is named here: --file FILE.py" in command("explore", "orchard", "--no-open")[2]
    monkeypatch.chdir(tmp_path)
    Path(words[-1]).write_text(code + re.search(r"`(wane\.worlds\.register\(.*?\))`", page)[1] + "\n", "utf-8")
    assert command(*words, "--no-open")[0] == 0
    data = json.loads(re.search(r'id="data">(.*?)</script>', Path("explorer.html").read_text("utf-8"))[1])
    assert data["state"]["world"]["map"] == data["catalogue"]["orchard"]["map"] == "a....b"
