"""Pictures hold what they were given, where it belongs: on a map that is neither square nor symmetric."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

from wane.worlds import draw, make
from wane.worlds.catalog import FOUR_ROOMS, four_rooms, grid_6x6
from wane.worlds.film import MARGIN, Film, _Stage
from wane.worlds.grid import MOVES, Map

HOOK = Map("""
    #########
    #a..#...#
    #.#.....#
    #.#.#b###
    #########
""")
WIDE = Map("\n".join(["#" * 25] + ["#" + "." * 23 + "#"] * 15 + ["#" * 25]))
N = HOOK.n_states
CELL = 20


def parts(figure, kind, gid):
    return [part for part in figure.axes[0].findobj(kind) if part.get_gid() == gid]


def labels(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def bars(figure):
    """The labels of the colour bars."""
    insets = figure.axes[0].child_axes
    return {inset.get_xlabel() or inset.get_ylabel() for inset in insets}


def cells_of(points):
    """States that points (x, y) lie in, each said once while it lasts."""
    states = [HOOK.state(*np.round(point).astype(int)[::-1]) for point in points]
    return [s for i, s in enumerate(states) if i == 0 or s != states[i - 1]]


def spill(figure):
    """How far a figure's parts reach over its edges, in inches."""
    FigureCanvasAgg(figure).draw()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)


def shade_of(figure, state):
    """The colour that is rendered a quarter of a cell off the centre of a state."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    row, column = HOOK.cells[state]
    x, y = figure.axes[0].transData.transform((column + 0.25, row + 0.25))
    picture = np.asarray(canvas.buffer_rgba())
    return picture[len(picture) - 1 - int(y), int(x), :3] / 255


def test_every_state_has_its_own_colour():
    values = np.arange(N, dtype=float)
    figure = draw.draw_map(HOOK, values=values)
    expected = draw.matplotlib.colormaps["viridis"](values / (N - 1))[:, :3]
    for s in range(N):
        np.testing.assert_allclose(shade_of(figure, s), expected[s], atol=0.01)


def test_values_that_are_missing_stay_white():
    values = np.arange(N, dtype=float)
    values[3] = np.nan
    np.testing.assert_allclose(shade_of(draw.draw_map(HOOK, values=values), 3), 1)


def test_arrows_point_where_the_policy_goes():
    policy = np.arange(N) % 4
    [arrows] = parts(draw.draw_map(HOOK, policy=policy), PolyCollection, "policy")
    assert len(arrows.get_paths()) == N
    for s, path in enumerate(arrows.get_paths()):
        tip = path.vertices[3] - HOOK.cells[s][::-1]
        np.testing.assert_array_equal(np.sign(np.round(tip, 6)), MOVES[policy[s]][::-1])


def test_staying_is_a_dot_in_place_of_an_arrow():
    figure = draw.draw_map(HOOK, policy=np.arange(N) % 5)
    [arrows] = parts(figure, PolyCollection, "policy")
    dots = parts(figure, draw.Circle, "stay")
    assert (len(arrows.get_paths()), len(dots)) == (np.sum(np.arange(N) % 5 < 4), np.sum(np.arange(N) % 5 == 4))
    assert HOOK.state(*map(int, dots[0].center[::-1])) == 4


def test_likelier_arrows_are_longer_and_darker():
    policy = np.tile([0.6, 0.3, 0.1, 0.0, 0.0], (N, 1))
    [arrows] = parts(draw.draw_map(HOOK, policy=policy), PolyCollection, "policy")
    assert len(arrows.get_paths()) == 3 * N
    lengths = [np.ptp(path.vertices, axis=0).max() for path in arrows.get_paths()[:3]]
    alphas = arrows.get_facecolor()[:3, 3]
    assert lengths[0] > lengths[1] > lengths[2]
    assert alphas[0] > alphas[1] > alphas[2]


def test_bars_are_labelled():
    assert bars(draw.draw_map(HOOK)) == set()
    assert bars(draw.draw_map(HOOK, values=np.ones(N), label="V")) == {"V"}
    assert bars(draw.draw_map(HOOK, values=np.arange(N), trajectory=[0, 1])) == {"value", "time step"}
    assert bars(draw.representation_map(HOOK, np.arange(N))) == {"Φ(s, ·)"}


def test_sites_say_what_is_left():
    given = {"sites": [3, 0], "rewards": [10.0, 5.0]}
    assert labels(draw.draw_map(HOOK, sites=[3, 0])) == []
    assert labels(draw.draw_map(HOOK, **given)) == ["10", "5"]
    assert labels(draw.draw_map(HOOK, **given, remaining=[0.3125, 0.0])) == ["0.31", "0"]


def test_sites_fade_with_what_is_left():
    figure = draw.draw_map(HOOK, sites=[3, 0, 5], rewards=[10, 5, 2], remaining=[10, 2.5, 0])
    fills = [disc.get_facecolor()[:3] for disc in parts(figure, draw.Circle, "site")]
    full = [to_rgb(colour) for colour in draw.SITE_COLOURS[:3]]
    np.testing.assert_allclose(fills, [full[0], (np.array(full[1]) + 1) / 2, (1, 1, 1)], atol=0.005)


def walk(letters):
    """The states of a walk from a, over moves by their letters."""
    states, table = [HOOK.find("a")], HOOK.next_states()
    for letter in letters:
        states.append(int(table[states[-1], "urdls".index(letter)]))
    return states


@pytest.mark.parametrize("letters", ["", "s", "rr", "rrddsuurld", "rlrlrl", "rrdrrrurdl", "ddssuu"])
def test_a_trajectory_goes_through_its_cells_in_order(letters):
    states = walk(letters)
    [lines] = parts(draw.draw_map(HOOK, trajectory=states), LineCollection, "trajectory")
    points = [point for segment in lines.get_segments() for point in segment]
    expected = [s for i, s in enumerate(states) if i == 0 or s != states[i - 1]]
    assert cells_of(points) == (expected if len(expected) > 1 else [])


def test_there_and_back_are_two_lines():
    [lines] = parts(draw.draw_map(HOOK, trajectory=walk("rrll")), LineCollection, "trajectory")
    heights = [float(np.mean(segment[:, 1])) for segment in lines.get_segments()]
    # On the screen rows run downwards: to the right of going right is below, which is a larger row.
    assert heights[0] > 1 > heights[-1]


def test_rings_grow_with_the_steps_stayed():
    small, large = parts(draw.draw_map(HOOK, trajectory=walk("srssss")), draw.Circle, "stayed")
    assert small.radius < large.radius
    assert cells_of([large.center]) == [HOOK.state(1, 2)]


def test_start_is_boxed():
    [box] = parts(draw.draw_map(HOOK, start=HOOK.find("b")), draw.Rectangle, "start")
    assert HOOK.state(*np.round(np.array(box.get_center())).astype(int)[::-1]) == HOOK.find("b")


def test_small_maps_have_numbers_and_large_ones_have_not():
    row = np.linspace(0, 1.5, 16)
    figure = draw.representation_map(grid_6x6().map, row, state=12)
    assert labels(figure)[:3] == ["0", "0.10", "0.20"]
    assert len(labels(figure)) == 16
    assert len(parts(figure, draw.Circle, "state")) == 1
    assert labels(draw.representation_map(WIDE, np.zeros(WIDE.n_states))) == []


def test_given_axes_are_drawn_on():
    figure = Figure()
    panels = figure.subplots(1, 2)
    assert draw.draw_map(HOOK, values=np.arange(N), title="left", ax=panels[0]) is figure
    assert draw.representation_map(HOOK, np.arange(N), ax=panels[1]) is figure
    assert panels[0].get_title() == "left"
    assert len(panels[1].texts) in (0, N)


@pytest.mark.parametrize("map", [HOOK, FOUR_ROOMS, WIDE], ids=["hook", "FourRooms", "wide"])
def test_nothing_is_cut_off(map):
    last = map.n_states - 1
    everything = {"values": -1000.0 * np.arange(map.n_states), "sites": [0, last], "rewards": [10, 0.25]}
    assert spill(draw.draw_map(map, **everything, trajectory=[0, 1, 0], start=last, title="γ = 0.97")) <= 0
    assert spill(draw.draw_map(map, **everything, policy=np.full(map.n_states, 1))) <= 0
    assert spill(draw.representation_map(map, np.linspace(0, 1, map.n_states), state=last, title="λ = ½")) <= 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"values": np.zeros(N + 1)}, rf"values has shape \({N + 1},\): give shape \({N},\)"),
        ({"policy": np.full(N, 5)}, "policy has the action 5 in state 0: give 0 … 4"),
        ({"policy": np.zeros(N - 1)}, rf"policy has shape \({N - 1},\): give an action for each of the {N} states"),
        ({"policy": np.full((N, 4), 0.3)}, "in state 0: give probabilities that sum to 1"),
        ({"trajectory": [0, N]}, f"trajectory has {N} at place 1, which is not on the map"),
        ({"trajectory": []}, "trajectory is empty"),
        ({"trajectory": [0.5]}, "trajectory has 0.5 at place 0"),
        ({"sites": [-1]}, "sites has -1 at place 0"),
        ({"sites": [0], "rewards": [1, 2]}, r"rewards has shape \(2,\): give shape \(1,\)"),
        ({"remaining": [1]}, r"remaining has shape \(1,\): give shape \(0,\)"),
        ({"start": N}, f"start has {N} "),
    ],
)
def test_errors_name_culprit_and_cure(wrong, message):
    with pytest.raises(ValueError, match=message):
        draw.draw_map(HOOK, **wrong)


def test_an_optimum_gives_its_values(unchecked_types):
    world = make("toy")
    best = world.optimum()
    assert draw.to_png(world.draw(values=best)) == draw.to_png(world.draw(values=best.values))
    with pytest.raises(TypeError, match="actions of an optimum depend on the time and on what the sites remember"):
        world.draw(policy=best)
    with pytest.raises(TypeError, match="values has the type World, which holds no numbers: give one number for each"):
        world.draw(values=world)


def test_errors_of_a_representation():
    with pytest.raises(ValueError, match="row has shape"):
        draw.representation_map(HOOK, np.zeros(N - 1))
    with pytest.raises(ValueError, match="state has 99"):
        draw.representation_map(HOOK, np.zeros(N), state=99)


def episode(letters="rrdrrdss"):
    """A walk, with two sites of which the second halves at every step."""
    states = walk(letters)
    steps = np.arange(len(states))
    remaining = np.stack([np.full(len(states), 5.0), 10 * 0.5**steps], 1)
    sites = {"sites": [HOOK.state(1, 7), HOOK.state(3, 1)], "rewards": [5, 10]}
    return states, sites | {"remaining": remaining, "returns": 1.5 * steps}


def gif(path, *given, **options):
    return Film(*given, **options).save(path)


def frames_of(path):
    with Image.open(path) as film:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]


def pixel(map, state, cell=CELL):
    """(row, column) of the pixel in the middle of a cell; of the walls around, only a rim is drawn."""
    return tuple((MARGIN + (draw.RIM - 1 + map.cells[state] + 0.5) * cell).astype(int))


def close(colour, name):
    return np.abs(np.asarray(colour) / 255 - to_rgb(name)).max() < 0.03


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    states, rest = episode()
    return gif(tmp_path_factory.mktemp("film") / "a.gif", HOOK, states, **rest, cell_pixels=CELL)


def test_one_frame_for_each_state_and_no_draft_left(film):
    assert len(frames_of(film)) == len(episode()[0])
    assert len({frame.shape for frame in frames_of(film)}) == 1
    assert [path.name for path in film.parent.iterdir()] == ["a.gif"]


def test_it_loops_and_the_last_frame_stays(film):
    with Image.open(film) as pictures:
        assert pictures.info["loop"] == 0
        times = [frame.info["duration"] for frame in ImageSequence.Iterator(pictures)]
    assert times == [160] * (len(times) - 1) + [1160]


def test_the_agent_is_where_it_should_be(film):
    for state, frame in zip(episode()[0], frames_of(film), strict=True):
        dark = [s for s in range(N) if close(frame[pixel(HOOK, s)], draw.INK)]
        assert dark == [state]


def test_walls_and_floor_are_where_they_should_be(film):
    first = frames_of(film)[0]
    for (row, column), free in np.ndenumerate(HOOK.free[1:-1, 1:-1]):
        y, x = (MARGIN + (draw.RIM + np.array([row, column]) + 0.2) * CELL).astype(int)
        site = (row + 1, column + 1) in {(1, 7), (3, 1)}
        assert site or close(first[y, x], "white" if free else draw.WALL)


def test_the_tail_fades(film):
    frame = frames_of(film)[5]
    recent, older = (frame[pixel(HOOK, s)].mean() for s in (episode()[0][4], episode()[0][2]))
    assert 40 < recent < older < 250


def test_sites_on_the_map_fade(film):
    y, x = pixel(HOOK, HOOK.state(3, 1))
    shades = [frame[y - 6, x].astype(int).min() for frame in frames_of(film)]
    assert shades[0] < 10
    assert shades[-1] > 220


def test_bars_shrink_with_what_is_left(film):
    lengths = np.array([[bar(frame, colour) for colour in draw.SITE_COLOURS[:2]] for frame in frames_of(film)])
    assert len(set(lengths[:, 0])) == 1
    np.testing.assert_allclose(lengths[:, 1], 110 * 0.5 ** np.arange(len(lengths)), atol=1.5)
    np.testing.assert_allclose(lengths[0, 0], 55, atol=1.5)


def bar(frame, colour):
    """How long the bar of a colour is, in the panel beside the map."""
    panel = frame[:, round(MARGIN + 7.5 * CELL + 18) + 26 :] / 255
    return (np.abs(panel - to_rgb(colour)).max(2) < 0.03).sum(1).max()


def test_a_title_moves_everything_down(tmp_path):
    states, rest = episode("r")
    plain, titled = (
        frames_of(gif(tmp_path / f"{title}.gif", HOOK, states, **rest, title=title, cell_pixels=CELL))[0]
        for title in (None, "a very long title that has to shrink to fit beside everything else on this small map")
    )
    assert titled.shape[0] > plain.shape[0]
    assert titled.shape[1] == plain.shape[1]
    y, x = pixel(HOOK, states[0])
    assert close(titled[y + titled.shape[0] - plain.shape[0], x], draw.INK)


def test_a_long_episode_is_a_small_file(tmp_path):
    rooms = four_rooms()
    rng = np.random.default_rng(0)
    states = [0]
    for _ in range(100):
        states.append(int(rooms.map.next_states()[states[-1], rng.integers(5)]))
    remaining = rooms.rewards * 0.98 ** np.arange(101)[:, None]
    given = {"sites": rooms.sites, "rewards": rooms.rewards, "remaining": remaining, "returns": np.arange(101)}
    path = gif(tmp_path / "new" / "rooms.gif", rooms.map, states, **given, title="FourRooms")
    assert path.stat().st_size < 500_000
    with Image.open(path) as film:
        assert film.n_frames == 101
        assert 600 <= film.width <= 720


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    states, rest = episode()
    path = tmp_path / "a.gif"
    path.write_bytes(b"old")
    paint = _Stage.frame

    def fail(stage, seen, *rest):
        if len(seen) == 4:
            raise RuntimeError("out of paint")
        return paint(stage, seen, *rest)

    monkeypatch.setattr(_Stage, "frame", fail)
    with pytest.raises(RuntimeError, match="out of paint"):
        gif(path, HOOK, states, **rest)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"states": [0, N]}, f"states has {N} at place 1"),
        ({"states": []}, "states is empty"),
        ({"sites": [0]}, r"rewards has shape \(2,\): give shape \(1,\)"),
        ({"remaining": np.ones((3, 2))}, r"remaining has shape \(3, 2\): give shape \(9, 2\)"),
        ({"returns": np.ones(8)}, r"returns has shape \(8,\): give shape \(9,\)"),
        ({"fps": 0}, "fps is 0"),
        ({"cell_pixels": 0}, "cell_pixels is 0: give at least 4"),
    ],
)
def test_errors_of_a_gif_come_before_anything_is_written(tmp_path, wrong, message):
    states, rest = episode()
    given = {"states": states} | rest | wrong
    with pytest.raises(ValueError, match=message):
        gif(tmp_path / "a.gif", HOOK, **given)
    assert list(tmp_path.iterdir()) == []


def test_a_world_in_place_of_a_map_is_told_the_short_way(unchecked_types):
    rooms = four_rooms()
    for call in (
        lambda: draw.draw_map(rooms),
        lambda: draw.representation_map(rooms, np.zeros(68)),
        lambda: Film(rooms, [0], sites=[], rewards=[], remaining=np.zeros((1, 0)), returns=[0.0]),
    ):
        with pytest.raises(TypeError, match=r"this draws a Map, got World: a world draws itself, world.draw\(…\)"):
            call()


def test_the_old_name_warns():
    with pytest.warns(DeprecationWarning, match="wane.worlds.draw.still is now wane.worlds.draw.draw_map"):
        assert draw.still is draw.draw_map
    with pytest.raises(AttributeError, match="no attribute 'stil'"):
        _ = draw.stil
