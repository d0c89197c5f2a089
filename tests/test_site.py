"""The site that `make docs` builds: its links, its ids, nothing from elsewhere, and its pages in a browser."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

SITE = Path(__file__).parents[1] / "site"
HTML = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.skipif(not HTML, reason="there is no site: run `make docs`"),
]
WIDTHS = (1280, 390)


class Page(HTMLParser):
    """Collects the ids of a page, what it loads, and where it links to."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.loaded, self.links = [], [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.loaded.append(found["href"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])


@pytest.fixture(scope="module")
def pages():
    return {path: Page(path) for path in HTML}


def test_links_and_what_is_loaded_lead_to_files_and_ids_of_the_site(pages):
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            if re.match(r"(https?:|data:|mailto:)", link):
                continue
            target, anchor = urldefrag(link)
            file = (path.parent / unquote(target.split("?")[0])).resolve() if target else path
            # The explorer keeps its state in what follows the # of its address.
            named = bool(anchor) and file in pages and path.name != "explorer-page.html"
            if not file.exists() or (named and anchor not in pages[file].ids):
                broken.append(f"{path.name}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(pages):
    assert not [(path.name, link) for path, page in pages.items() for link in page.loaded if ":" in link.split("/")[0]]
    for style in SITE.rglob("*.css"):
        assert not re.search(r"@import[^;]*https?:|url\(['\"]?https?:", style.read_text(encoding="utf-8")), style


def test_ids_are_names_and_occur_once(pages):
    for path, page in pages.items():
        assert not [name for name in page.ids if name[0].isdigit()], path.name
        twice = {name for name in page.ids if page.ids.count(name) > 1}
        assert not twice, f"{path.name} has {twice} twice"


def test_every_formula_became_mathematics():
    theory = (SITE / "theory.html").read_text(encoding="utf-8")
    assert theory.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') > 15
    assert "$$" not in theory
    assert (
        theory.count("</math><math") > 5
    )  # A wide space divides a formula, so that a narrow window can stack its parts.


@pytest.fixture(scope="module")
def browser():
    from report.chromium import window

    with window() as opened:
        yield opened


def looks(page, address):
    """What is wrong with a page as it is shown: sideways scrolling, what is cut off, a heading that the bar covers."""
    page.goto(address)
    wrong = page.evaluate(
        """() => {
          const wrong = [], root = document.documentElement;
          const all = selector => [...document.querySelectorAll(selector)];
          for (const frame of [root, ...all('.bd-article-container')]) {
            if (frame.scrollWidth <= frame.clientWidth) continue;
            const edge = frame.getBoundingClientRect().right + 1;
            const wide = all('article *').find(e => e.getBoundingClientRect().right > edge);
            wrong.push(`${frame.scrollWidth} px wide on ${frame.clientWidth}: ${wide && wide.outerHTML.slice(0, 90)}`);
          }
          const hides = e =>
            e.clientWidth && e.scrollWidth > e.clientWidth + 1 && /hidden|clip/.test(getComputedStyle(e).overflowX);
          for (const e of all('article *, .prev-next-area *').filter(hides))
            wrong.push(`cut off at ${e.clientWidth} of ${e.scrollWidth} px: ${e.outerHTML.slice(0, 90)}`);
          const isBroken = cell => {
            const words = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
            for (let text; (text = words.nextNode()); )
              for (const word of text.data.matchAll(/[A-Za-z0-9.]+/g)) {
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) return true;
              }
          };
          for (const cell of all('article td, article th').filter(isBroken).slice(0, 1))
            wrong.push(`a table breaks its words: ${cell.innerText.slice(0, 90)}`);
          const bar = document.querySelector('.bd-header');
          const headings = all('article section[id]');
          if (bar && headings.length) {
            const section = headings[headings.length - 1];
            section.scrollIntoView();
            const heading = section.querySelector('h1, h2, h3, h4') || section;
            if (heading.getBoundingClientRect().top < bar.getBoundingClientRect().bottom - 1)
              wrong.push(`the bar covers the heading of #${section.id}`);
          }
          return wrong;
        }"""
    )
    return wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_their_window_and_raise_no_error(browser, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    page, faults, errors = context.new_page(), [], []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    # Pages of the reference are made alike. Every tenth of them is looked at, in both schemes.
    reference = [path for path in HTML if "reference" in path.parts]
    for path in [path for path in HTML if path not in reference] + reference[::10]:
        errors.clear()
        if path.name == "explorer-page.html":
            continue
        faults += [f"{path.name}: {wrong}" for wrong in [*looks(page, path.as_uri()), *errors]]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 380) == (scheme == "dark")
    context.close()
    assert not faults, "\n".join(faults)


def test_search_finds_a_page_from_a_file(browser):
    page = browser.new_context(offline=True).new_page()
    page.goto((SITE / "search.html").as_uri() + "?q=eligibility")
    page.wait_for_selector("#search-results li a", timeout=20_000)
    assert {"Theory", "Errata of the paper"} <= set(page.locator("#search-results li a").all_inner_texts())
