"""The report in a real browser, as wide as a desk's screen and as narrow as a phone's."""

import re
from itertools import pairwise

import pytest

from contrast import CONTRASTS
from report import chromium
from report.folders import claim, experiment, rewrite, run_folder, untested
from wane.lab import report
from wane_paper.collection import NAMES, RESULTS

WIDTHS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 780}}
LONG = "averyveryveryverylongwordthatnobodycanbreak" * 4
BEYOND = """all => all
  .filter(e => !e.closest('.scroll *, .skip') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.outerHTML.slice(0, 200))"""
LOST = """all => all
  .map(a => a.getAttribute('href'))
  .filter(href => href[0] !== '#' || !document.getElementById(href.slice(1)))"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Runs of both scales, changed settings, saved agents, damaged folders, long words, and claims without a test."""
    root = tmp_path_factory.mktemp("runs")
    run_folder(root, "toy", "paper", agents=["lam=0.5", LONG])
    run_folder(root, "toy", "quick", claims=[claim("first", "fails"), claim("second", detail=LONG)])
    run_folder(root, "toy", "quick", changed={"agent.step_size": 0.3})
    run_folder(root, "untested", claims=[untested("first"), untested("second", detail=LONG)])
    run_folder(
        root, "<b>own</b>", settings={LONG: {LONG: [LONG] * 4}}, device=LONG, claims=[claim("a b/c", statement=LONG)]
    )
    rewrite(run_folder(root, "broken"), "figure.svg", "<svg")
    (run_folder(root, "empty") / "run.json").unlink()
    experiments = [experiment(name) for name in ("toy", "untested", "broken", "not-run")]
    return report.write(root / "report.html", root, experiments=experiments)


@pytest.fixture(scope="module")
def browser():
    with chromium.window() as window:
        yield window


@pytest.fixture(params=WIDTHS)
def page(request, browser, page_file):
    """The report, opened with what it asked for and complained of on the way."""
    context = browser.new_context(viewport=WIDTHS[request.param], offline=True, reduced_motion="reduce")
    tab = context.new_page()
    tab.asked, tab.complaints = [], []
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.goto(page_file.as_uri())
    yield tab
    context.close()


def test_nothing_is_asked_of_anyone_and_nothing_goes_wrong(page, page_file):
    assert [url for url in page.asked if not url.startswith("data:")] == [page_file.as_uri()]
    assert page.complaints == []


def test_every_picture_is_there_with_words_for_it(page):
    images = page.eval_on_selector_all("img", "all => all.map(i => [i.complete, i.naturalWidth, i.alt])")
    assert len(images) == 16
    assert [image for image in images if not (image[0] and image[1] > 0 and image[2])] == []


def test_every_verdict_is_worded_and_counted(page):
    shown = page.eval_on_selector_all(".verdict", "all => all.map(e => [e.className, e.textContent])")
    assert [pair for pair in shown if pair[0].split()[1].replace("-", " ") != pair[1][1:].strip()] == []
    signs = page.eval_on_selector_all(".place .sign", "all => all.map(e => e.textContent.slice(1, -1))")
    assert signs == ["holds", "fails", "not tested", "not tested", "holds", "fails", "not run", "not run", "holds"]
    tiles = page.eval_on_selector_all(".tiles li", "all => all.map(e => e.textContent)")
    assert tiles == [
        "3 claims hold",
        "2 claims fail",
        "0 claims are undecided",
        "2 claims were not tested",
        "2 claims were not run",
    ]


def test_only_boxes_scroll_sideways(page):
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.eval_on_selector_all("body *", BEYOND) == []


def test_links_lead_somewhere(page):
    ids = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    assert len(set(ids)) == len(ids)
    assert page.eval_on_selector_all("a", LOST) == []
    links = page.locator(".signed a")
    assert links.count() == 9
    assert not page.locator(".claims").first.is_visible()
    links.nth(8).click()
    target = page.locator(":target")
    assert target.is_visible(), "a link unfolds the details that it leads to"
    assert target.locator(".statement").text_content() == f"{LONG} the paper, figure 9.9"
    assert 0 <= target.bounding_box()["y"] < page.viewport_size["height"]


def test_headings_descend_one_by_one(page):
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(e => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(b - a for a, b in pairwise(levels)) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_either_scheme(page, scheme):
    page.emulate_media(color_scheme=scheme)
    brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(brightness) < 60) == (scheme == "dark")
    assert page.evaluate("getComputedStyle(document.querySelector('figure')).backgroundColor") == "rgb(255, 255, 255)"
    contrasts = page.evaluate(CONTRASTS, True)
    assert len(contrasts) > 100
    assert [pair for pair in contrasts if pair[1] < 4.5] == []


def test_folded_parts_are_printed_too(page):
    settings = page.locator("details table").first
    assert not settings.is_visible()
    page.emulate_media(media="print")
    assert settings.is_visible()


def test_the_keyboard_unfolds_an_experiment(page):
    claims = page.locator(".claims").first
    page.locator(".experiment > summary").first.focus()
    page.keyboard.press("Enter")
    assert claims.is_visible()


@pytest.fixture(scope="module")
def kept_page(tmp_path_factory):
    """The report of the results that come with the package."""
    return report.write(tmp_path_factory.mktemp("kept") / "report.html", RESULTS)


@pytest.mark.parametrize(("width", "most"), [(1280, 9_000), (390, 18_000)])
def test_the_report_of_all_kept_results_stays_short(browser, kept_page, width, most):
    context = browser.new_context(viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.goto(kept_page.as_uri())
    assert tab.locator(".experiment").count() == len(NAMES)
    assert 2_000 < tab.evaluate("document.documentElement.scrollHeight") < most
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.eval_on_selector_all("body *", BEYOND) == []
    assert tab.eval_on_selector_all("a", LOST) == []
    context.close()


def test_thumbnails_are_a_small_part_of_the_page(kept_page):
    text = kept_page.read_text("utf-8")
    small = re.findall(r'<img src="([^"]*)" alt="Our figure', text)
    assert len(small) > 15
    assert sum(map(len, small)) < 0.1 * len(text)


def test_a_browser_that_does_not_run_is_named(monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    with pytest.raises(RuntimeError, match="CHROMIUM=/no/such/browser does not run: run `make browser`"):
        chromium.find()
