"""A depletion that remembers too much."""

import numpy as np

import wane


class Rambling(wane.Depletion):
    """Remembers too much: two real numbers."""

    def initial(self, shape=()):
        return np.zeros(shape), np.zeros(shape)

    def worth(self, memory):
        return 1 / (1 + memory[0] + memory[1])

    def visit(self, memory):
        return 0.3 * memory[0] + 1, 0.7 * memory[1] + 1

    def wait(self, memory):
        return 0.9 * memory[0], 0.8 * memory[1]
