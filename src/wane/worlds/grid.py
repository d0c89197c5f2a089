"""A text map and what can be done on it.

`#` is a wall, `.` is free, letters and digits are free cells with a name; free cells are the states, numbered along
the rows. Bumping into a wall leaves the agent where it is. With slip p an action becomes, with probability p, a move
to a uniformly chosen free neighbour.

    >>> corridor = Map('''
    ...     #####
    ...     #a.b#
    ...     #####
    ... ''')
    >>> corridor.n_states, corridor.find("b"), corridor.next_states().tolist()
    (3, 2, [[0, 1, 0, 0, 0], [1, 2, 1, 0, 1], [2, 2, 2, 1, 2]])
"""

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from wane.mdp import MDP

ACTIONS = ("up", "right", "down", "left", "stay")
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)])
_POLICY_LETTERS = {letter: a for a, letters in enumerate(("u^", "r>", "dv", "l<", "s.")) for letter in letters}


class Map:
    """Walls and free cells, from text."""

    def __init__(self, text: str):
        lines = [line.strip() for line in text.strip().splitlines()]
        if not lines:
            raise ValueError("a map needs a free cell, this one is empty")
        widths = {len(line) for line in lines}
        if len(widths) != 1 or widths == {0}:
            ragged = next((i for i, line in enumerate(lines) if len(line) != len(lines[0])), 0)
            raise ValueError(
                f"all rows of a map have the same length; row {ragged} is {len(lines[ragged])} long: {text!r}"
            )
        self.letters = np.array([list(line) for line in lines])
        strange = [str(c) for c in np.unique(self.letters) if not ((c.isascii() and c.isalnum()) or c in "#.")]
        if strange:
            raise ValueError(
                f"unknown character {strange[0]!r} on a map: # is a wall, . free, letters and digits name cells"
            )
        self.free = self.letters != "#"
        if not self.free.any():
            raise ValueError(f"a map needs a free cell: {text!r}")
        self.cells = np.argwhere(self.free)
        """(row, column) of every state"""
        self.number = np.where(self.free, np.cumsum(self.free).reshape(self.free.shape) - 1, -1)
        """the state of every cell, −1 for walls"""

    @classmethod
    def from_letters(cls, letters: np.ndarray) -> "Map":
        """A map from an array (rows, columns) of characters."""
        return cls("\n".join("".join(row) for row in letters))

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.free.shape
        return rows, columns

    @property
    def n_states(self) -> int:
        return len(self.cells)

    def state(self, row: int, column: int) -> int:
        """The state of a free cell."""
        rows, columns = self.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise ValueError(f"cell ({row}, {column}) is off the map, which has {rows} rows and {columns} columns")
        if not self.free[row, column]:
            raise ValueError(f"cell ({row}, {column}) is a wall")
        return int(self.number[row, column])

    def find(self, letter: str) -> int:
        """The state of the one cell that bears a letter."""
        places = np.argwhere(self.letters == letter)
        if len(places) != 1:
            raise ValueError(f"{letter!r} stands {len(places)} times on the map, not once")
        return self.state(*places[0])

    @cached_property
    def _targets(self) -> np.ndarray:
        """The cell each move from each state aims at, walls and the edge as −1."""
        padded = np.pad(self.number, 1, constant_values=-1)
        aim = self.cells[:, None] + MOVES + 1
        return padded[aim[..., 0], aim[..., 1]]

    @cached_property
    def regions(self) -> np.ndarray:
        """A number for each state, the same for states that can reach each other."""
        return connected_components(self.neighbours(), directed=False)[1]

    def next_states(self, n_actions: int = 5) -> np.ndarray:
        """A table (states, actions) of where each action leads."""
        own = np.arange(self.n_states)[:, None]
        return np.where(self._targets < 0, own, self._targets)[:, :n_actions]

    def bumps(self, n_actions: int = 5) -> np.ndarray:
        """Whether each action runs into a wall, (states, actions)."""
        return self._targets[:, :n_actions] < 0

    def mdp(self, n_actions: int = 5, slip: float = 0.0) -> MDP:
        """The transitions of this map."""
        if not 0 <= slip <= 1:
            raise ValueError(f"slip is a probability, got {slip}")
        table = self.next_states(n_actions)
        if slip == 0:
            return MDP(table)
        stray = self.neighbours()
        own = np.arange(self.n_states)
        moves = [sparse.csr_array((np.ones(len(own)), (own, table[:, a])), shape=stray.shape) for a in range(n_actions)]
        return MDP([(1 - slip) * move + slip * stray for move in moves])

    def neighbour_table(self) -> tuple[np.ndarray, np.ndarray]:
        """The free neighbours of every state (states, 4), used ones first, and how many: itself where there is none."""
        aims = self._targets[:, :4]
        order = np.argsort(aims < 0, axis=1, kind="stable")
        near = np.take_along_axis(aims, order, axis=1)
        own = np.arange(self.n_states)[:, None]
        return np.where(near < 0, own, near), np.maximum((aims >= 0).sum(1), 1)

    def neighbours(self) -> sparse.csr_array:
        """The kernel of moving to a uniformly chosen free neighbour (staying where there is none)."""
        near, count = self.neighbour_table()
        used = np.arange(4) < count[:, None]
        source = np.broadcast_to(np.arange(self.n_states)[:, None], used.shape)[used]
        return sparse.csr_array((1 / count[source], (source, near[used])), shape=(self.n_states, self.n_states))

    def policy(self, text: str) -> np.ndarray:
        """Actions from a drawing of the map's interior, u r d l s or ^ > v < . in every free cell."""
        rows, columns = self.shape
        lines = [line.strip() for line in text.strip().splitlines()]
        if len(lines) != rows - 2 or any(len(line) != columns - 2 for line in lines):
            raise ValueError(
                f"a policy is drawn on the interior, {rows - 2} rows of {columns - 2} letters, got {lines}"
            )
        letters = np.pad(np.array([list(line) for line in lines]), 1, constant_values="#")[self.free]
        unknown = [str(letter) for letter in letters if letter not in _POLICY_LETTERS]
        if unknown:
            raise ValueError(f"unknown letter {unknown[0]!r} in a policy: use u r d l s or ^ > v < .")
        return np.array([_POLICY_LETTERS[letter] for letter in letters])

    def image(self, values: np.ndarray) -> np.ndarray:
        """Values of the states as an array (rows, columns), NaN for walls."""
        picture = np.full(self.shape, np.nan)
        picture[self.free] = values
        return picture
