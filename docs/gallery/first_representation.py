"""A first λ representation.

A walker goes round a ring of twelve states, one step to the right with probability 0.7 and one step to the left
otherwise. Each visit to a state halves what it pays. Entry (s, s') of the λ representation is what a walker from s will
have of a reward of 1 at s'.
"""

import numpy as np
from matplotlib.figure import Figure

import wane

ring = np.zeros((12, 12))
for state in range(12):
    ring[state, (state + 1) % 12] = 0.7
    ring[state, (state - 1) % 12] = 0.3

phi = wane.lambda_representation(ring, 0.5, discount=0.95)
print(phi.method, f"with a residual of {phi.residual:.0e}")

# %%
# Values are the representation times the rewards of a first visit.
rewards = np.zeros(12)
rewards[[0, 4]] = 1.0, 2.0

figure = Figure(figsize=(7, 3), layout="constrained")
left, right = figure.subplots(1, 2)
picture = left.imshow(phi.matrix, cmap="viridis")
left.set(title="Φ for λ = ½", xlabel="site s'", ylabel="start s")
figure.colorbar(picture, ax=left)
right.bar(range(12), phi.values(rewards))
right.set(title="values", xlabel="start s")
figure.savefig("first.png", dpi=120)
