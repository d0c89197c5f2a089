"""Patches that wear off as a whole.

The λ operator also counts visits to sets of states. Two rooms that wear off as one patch are worth less than two that
wear off each by itself, except for λ = 1, where Φ is a measure: Φ(s, A ∪ B) ≤ Φ(s, A) + Φ(s, B).
"""

import numpy as np
from matplotlib.figure import Figure

import wane
from wane.worlds import make
from wane.worlds.draw import representation_map

rooms = make("four-rooms")
walk = rooms.mdp.under(np.full((rooms.n_states, rooms.n_actions), 1 / rooms.n_actions))
rows, columns = rooms.map.cells.T
above = rows < rooms.map.shape[0] // 2
left, right = above & (columns < rooms.map.shape[1] // 2), above & (columns > rooms.map.shape[1] // 2)

for lam in (0.0, 0.5, 0.9, 1.0):
    phi = wane.patch_representation(walk, [left, right, left | right], wane.Geometric(lam), discount=0.97)
    a, b, both = phi.matrix.mean(0)
    print(f"λ = {lam:<4} two patches {a + b:7.3f}    one patch {both:7.3f}")

# %%
# The same from every state, for λ = ½:
phi = wane.patch_representation(walk, [left, right, left | right], wane.Geometric(0.5), discount=0.97).matrix
figure = Figure(figsize=(9, 3.6), layout="constrained")
one, two = figure.subplots(1, 2)
representation_map(rooms.map, phi[:, 2], title="Φ(s, A ∪ B): both rooms, one patch", ax=one)
representation_map(rooms.map, phi[:, 0] + phi[:, 1], title="Φ(s, A) + Φ(s, B): two patches", ax=two)
figure.savefig("patches.png", dpi=120)
