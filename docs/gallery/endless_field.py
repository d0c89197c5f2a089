"""A forager in an endless field.

The field has 10¹² cells, and no array of it exists: walls and sites follow from a hash of the coordinates. The forager
sees a window of 11 × 11 cells. It heads for what pays best there, discounted by the way to it, and moves on when a site
is worn off.
"""

import jax
import numpy as np

import wane
from wane.worlds import make

field = make("endless-field", seed=6, walls=0.25, sites=0.03, reward=5.0, depletion=wane.Geometric(0.3), horizon=120)
print(f"{field.n_cells:.0e} cells")


def head_for_the_best(seen: np.ndarray, way: int) -> int:
    """Returns the action towards the best site in sight, by value iteration on the window, or the way it went."""
    free, paid = np.pad(seen[0] == 0, 1), np.pad(seen[1], 1)  # What is beyond the window counts as a wall.
    value = paid
    for _ in range(20):
        around = [np.roll(value, move, axis) for move, axis in ((1, 0), (-1, 1), (-1, 0), (1, 1))]
        value = np.where(free, np.maximum(paid, 0.9 * np.max(around, axis=0)), 0.0)
    middle = len(value) // 2
    near = [value[middle - 1, middle], value[middle, middle + 1], value[middle + 1, middle], value[middle, middle - 1]]
    return int(np.argmax(near)) if max(near) > 0.3 else way


# %%
step, random = jax.jit(field.step), np.random.default_rng(0)
seen, state = field.reset()
states, rewards, way = [state], [], 1
for _ in range(field.horizon):
    seen, state, reward, *_ = step(None, states[-1], head_for_the_best(np.asarray(seen), way))
    if np.array_equal(state.cell, states[-1].cell):
        way = int(random.integers(4))  # It ran into a wall.
    states.append(state)
    rewards.append(float(reward))
print(f"{sum(rewards):.1f} earned at {int((state.visited[:, 0] >= 0).sum())} sites")
field.film(states, rewards, "endless_field.gif")

# %%
# What is a random walk worth at the start? Only the cells around it are explored, and the answer has proven bounds.
found = field.values("uniform", tolerance=1e-8)
print(f"between {found.lower[0]:.9f} and {found.upper[0]:.9f}: {found}")

# %%
# The same, seen from above: the cells around the start as a world of its own.
row, column = field.start
field.window(row - 12, column - 20, 25, 41).draw(title="25 × 41 of 10¹² cells").savefig("window.png", dpi=120)
