"""The page as Python makes it: one file, its policy, the command, and worlds that it cannot show."""

import dataclasses
import hashlib
import html
import json
import re

import numpy as np
import pytest

import wane
from wane.explorer import bundle
from wane.files import DamagedFile
from wane.worlds import World, make, names
from wane.worlds.describe import describe


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


def test_json_from_elsewhere_is_refused_with_a_reason(tmp_path):
    for text, reason in [
        ("world.json", "pass its pathlib.Path"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "described by a dictionary"),
        ('{"map": "..", "sites": [], "rewards": [], "os": 1}', "has no 'os'"),
        ('{"map": "..", "sites": [[0, 0]], "rewards": [NaN]}', "finite"),
    ]:
        with pytest.raises(ValueError, match=re.escape(reason)):
            World.from_json(text)
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
    status, _, errors = command("explore", "#abcd", "--out", tmp_path / "x.html")
    assert (status, "holds no world" in errors) == (1, True)
    assert np.sum([path.suffix == ".html" for path in tmp_path.iterdir()]) == 0
