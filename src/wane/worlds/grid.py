"""A map drawn as text, and where each action leads on it.

`#` is a wall, `.` is a free cell, and a letter or a digit is a free cell with a name. The free cells are the states;
they are numbered from 0 along the rows. An agent that bumps into a wall stays where it is. With slip p, an action is
replaced with probability p by a move to a free neighbour, which is chosen uniformly.

    >>> corridor = Map('''
    ...     #####
    ...     #a.b#
    ...     #####
    ... ''')
    >>> corridor.n_states, corridor.find("b"), corridor.next_states().tolist()
    (3, 2, [[0, 1, 0, 0, 0], [1, 2, 1, 0, 1], [2, 2, 2, 1, 2]])
"""

import re
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from wane.limits import require_memory
from wane.mdp import MDP
from wane.texts import shown
from wane.types import AnyArray, Integer

ACTIONS = ("up", "right", "down", "left", "stay")
"""The names of the actions, in the order of their numbers."""
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)])
"""The change of (row, column) that each action aims at."""
_BYTES_OF_A_CELL = 256
_POLICY_LETTERS = {letter: a for a, letters in enumerate(("u^", "r>", "dv", "l<", "s.")) for letter in letters}
_STRANGE = re.compile(r"[^A-Za-z0-9#.]")


def require_cells(rows: Integer, columns: Integer) -> None:
    """Raises a ValueError if a map of this size, with its transitions, takes more memory than the limit."""
    sizes = (rows, "rows"), (columns, "columns")
    require_memory("a map", *sizes, itemsize=_BYTES_OF_A_CELL, cure="make a smaller map")


class Map:
    """The walls and the free cells of a world."""

    letters: Shaped[np.ndarray, "rows columns"]
    """The character of every cell."""
    free: Bool[np.ndarray, "rows columns"]
    """Whether each cell is free."""
    cells: Int[np.ndarray, "states 2"]
    """The (row, column) of every state."""
    number: Int[np.ndarray, "rows columns"]
    """The state number of every cell, −1 for walls."""

    def __init__(self, text: str) -> None:
        require_cells(len(text), 1)
        lines = _rows(text)
        _check_lines(lines, text)
        self.letters = np.array([list(line) for line in lines])
        self.free = self.letters != "#"
        if not self.free.any():
            raise ValueError(f"a map needs a free cell: {shown(text)}")
        self.cells = np.argwhere(self.free)
        self.number = np.where(self.free, np.cumsum(self.free).reshape(self.free.shape) - 1, -1)

    @classmethod
    def from_letters(cls, letters: Shaped[np.ndarray, "rows columns"]) -> "Map":
        """Makes a map from an array of characters."""
        return cls("\n".join("".join(row) for row in letters))

    @property
    def text(self) -> str:
        """The map as text; `Map(map.text)` is the same map."""
        return "\n".join("".join(row) for row in self.letters)

    def __repr__(self) -> str:
        return f'Map("""\n{self.text}\n""")'

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns, outer walls included."""
        rows, columns = self.free.shape
        return rows, columns

    @property
    def n_states(self) -> int:
        """The number of free cells."""
        return len(self.cells)

    def state(self, row: Integer, column: Integer) -> int:
        """Returns the state number of a free cell. Raises ValueError for a wall and for a cell off the map."""
        rows, columns = self.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise ValueError(f"cell ({row}, {column}) is off the map, which has {rows} rows and {columns} columns")
        if not self.free[row, column]:
            raise ValueError(f"cell ({row}, {column}) is a wall")
        return int(self.number[row, column])

    def find(self, letter: str) -> int:
        """Returns the state number of the cell with this letter. Raises ValueError unless there is exactly one."""
        places = np.argwhere(self.letters == letter)
        if len(places) != 1:
            raise ValueError(f"{shown(letter)} stands {len(places)} times on the map, but it must appear once")
        return self.state(*places[0])

    @cached_property
    def _targets(self) -> Int[np.ndarray, "states 5"]:
        """The state that each move aims at; −1 for walls and for cells off the map."""
        padded = np.pad(self.number, 1, constant_values=-1)
        aim = self.cells[:, None] + MOVES + 1
        return padded[aim[..., 0], aim[..., 1]]

    @cached_property
    def regions(self) -> Int[np.ndarray, " states"]:
        """A number for each state. Two states have the same number if each can reach the other."""
        return connected_components(self.neighbours(), directed=False)[1]

    def next_states(self, n_actions: int = 5) -> Int[np.ndarray, "states actions"]:
        """Returns the state that each action leads to when it does not slip."""
        own = np.arange(self.n_states)[:, None]
        return np.where(self._targets < 0, own, self._targets)[:, :n_actions]

    def bumps(self, n_actions: int = 5) -> Bool[np.ndarray, "states actions"]:
        """Returns whether each action runs into a wall."""
        return self._targets[:, :n_actions] < 0

    def mdp(self, n_actions: int = 5, slip: float = 0.0) -> MDP:
        """Returns the transition probabilities of this map."""
        if not 0 <= slip <= 1:
            raise ValueError(f"slip is a probability, got {slip}")
        table = self.next_states(n_actions)
        if slip == 0:
            return MDP(table)
        stray = self.neighbours()
        own = np.arange(self.n_states)
        moves = [sparse.csr_array((np.ones(len(own)), (own, table[:, a])), shape=stray.shape) for a in range(n_actions)]
        return MDP([(1 - slip) * move + slip * stray for move in moves])

    def neighbour_table(self) -> tuple[Int[np.ndarray, "states 4"], Int[np.ndarray, " states"]]:
        """Returns the free neighbours of every state, and how many there are.

        A row lists the neighbours first; the rest of it is the state itself. A state without a free neighbour counts
        itself as its only neighbour.
        """
        aims = self._targets[:, :4]
        order = np.argsort(aims < 0, axis=1, kind="stable")
        near = np.take_along_axis(aims, order, axis=1)
        own = np.arange(self.n_states)[:, None]
        return np.where(near < 0, own, near), np.maximum((aims >= 0).sum(1), 1)

    def neighbours(self) -> sparse.csr_array:
        """Returns the kernel of moving to a uniformly chosen free neighbour, or of staying where there is none."""
        near, count = self.neighbour_table()
        listed = np.arange(4) < count[:, None]
        source = np.broadcast_to(np.arange(self.n_states)[:, None], listed.shape)[listed]
        return sparse.csr_array((1 / count[source], (source, near[listed])), shape=(self.n_states, self.n_states))

    def policy(self, text: str) -> Int[np.ndarray, " states"]:
        """Reads a policy from a drawing of the map's interior, with u r d l s or ^ > v < . in every free cell."""
        rows, columns = self.shape
        lines = _rows(text)
        if len(lines) != rows - 2 or any(len(line) != columns - 2 for line in lines):
            raise ValueError(
                f"a policy is drawn on the interior, {rows - 2} rows of {columns - 2} letters, got {lines}"
            )
        letters = np.pad(np.array([list(line) for line in lines]), 1, constant_values="#")[self.free]
        unknown = [str(letter) for letter in letters if letter not in _POLICY_LETTERS]
        if unknown:
            raise ValueError(f"unknown letter {unknown[0]!r} in a policy: use u r d l s or ^ > v < .")
        return np.array([_POLICY_LETTERS[letter] for letter in letters])

    def image(self, values: Shaped[AnyArray, " states"]) -> Float[np.ndarray, "rows columns"]:
        """Arranges one number for each state as a picture of the map, with NaN for walls."""
        picture = np.full(self.shape, np.nan)
        picture[self.free] = values
        return picture


def _rows(text: str) -> list[str]:
    """Returns the rows of a drawing, without the blanks around them.

    Only a line break ends a row, and only blanks are taken away. Python's own `splitlines` and `strip` would also
    swallow control characters, which are mistakes that `_check_lines` must see.
    """
    lines = [line.strip(" \t") for line in text.replace("\r\n", "\n").split("\n")]
    drawn = [i for i, line in enumerate(lines) if line]
    return lines[drawn[0] : drawn[-1] + 1] if drawn else []


def _check_lines(lines: list[str], text: str) -> None:
    """Raises ValueError unless there are rows of known characters, all of the same length."""
    if not lines:
        raise ValueError("a map needs a free cell, this one is empty")
    # NumPy drops NUL characters at the end of a string, so the characters are checked before they are an array.
    for row, line in enumerate(lines):
        if strange := _STRANGE.search(line):
            raise ValueError(
                f"unknown character {strange[0]!r} in row {row}, column {strange.start()} of a map: # is a wall, "
                ". is free, letters and digits name cells"
            )
    uneven = next((i for i, line in enumerate(lines) if len(line) != len(lines[0])), None)
    if uneven is not None or not lines[0]:
        row = uneven or 0
        raise ValueError(f"all rows of a map have the same length; row {row} is {len(lines[row])} long: {shown(text)}")
