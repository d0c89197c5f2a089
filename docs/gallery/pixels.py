"""λ-features from pixels.

An agent that sees pictures has no states to count. It learns features instead: Laplacian features tell places apart by
how easily one comes from one to the other. Here a tiny network learns two of them from first-person pictures of 12 × 12
pixels, taken on walks along a corridor. What they add up to while they wear off, their λF, is then computed exactly.
"""

import dataclasses

import jax
import numpy as np
from matplotlib.figure import Figure

import wane
from wane.agents import laplacian
from wane.agents.common.views import Vision
from wane.worlds import FirstPerson, make

corridor = make("corridor", length=9, horizon=12)
right, left = np.full(corridor.n_states, 1), np.full(corridor.n_states, 3)
corridor = dataclasses.replace(corridor, policies=[right, left])

vision = Vision("first-person:12:unfading", frames=1)
config = laplacian.Config(
    vision=vision, features=2, channels=2, strides=(2,), hidden=(16,), epochs=20, horizon=6, learning_rate=3e-3
)
data = laplacian.collect_data(jax.random.key(0), corridor, config)
learn = jax.jit(lambda key, data: laplacian.train(key, corridor, config, data=data))
state, info = learn(jax.random.key(0), data)
print("the loss falls:", bool(info.loss[-1] < info.loss[0]))

# %%
# Every picture was taken in a known cell, so the features can be drawn over the cells, and their λF is known: here that
# of the policy that goes to the right, with λ = ½. `wane.agents.lambda_features` learns it from the pictures alone.
phi = np.asarray(laplacian.base_features(state.params, data.views[np.arange(len(data.views))]))
cells = np.asarray(data.cells)
means = np.array([phi[cells == cell].mean(0) for cell in range(corridor.n_states)]).clip(0, 1)
exact = wane.lambda_features(corridor.mdp.under(right), means, 0.5, discount=0.9).matrix

figure = Figure(figsize=(10, 3), layout="constrained")
seen, features, sums = figure.subplots(1, 3)
large = dataclasses.replace(corridor, observation=FirstPerson(96))
seen.imshow(np.asarray(large.view(3, 1, np.ones(corridor.n_sites))))
seen.set(title="what the agent sees, enlarged", xticks=[], yticks=[])
for number in range(phi.shape[1]):
    features.plot(cells, phi[:, number], "o", alpha=0.6, label=f"feature {number + 1}")
    sums.plot(exact[:, number], "o-")
features.set(title="learned features", xlabel="cell of the corridor")
features.legend()
sums.set(title="their λF, going right", xlabel="cell of the corridor")
figure.savefig("pixels.png", dpi=110)
