"""The optimum and regret.

The best policy depends on how often every site was visited. On small worlds it is computed, so the regret of any agent
is known. Here the agents compose four policies by GPI and differ in the λ that they believe in.
"""

import jax
import numpy as np
from matplotlib.figure import Figure

from wane import Geometric
from wane.agents import gpi
from wane.worlds import make

rooms = make("four-rooms")
best = rooms.optimum().values.mean()
print(f"the optimum, as a mean over all starts: {best:.3f}")

# %%
# All beliefs are played at once, from every start.
beliefs = np.linspace(0, 1, 11)
phis = np.stack([gpi.representations(rooms, depletion=Geometric(lam)) for lam in beliefs])
play = jax.jit(jax.vmap(lambda phi: gpi.discounted_returns(jax.random.key(0), rooms, phi).mean()))
earned = np.asarray(play(phis))

figure = Figure(figsize=(6, 3.2), layout="constrained")
axes = figure.subplots()
axes.plot(beliefs, 100 * (1 - earned / best), "o-")
axes.axvline(0.5, color="grey", lw=1)
axes.text(0.51, axes.get_ylim()[1] * 0.92, "the true λ")
axes.set(xlabel="believed λ", ylabel="regret, per cent of the optimum", ylim=(0, None))
figure.savefig("regret.png", dpi=120)
