import numpy as np
import pytest
from scipy import sparse

import wane
from wane.worlds import catalog
from wane.worlds.grid import ACTIONS, Map

UNEVEN = Map("""
    #######
    #a..#.#
    #.#..b#
    #######
""")


def test_numbering():
    assert UNEVEN.shape == (4, 7)
    assert UNEVEN.n_states == 8
    assert UNEVEN.cells[UNEVEN.find("b")].tolist() == [2, 5]
    assert UNEVEN.number[1].tolist() == [-1, 0, 1, 2, -1, 3, -1]
    picture = UNEVEN.image(np.arange(8.0))
    assert np.isnan(picture[0, 0])
    assert picture[2, 5] == 7


@pytest.mark.parametrize(
    ("action", "target"),
    [("up", (1, 1)), ("right", (2, 1)), ("down", (2, 1)), ("left", (2, 1)), ("stay", (2, 1))],
)
def test_moves_from_the_lower_left(action, target):
    a, here = ACTIONS.index(action), UNEVEN.state(2, 1)
    assert UNEVEN.next_states()[here, a] == UNEVEN.state(*target)
    assert UNEVEN.bumps()[here, a] == (action in ("right", "down", "left"))


def test_moves_without_border_walls():
    open_map = Map("..\n..\n..")
    assert open_map.next_states()[0].tolist() == [0, 1, 2, 0, 0]
    assert open_map.next_states()[5].tolist() == [3, 5, 5, 4, 5]


def test_slip():
    kernel = UNEVEN.mdp(4, slip=0.2).action(ACTIONS.index("up"))
    corner = kernel[[UNEVEN.find("a")]].toarray()[0]
    assert corner[UNEVEN.find("a")] == pytest.approx(0.8), "bumping"
    assert corner[UNEVEN.state(1, 2)] == corner[UNEVEN.state(2, 1)] == pytest.approx(0.1)
    assert sparse.issparse(kernel)
    alone = Map("###\n#.#\n###").mdp(5, slip=1.0).action(0).toarray()
    assert alone.tolist() == [[1.0]]
    with pytest.raises(ValueError, match="slip is a probability, got 1.5"):
        UNEVEN.mdp(slip=1.5)


def test_catalog():
    rooms = catalog.four_rooms()
    columns = rooms.map.shape[1]
    assert rooms.map.n_states == 68
    assert [int(columns * r + c) for r, c in rooms.map.cells[rooms.sites]] == [80, 24, 41]
    goals = [80, 24, 41, 95]
    for policy, goal in zip(rooms.policies, goals, strict=True):
        kernel = rooms.map.mdp().under(policy)
        reached = wane.first_occupancy_representation(
            kernel, discount=1.0, sites=[rooms.map.state(*divmod(goal, columns))]
        )
        assert reached.matrix.min() == 1, "each policy walks to its goal from everywhere"
    two = catalog.two_rooms()
    assert two.map.n_states == 73
    assert [int(11 * r + c) for r, c in two.map.cells[two.sites]] == [12, 20, 67]
    grid = catalog.grid_6x6()
    assert grid.map.n_states == 16
    assert [int(6 * r + c) for r, c in grid.map.cells[[*grid.sites, grid.map.find("S")]]] == [15, 25]


def test_q_errors_of_the_6x6_grid():
    """Mean squared Q error against λ = ½ over the free cells and four actions: 0.2205 for λ = 1, 0.0484 for λ = 0."""
    grid = catalog.grid_6x6()
    mdp = grid.map.mdp(grid.n_actions)
    phi = wane.lambda_representation(mdp.under(grid.policies[0]), 0.5, discount=grid.discount, sites=grid.sites)
    q = {lam: phi.with_depletion(wane.Geometric(lam)).q_values(mdp, grid.rewards) for lam in (0.0, 0.5, 1.0)}
    assert round(((q[1.0] - q[0.5]) ** 2).mean(), 4) == 0.2205
    assert round(((q[0.0] - q[0.5]) ** 2).mean(), 4) == 0.0484


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("#####\n#a\0b#\n#####", r"'\\x00' in row 1, column 2"),
        ("####\0\n#a.b#\n#####", r"'\\x00' in row 0, column 4"),
        ("#####\n#a.b#\n\0\0\0\0\0", r"'\\x00' in row 2, column 0"),
        ("#####\n#a\x0bb#\n#####", r"'\\x0b' in row 1, column 2"),
        ("#####\n#a.b#\x1f\n#####", r"'\\x1f' in row 1, column 5"),
        ("#####\n#a\x85b#\n#####", r"'\\x85' in row 1, column 2"),
        ("#####\n#a\tb#\n#####", r"'\\t' in row 1, column 2"),
        ("\ufeff#####\n#a.b#\n#####", r"'\\ufeff' in row 0, column 0"),
        ("#####\n#a٣b#\n#####", "'٣' in row 1, column 2"),
    ],
)
def test_control_characters_and_other_strange_ones_are_refused(text, where):
    """NumPy drops NULs at the end of strings, and `splitlines` takes control characters for line breaks."""
    with pytest.raises(ValueError, match=f"unknown character {where} of a map"):
        Map(text)


def test_blanks_and_line_breaks_around_a_map_do_not_count():
    assert Map("\r\n  #####\r\n\t#a.b#  \r\n  #####\r\n\n").text == "#####\n#a.b#\n#####"
    with pytest.raises(ValueError, match="unknown letter ''"):
        UNEVEN.policy("uuu#\0\nu#uuu")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Map("###\n#.#\n##"), "row 2 is 2 long"),
        (lambda: Map("##\n##"), "needs a free cell"),
        (lambda: UNEVEN.state(0, 0), r"cell \(0, 0\) is a wall"),
        (lambda: UNEVEN.state(9, 0), "off the map, which has 4 rows and 7 columns"),
        (lambda: UNEVEN.find("z"), "'z' stands 0 times"),
        (lambda: UNEVEN.policy("uuu"), "2 rows of 5 letters"),
        (lambda: UNEVEN.policy("uuu#x\nu#uuu"), "unknown letter 'x'"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
