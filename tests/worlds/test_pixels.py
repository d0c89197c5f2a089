"""Geometry is checked on maps that are neither square nor symmetric, against the pinhole formula and a plain DDA."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane.worlds.catalog import FOUR_ROOMS, four_rooms
from wane.worlds.colours import SITE_COLOURS
from wane.worlds.grid import Map
from wane.worlds.pixels import FLOOR, SKY, WALL, FirstPersonView, layer, ray_cast, surfaces
from wane.worlds.top_down import TopDownView

UP, RIGHT, DOWN, LEFT = range(4)

CROOKED = Map("""
    ############
    #..b.......#
    #a...#..##.#
    #....#c....#
    #.##.......#
    #........#.#
    ############
""")
HOUSE = Map("""
    ################
    #...........#f.#
    #...........#..#
    #.....b.....#..#
    #...........#..#
    #...........##.#
    #..............#
    ################
    #d..e.g..#.....#
    ####.#####.##..#
    ####h#####.....#
    ################
""")
SITES = "bdegf"


def only(letters, size=1.0):
    """The fractions of the sites if only these remain."""
    return np.array([size * (letter in letters) for letter in SITES])


@pytest.fixture(scope="module")
def rooms():
    world = four_rooms()
    return FirstPersonView(world.map, world.sites, size=32)


@pytest.fixture(scope="module")
def house():
    return FirstPersonView(HOUSE, [HOUSE.find(letter) for letter in SITES], size=64)


@pytest.fixture(scope="module")
def large():
    corridor = Map("a..b")
    return FirstPersonView(corridor, [0, 3], size=128)


cast = jax.jit(ray_cast)
look = eqx.filter_jit(surfaces)
sight = eqx.filter_jit(layer)


@eqx.filter_jit
def draw(views, state, facing, fraction):
    return views.frame(state, facing, fraction)


def picture(views, state, facing, fraction):
    """A frame as integers that can be subtracted."""
    return np.asarray(draw(views, np.asarray(state), np.asarray(facing), np.asarray(fraction, float))).astype(int)


def difference(views, state, facing, fraction):
    """How much each pixel changes when the sites are drawn."""
    empty = picture(views, state, facing, np.zeros(len(fraction)))
    return np.abs(picture(views, state, facing, fraction) - empty).sum(-1)


def columns(views, state, facing, fraction):
    return np.flatnonzero(difference(views, state, facing, fraction).any(0))


def walk(free, origin, direction):
    """The depth of the first wall, one grid line at a time (Amanatides and Woo 1987)."""
    cell, position = [int(v) for v in origin], np.asarray(origin, float)
    step = [1 if d > 0 else -1 for d in direction]
    per_line = [1 / abs(d) if d else np.inf for d in direction]
    ahead = [
        ((c + 1 - p) if d > 0 else (p - c)) * line if d else np.inf
        for c, p, d, line in zip(cell, position, direction, per_line, strict=True)
    ]
    while True:
        axis = int(np.argmin(ahead))
        depth, cell[axis], ahead[axis] = ahead[axis], cell[axis] + step[axis], ahead[axis] + per_line[axis]
        inside = 0 <= cell[0] < free.shape[0] and 0 <= cell[1] < free.shape[1]
        if not inside or not free[tuple(cell)]:
            return depth, axis


def test_rays_stop_where_a_walk_along_the_grid_does():
    rng = np.random.default_rng(1)
    for _ in range(40):
        origin = CROOKED.cells[rng.integers(CROOKED.n_states)] + rng.uniform(0.01, 0.99, 2)
        directions = rng.normal(size=(8, 2))
        depth, axis = cast(
            jnp.asarray(CROOKED.free), jnp.asarray(origin, jnp.float32), jnp.asarray(directions, jnp.float32)
        )
        expected = [walk(CROOKED.free, origin, direction) for direction in directions]
        np.testing.assert_allclose(depth, [d for d, _ in expected], rtol=1e-4)
        assert axis.tolist() == [a for _, a in expected]


def test_the_edge_of_a_map_without_border_is_a_wall():
    free = jnp.ones((2, 5), bool)
    depth, axis = cast(free, jnp.array([0.5, 1.5]), jnp.array([[-1.0, 0], [0, 1], [1, 0], [0, -1]]))
    assert depth.tolist() == [0.5, 3.5, 1.5, 1.5]
    assert axis.tolist() == [0, 1, 0, 1]


def test_no_ray_slips_between_two_walls_that_touch_at_a_corner():
    free = jnp.asarray(
        Map("""
        ..#.
        .#..
        ....
    """).free
    )
    diagonal = jnp.array([[1.0, 1.0]])
    depth, _ = cast(free, jnp.array([0.5, 0.5]), diagonal)
    assert depth.tolist() == [0.5]
    depth, _ = cast(free, jnp.array([0.5, 1.5]), diagonal)
    assert depth.tolist() == [0.5]


@pytest.mark.parametrize("size", [32, 64, 128])
def test_a_wall_ahead_is_as_high_as_the_pinhole_formula_says(size):
    scene = FirstPersonView(HOUSE, [], size=size, samples=1, cache=False).scene
    focal = size / 2 / np.tan(np.pi / 6)
    for column in range(1, 9):
        kind = np.asarray(look(scene, np.asarray(HOUSE.state(8, column)), np.asarray(RIGHT)).kind)[:, size // 2]
        height = focal / (8.5 - column)
        # A row belongs to the wall if its centre does.
        n_sky = max(0, int(np.ceil(size / 2 - height / 2 - 0.5)))
        assert (kind == WALL).sum() == size - 2 * n_sky
        assert abs((kind == WALL).sum() - min(height, size)) <= 1
        assert (kind[:n_sky] == SKY).all()
        assert (kind[size - n_sky :] == FLOOR).all()


def test_the_frame_has_its_edges_where_the_wall_ends():
    """The greatest jump of colour above the eye is from sky to wall; without sites there is nothing else."""
    views = FirstPersonView(HOUSE, [], size=64, samples=1)
    focal = 32 / np.tan(np.pi / 6)
    for column in (2, 4, 6, 8):
        upper = picture(views, HOUSE.state(8, column), LEFT, [])[:32, 32]
        jump = np.abs(np.diff(upper, axis=0)).sum(-1)
        assert np.argmax(jump) + 1 == np.ceil(32 - focal / (column - 0.5) / 2 - 0.5)


def test_side_walls_and_openings_are_where_they_should_be():
    """A side wall is ½ away, so depth z of it is in column size/2 ± f/2z; the opening is at depths 2.5 to 3.5."""
    scene = FirstPersonView(HOUSE, [], size=64, samples=1, cache=False).scene
    seen = look(scene, np.asarray(HOUSE.state(8, 1)), np.asarray(RIGHT))
    side = 2 * (np.arange(64) + 0.5 - 32) / scene.camera.focal_length
    end, opening = np.abs(side) < 1 / 7.5, (side > 1 / 3.5) & (side < 1 / 2.5)
    assert end.any()
    assert opening.any()
    assert ((np.asarray(seen.axis) == 1) == (end | opening)).all()
    np.testing.assert_allclose(np.asarray(seen.wall)[end], 7.5, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(seen.wall)[opening], 3.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("facing", "forward", "right"),
    [(UP, (-1, 0), (0, 1)), (RIGHT, (0, 1), (1, 0)), (DOWN, (1, 0), (0, -1)), (LEFT, (0, -1), (-1, 0))],
)
@pytest.mark.parametrize("side", [-1, 1])
def test_left_is_left_for_every_facing(house, facing, forward, right, side):
    """The site is two ahead and one to the side."""
    cell = HOUSE.cells[HOUSE.find("b")] - 2 * np.array(forward) - side * np.array(right)
    seen = columns(house, HOUSE.state(*cell), facing, only("b"))
    centre = 32 + house.scene.camera.focal_length * side / 2
    assert seen.min() < centre < seen.max() + 1
    assert (seen < 32).all() if side < 0 else (seen >= 32).all()


def test_a_half_turn_swaps_sides():
    """With a wide lens a site beside the agent is seen both ways: left looking up, right looking down."""
    scene = FirstPersonView(HOUSE, [HOUSE.find("b")], size=64, field_of_view=170, samples=1, cache=False).scene
    beside = np.asarray(HOUSE.find("b") + 1)
    up, right, down, left = (
        np.flatnonzero(np.asarray(sight(scene, beside, np.asarray(facing), np.asarray(0)))[3].any(0))
        for facing in range(4)
    )
    assert up.max() < 32 <= down.min()
    assert len(right) == 0
    assert left.min() == 63 - left.max()


def test_a_ball_is_as_wide_as_its_tangents():
    """From z away it fills the columns within asin(radius / z); most of it is below the eye."""
    scene = FirstPersonView(HOUSE, [HOUSE.find("e")], size=128, samples=1, cache=False).scene
    x = (np.arange(128) + 0.5 - 64) / scene.camera.focal_length
    for z in (1, 2, 3):
        ball = np.asarray(sight(scene, np.asarray(HOUSE.find("e") - z), np.asarray(RIGHT), np.asarray(0)))[3] == 255
        assert (ball.any(0) == (np.abs(x) < np.tan(np.arcsin(0.3 / z)))).all()
        assert np.flatnonzero(ball.any(1)).mean() > 64


def test_a_site_behind_a_wall_is_not_seen(house):
    assert len(columns(house, HOUSE.state(4, 13), UP, only("f"))) > 3
    for column in (11, 9, 3):
        assert len(columns(house, HOUSE.state(1, column), RIGHT, only("f"))) == 0


def test_nearer_sites_hide_farther_ones(house):
    """From the left e hides g, from the right g hides e; what fades hides less, what is gone nothing."""
    for column, facing, near, far in ((1, RIGHT, "e", "g"), (8, LEFT, "g", "e")):
        view = HOUSE.state(8, column), facing
        np.testing.assert_array_equal(picture(house, *view, only("eg")), picture(house, *view, only(near)))
        assert difference(house, *view, only(far)).any()
        faded = only(near, 0.5)
        assert (picture(house, *view, faded + only(far)) != picture(house, *view, faded)).any()


@pytest.mark.parametrize("column", [2, 4])
def test_sites_fade_to_nothing_in_proportion(house, column):
    """In front of the agent and under it."""
    state = HOUSE.state(8, column)
    steps = [difference(house, state, RIGHT, only("e", fraction)) for fraction in (0, 0.25, 0.5, 0.75, 1)]
    assert steps[0].sum() == 0
    assert all((more >= less).all() and more.sum() > less.sum() for less, more in pairwise(steps))
    np.testing.assert_allclose(steps[2], steps[4] / 2, atol=3)
    np.testing.assert_array_equal(difference(house, state, RIGHT, only("e", 1.5)), steps[4])
    assert difference(house, state, RIGHT, only("e", -1)).sum() == 0


def test_the_site_underfoot_glows_in_its_colour(house):
    for facing in range(4):
        for site, letter in enumerate(SITES):
            frame = picture(house, HOUSE.find(letter), facing, only(letter))
            changed = difference(house, HOUSE.find(letter), facing, only(letter))
            assert changed[:32].sum() == 0
            assert changed[-1, 32] > 0
            assert np.abs(frame[-1, 32] - SITE_COLOURS[site]).max() < 30


@pytest.mark.parametrize(("fixture", "size"), [("rooms", 32), ("house", 64), ("large", 128)])
def test_jit_and_vmap_draw_what_single_calls_draw(fixture, size, request):
    views = request.getfixturevalue(fixture)
    rng = np.random.default_rng(2)
    states, facings = rng.integers(0, len(views.scene.eyes), 6), rng.integers(0, 4, 6)
    fractions = rng.random((6, len(views.scene.balls)))
    batch = jax.jit(jax.vmap(views.frame))(states, facings, fractions)
    assert batch.shape == (6, size, size, 3)
    assert batch.dtype == jnp.uint8
    single = np.stack([picture(views, *each) for each in zip(states, facings, fractions, strict=True)])
    # Compiled, a product and a sum may be rounded once instead of twice.
    assert np.abs(np.asarray(batch).astype(int) - single).max() <= 1
    assert np.abs(np.asarray(views.frame(states[0], facings[0], fractions[0])).astype(int) - single[0]).max() <= 1


def test_without_a_cache_the_pictures_are_the_same(house):
    views = FirstPersonView(HOUSE, [HOUSE.find(letter) for letter in SITES], size=64, cache=False)
    rng = np.random.default_rng(3)
    moves = (rng.integers(0, HOUSE.n_states, 40), rng.integers(0, 4, 40), rng.random((40, len(SITES))))
    afresh, kept = (np.asarray(jax.jit(jax.vmap(v.frame))(*moves)).astype(int) for v in (views, house))
    assert np.abs(afresh - kept).max() <= 1
    bare = FirstPersonView(HOUSE, [], size=64, cache=False)
    assert jax.eval_shape(bare.frame, 7, UP, np.zeros(0)).shape == (64, 64, 3)


def test_views_of_four_rooms_are_all_different_and_tell_the_room(rooms):
    n = FOUR_ROOMS.n_states
    states, facings = np.divmod(np.arange(4 * n), 4)
    frames = np.asarray(jax.jit(jax.vmap(rooms.frame))(states, facings, np.zeros((4 * n, 3))))
    assert len({frame.tobytes() for frame in frames}) == 4 * n
    # Eight by eight blocks are enough for the most similar view from another cell to be one of the same room.
    row, column = FOUR_ROOMS.cells[states].T
    inside = (row != 5) & (column != 5)
    small = frames.reshape(4 * n, 4, 8, 4, 8, 3).mean((2, 4)).reshape(4 * n, -1)[inside]
    room, state = (2 * (row > 5) + (column > 5))[inside], states[inside]
    distance = np.linalg.norm(small[:, None] - small, axis=-1)
    distance[state[:, None] == state] = np.inf
    assert (room[distance.argmin(1)] == room).mean() > 0.95


def test_the_cache_is_small(rooms):
    size_128 = 16 * sum(leaf.nbytes for leaf in jax.tree.leaves(rooms.cache))
    assert size_128 < 100e6


@pytest.mark.parametrize(
    ("sites", "options", "message"),
    [
        ([999], {}, "unknown site 999"),
        ([2, 3, 2], {}, "site 2 is listed twice"),
        ([0], {"cache_limit": 1000}, "cache=False"),
        ([0], {"field_of_view": 180}, "field_of_view is an angle"),
        ([0], {"size": 0}, "at least 1"),
    ],
)
def test_mistakes_are_named(sites, options, message):
    with pytest.raises(ValueError, match=message):
        FirstPersonView(HOUSE, sites, **options)


def test_top_down_shows_the_agent_in_its_cell_and_nowhere_else():
    views = TopDownView(CROOKED, [CROOKED.find("a"), CROOKED.find("c")])
    n, (rows, width) = CROOKED.n_states, CROOKED.shape
    frames = np.asarray(jax.jit(jax.vmap(views.frame))(np.arange(n), np.arange(n) % 4, np.ones((n, 2))))
    assert frames.shape == (n, 8 * rows, 8 * width, 3)
    tiles = frames.reshape(n, rows, 8, width, 8, 3).transpose(0, 1, 3, 2, 4, 5)
    # With the agent in another cell a tile looks as it does for most agents.
    plain = np.median(tiles, axis=0)
    marked = (tiles != plain).any((3, 4, 5))
    expected = np.zeros_like(marked)
    expected[np.arange(n), *CROOKED.cells.T] = True
    np.testing.assert_array_equal(marked, expected)


def test_top_down_arrow_points_where_the_agent_faces():
    views = TopDownView(CROOKED, [], cell_pixels=12)
    row, column = CROOKED.cells[20]
    here = np.s_[12 * row : 12 * row + 12, 12 * column : 12 * column + 12]
    tiles = [picture(views, 20, facing, [])[here] for facing in range(4)]
    ink = tiles[UP].sum(-1) < 60
    assert 0 < ink[:6].sum() < ink[6:].sum()
    for turns in range(1, 4):
        np.testing.assert_array_equal(tiles[turns], np.rot90(tiles[UP], -turns))


def test_top_down_sites_fade_in_their_cells():
    views = TopDownView(CROOKED, [CROOKED.find("a"), CROOKED.find("c")])
    empty, half, full = (picture(views, 5, UP, [fraction, 0]) for fraction in (0, 0.5, 1))
    row, column = CROOKED.cells[CROOKED.find("a")]
    np.testing.assert_array_equal(full[8 * row + 4, 8 * column + 4], SITE_COLOURS[0])
    changed = np.argwhere((full != empty).any(-1))
    assert (changed // 8 == (row, column)).all()
    np.testing.assert_allclose(half, (full + empty) / 2, atol=1)


def test_top_down_names_what_is_too_small():
    with pytest.raises(ValueError, match="at least 4"):
        TopDownView(CROOKED, [], cell_pixels=3)
