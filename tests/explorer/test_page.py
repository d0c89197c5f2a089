"""The page in a real Chromium: painting, dragging, playing, undoing, sharing, by mouse, finger and keys."""

import json
import re

import pytest

from contrast import CONTRASTS
from wane import explore
from wane.worlds import World

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
DESK = {"viewport": {"width": 1280, "height": 900}}
CENTRE = """cell => {
  const { map, store } = wane.app.app, { columns } = store.world, { side } = map;
  const box = map.canvas.getBoundingClientRect();
  return [box.left + (cell % columns + 0.5) * side, box.top + (Math.floor(cell / columns) + 0.5) * side];
}"""
SETTLED = "tasks => !tasks.some((task) => wane.app.app.store.isWaiting(task))"
QUICK, ALL = ["field", "paid", "agents"], ["field", "paid", "agents", "best"]
UNNAMED = """() => {
  const named = e => e.ariaLabel || e.textContent.trim() || e.labels?.length || e.ariaHidden;
  const all = [...document.querySelectorAll('button, input, select, canvas, textarea, summary')];
  return all.filter(e => e.checkVisibility() && !named(e)).map(e => e.outerHTML);
}"""
SITE = "https://explorer.example/page.html"
SMALL = "all => all.filter(e => e.checkVisibility() && e.offsetHeight < 32).length"


class Tab:
    """A page with what it asked for and complained of, and what a person does with it."""

    def __init__(self, context, file, hash="", site=False):
        self.context, self.page, self.home = context, context.new_page(), SITE if site else file.as_uri()
        self.asked, self.complaints = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        # The page on a website, which exists only in this browser.
        self.page.route(f"{SITE}*", lambda route: route.fulfill(path=file, content_type="text/html"))
        self.page.goto(self.home + hash)
        self.settle()

    def settle(self, tasks=QUICK):
        """Waits for what takes milliseconds, or for everything."""
        self.page.wait_for_function(SETTLED, arg=tasks)

    def get(self, code):
        """Returns a value in terms of `app`, `store`, `world` and `view`."""
        names = "const { app } = wane.app, { store } = app, { world, view } = store;"
        return self.page.evaluate(f"() => {{ {names} return {code}; }}")

    def state(self):
        return self.get("wane.state.describeState(store.state)")

    def cell(self, row, column):
        return row * self.get("world.columns") + column

    def centre(self, row, column):
        return self.page.evaluate(CENTRE, self.cell(row, column))

    def tool(self, name):
        self.page.locator(f'input[name="tool"][value="{name}"]').check(force=True)

    def drag(self, *cells):
        self.page.mouse.move(*self.centre(*cells[0]))
        self.page.mouse.down()
        for cell in cells[1:]:
            self.page.mouse.move(*self.centre(*cell), steps=3)
        self.page.mouse.up()
        self.settle()


@pytest.fixture
def open_page(browser, page_file):
    """Opens the page in a window of its own; at the end nothing may have been asked for, and nothing gone wrong."""
    tabs = []

    def open_it(hash="", site=False, file=page_file, **options):
        context = browser.new_context(**(DESK | {"offline": True, "reduced_motion": "reduce"} | options))
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        tabs.append(Tab(context, file, hash, site))
        return tabs[-1]

    yield open_it
    for tab in tabs:
        strange = [url for url in tab.asked if not url.startswith(("blob:", tab.home))]
        assert (strange, tab.complaints) == ([], [])
        tab.context.close()


def test_painting_dragging_and_undo(open_page):
    tab = open_page()
    before = tab.state()
    tab.tool("wall")
    tab.drag((8, 2), (8, 6))
    assert tab.get("Array.from(world.walls).slice(8 * 11 + 2, 8 * 11 + 7)") == [1] * 5
    tab.tool("erase")
    tab.drag((8, 4), (8, 4))
    assert tab.get("world.walls[8 * 11 + 4]") == 0
    tab.tool("reward")
    tab.page.locator("#reward-size").fill("7.5")
    tab.drag((7, 7), (7, 7))
    assert tab.state()["world"]["sites"][-1] == [7, 7]
    tab.page.locator("#reward-size").fill("3")
    assert tab.state()["world"]["rewards"][-1] == 3
    tab.page.locator("#reward-size").dispatch_event("change")
    tab.tool("look")
    tab.drag((9, 9), (9, 8), (9, 7))
    assert tab.state()["world"]["start"] == [9, 7]
    tab.drag((7, 7), (7, 8))
    assert tab.state()["world"]["sites"][-1] == [7, 8]
    tab.drag((3, 3), (3, 3))
    assert tab.get("view.cell") == tab.cell(3, 3)
    steps = 0
    while tab.page.locator("#undo").is_enabled():
        tab.page.keyboard.press("Control+z")
        steps += 1
    assert steps == 7
    assert tab.state() == before
    tab.page.click("#redo")
    assert tab.get("world.walls[8 * 11 + 4]") == 1


def test_the_start_never_becomes_a_wall_and_lost_rewards_are_told(open_page):
    tab = open_page()
    tab.tool("wall")
    tab.drag((9, 9), (9, 9))
    assert tab.state()["world"]["start"] == [9, 9]
    assert tab.get("world.walls[world.start]") == 0
    tab.drag((6, 1), (6, 1))
    tab.drag((5, 5), (5, 5))
    assert len(tab.state()["world"]["sites"]) == 2
    assert "No reward can be reached" in tab.page.locator("#message").text_content()


def test_sliders_act_at_once_and_solve_nothing_again(open_page):
    tab = open_page()
    solved, phi = tab.get("store.timings.map.length"), tab.get("store.look.visits[5]")
    lam = tab.page.locator("#parameters input")
    lam.fill("0")
    assert tab.get("store.look.visits[5]") < phi
    first_visit = "store.results.field.firstVisit[store.look.grid.number[view.cell] * store.look.grid.size + 5]"
    assert tab.get(f"store.look.visits[5] === {first_visit}")
    lam.fill("1")
    tab.settle()
    assert tab.get("store.look.visits[5]") > phi
    assert tab.get("store.timings.map.length") == solved
    for kind in ("FirstVisits", "Hyperbolic", "PowerLaw", "TimeElapsed"):
        tab.page.select_option("#kind", kind)
        tab.settle()
        assert tab.get("store.look.visits.every((value) => Number.isFinite(value) && value >= 0)"), kind
    tab.settle(ALL)
    assert "grow back" in tab.page.locator("#best-text").text_content()


def test_playing_pausing_and_stepping(open_page):
    tab = open_page(reduced_motion="no-preference")
    tab.page.locator("#speed").fill("6")
    tab.page.click("#play")
    tab.page.wait_for_function("() => wane.app.app.playback.time > 10")
    tab.page.click("#play")
    stopped = tab.get("app.playback.time")
    assert 10 < stopped < 100
    assert stopped == int(stopped)
    tab.page.click("#step")
    assert tab.get("app.playback.time") == stopped + 1
    returns = tab.get("app.agents.cards.map((card) => card.shown.returns[app.playback.time])")
    assert len(returns) == 3
    shown = tab.page.eval_on_selector_all(".score div:first-child dd", "all => all.map(e => e.textContent)")
    assert shown == [tab.page.evaluate("value => wane.colours.format(value)", value) for value in returns]
    tab.page.locator("#time").fill("100")
    assert tab.page.locator("#clock").text_content() == "100 / 100"
    tab.page.click("#rewind")
    assert tab.get("app.playback.time") == 0


def test_agents_come_go_and_believe(open_page):
    tab = open_page()
    tab.page.locator(".agent-0 h3 button[title=Remove]").click()
    tab.settle()
    assert tab.get("view.agents.length") == 2
    tab.page.click("#add-agent")
    tab.page.locator(".agent-2 select").select_option("best")
    tab.settle(ALL)
    best = tab.get("store.results.best.value")
    error = tab.get("store.results.best.error")
    assert tab.get("app.agents.cards[2].shown.returns.at(-1)") == pytest.approx(best, abs=error)
    assert tab.get("app.agents.cards[0].shown.returns.at(-1)") <= best + 1e-9
    before = tab.get("app.agents.cards[1].shown.cells")
    tab.page.locator(".agent-1 input[type=range]").fill("0.1")
    tab.settle()
    assert tab.get("view.agents[1].belief") == 0.1
    assert tab.get("app.agents.cards[1].shown.cells") != before
    tab.page.locator("#leaving summary").click()
    assert re.search(r"[ABC] \d+ \(\d+", tab.page.locator("#stays").text_content())


def test_everything_by_keys_alone(open_page):
    tab = open_page()
    press = tab.page.keyboard.press
    for _ in range(40):
        press("Tab")
        if tab.page.evaluate("document.activeElement.id") == "map":
            break
    assert tab.page.evaluate("document.activeElement.id") == "map"
    for key in ("ArrowUp", "ArrowUp", "w", "Enter", "ArrowLeft", "r", "Enter", "+", "+"):
        press(key)
    tab.settle()
    assert tab.get("world.walls[7 * 11 + 9]") == 1
    assert tab.state()["world"]["sites"][-1] == [7, 8]
    assert tab.state()["world"]["rewards"][-1] == 6
    assert "Cell (7, 8)" in tab.page.locator("#readout").text_content()
    press("ArrowLeft")
    press("s")
    press("Enter")
    assert tab.state()["world"]["start"] == [7, 7]
    press("Control+z")
    assert tab.state()["world"]["start"] == [9, 9]
    press("Space")
    assert tab.get("app.playback.playing")
    press("Space")
    assert tab.page.evaluate(UNNAMED) == []


@pytest.mark.parametrize("site", [True, False], ids=["website", "file"])
def test_what_is_copied_for_others_holds_the_whole_state(open_page, site):
    """From a website it is a link. Nobody else can open the address of a file, so there it is a command."""
    tab = open_page(site=site)
    tab.tool("wall")
    tab.drag((2, 2), (4, 6))
    tab.page.locator("#parameters input").fill("0.37")
    tab.page.select_option("#policy", "1")
    tab.page.click("#copy-link")
    tab.page.wait_for_function("() => document.getElementById('done').textContent.includes('copied')")
    said = tab.page.locator("#copy-link").text_content(), tab.page.locator("#done").text_content()
    assert said[0] == ("Copy link" if site else "Copy this view")
    assert ("on your machine only" in said[1]) is not site
    copied = tab.page.evaluate("navigator.clipboard.readText()")
    hash = re.fullmatch(rf"{SITE}(#[\w-]+)" if site else r'wane explore "(#[\w-]+)"', copied)[1]
    assert open_page(hash, site=site).state() == tab.state()
    assert explore(hash).state["world"]["map"] == tab.state()["world"]["map"]
    assert explore(hash).state["view"] == tab.state()["view"]


@pytest.mark.parametrize("end", [200, 201])
def test_a_link_that_is_cut_is_blamed_and_not_a_file(open_page, end):
    tab = open_page()
    hash = "#" + tab.get("wane.state.encodeLink(store.state)")[:end]
    for shown in (open_page(hash), tab):
        shown.page.evaluate("hash => { location.hash = hash; }", hash)
        shown.page.wait_for_function("() => !document.getElementById('message').hidden")
        said = shown.page.locator("#message").text_content()
        assert said == "The link does not hold a world: it is damaged or cut off. Copy all of it."


def test_a_view_that_makes_no_sense_is_told_and_the_world_is_shown(open_page, tmp_path):
    file = explore("toy", view={"agents": [1, 2, 3, 4]}).save(tmp_path / "page.html")
    tab = open_page(file=file)
    assert tab.page.locator("#message").text_content() == "There are at most three agents."
    assert tab.get("app.nameOfWorld()") == "toy"
    assert len(tab.state()["view"]["agents"]) == 3


def test_json_and_pictures_go_out_and_in(open_page, tmp_path):
    tab = open_page()
    tab.page.select_option("#world", "asymmetric")
    tab.settle()
    assert tab.get("app.nameOfWorld()") == "asymmetric"
    with tab.page.expect_download() as download:
        tab.page.click("#save-json")
    download.value.save_as(tmp_path / "world.json")
    world = World.from_json(tmp_path / "world.json")
    assert world.n_sites == 7
    assert world.values(world.policies[0] if world.policies else [4] * world.n_states).shape == (world.n_states,)
    with tab.page.expect_download() as download:
        tab.page.click("#save-png")
    download.value.save_as(tmp_path / "world.png")
    assert (tmp_path / "world.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    shown = tab.state()["world"]
    tab.page.select_option("#world", "toy")
    tab.page.set_input_files("#file", tmp_path / "world.json")
    tab.page.wait_for_function("() => wane.app.app.nameOfWorld() === 'asymmetric'")
    assert tab.state()["world"] == shown
    (tmp_path / "bad.json").write_text('{"map": "#", "sites": [], "rewards": []}')
    tab.page.set_input_files("#file", tmp_path / "bad.json")
    tab.page.wait_for_function("() => !document.getElementById('message').hidden")
    assert "free cell" in tab.page.locator("#message").text_content()
    assert tab.state()["world"] == shown


def test_commands_name_the_world_or_hold_it(open_page):
    tab = open_page()
    tab.page.click("#copy-command")
    assert tab.page.input_value("#copied") == "wane explore two-rooms --lam 0.5"
    tab.tool("wall")
    tab.drag((2, 2), (2, 2))
    tab.page.click("#copy-command")
    link = re.fullmatch(r'wane explore "(#[\w-]+)"', tab.page.input_value("#copied"))[1]
    assert explore(link).state["view"]["agents"] == tab.state()["view"]["agents"]


def test_the_tour_and_an_empty_world(open_page):
    tab = open_page()
    tab.page.click("#tour-start")
    titles = []
    while tab.page.locator("#tour").is_visible():
        titles.append(tab.page.locator("#tour-title").text_content())
        tab.settle()
        assert tab.page.locator(".lit").count() == 1
        assert json.dumps(tab.state()["world"])
        tab.page.click("#tour-next")
    assert len(titles) == len(set(titles)) == 6
    # The last step shows a row of Φ that does not peak at its own state, as a proof in the paper says it does.
    assert tab.get("Math.max(...store.look.visits) > 1.5 * store.look.visits[store.look.grid.number[view.cell]]")
    tab.page.select_option("#world", "empty")
    tab.page.locator("#rows").fill("40")
    tab.page.locator("#columns").fill("40")
    tab.page.click("#make-empty")
    tab.settle(ALL)
    assert tab.get("store.look.grid.size") == 1600
    assert "no reward yet" in tab.page.locator("#best-text").text_content()


def test_a_phone_and_its_finger(open_page):
    tab = open_page(**PHONE)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    tab.page.tap('label:has(input[value="reward"])')
    tab.page.touchscreen.tap(*tab.centre(3, 3))
    tab.settle()
    assert tab.state()["world"]["sites"][-1] == [3, 3]
    tab.page.tap('label:has(input[value="look"])')
    session = tab.context.new_cdp_session(tab.page)
    points = [tab.centre(9, 9), tab.centre(8, 9), tab.centre(7, 9)]
    kinds = ("touchStart", "touchMove", "touchMove", "touchEnd")
    for kind, point in zip(kinds, [*points, None], strict=True):
        touches = [{"x": point[0], "y": point[1]}] if point else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
    tab.settle()
    assert tab.state()["world"]["start"] == [7, 9]
    assert tab.page.evaluate("scrollY") == 0
    small = tab.page.eval_on_selector_all("button, select", SMALL)
    assert small == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_either_scheme(open_page, scheme):
    tab = open_page(color_scheme=scheme)
    tab.page.locator("#settings summary").click()
    contrasts = tab.page.evaluate(CONTRASTS, False)
    assert len(contrasts) > 60
    assert [pair for pair in contrasts if pair[1] < 4.5] == []


def test_without_workers_the_page_computes_by_itself(browser, page_file):
    context = browser.new_context(offline=True)
    context.add_init_script("delete window.Worker")
    tab = Tab(context, page_file)
    tab.settle(ALL)
    assert tab.get("store.lanes.field.worker") is None
    assert tab.get("store.look.visits.length") == 73
    assert tab.get("store.results.best.value") > 5
    context.close()
