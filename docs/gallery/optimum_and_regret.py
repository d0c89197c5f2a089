"""The optimum and regret.

The best policy depends on how often every site was visited. On small worlds it is computed, so the regret of any agent
is known. Here the agents compose four policies by GPI and differ in the λ that they believe in, and in when their
values count a reward: in the present state, as in the paper, or on arrival, as the world pays. A third kind of agent
never looks up what remains of the rewards.
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
beliefs = np.linspace(0, 1, 21)
kinds = {"the paper's": ("departure", True), "on arrival": ("arrival", True), "never looks up": ("departure", False)}
figure = Figure(figsize=(6, 3.4), layout="constrained")
axes = figure.subplots()
for name, (timing, refresh) in kinds.items():
    phis = np.stack([gpi.representations(rooms, depletion=Geometric(lam), timing=timing) for lam in beliefs])
    play = jax.vmap(lambda phi, fresh=refresh: gpi.discounted_returns(jax.random.key(0), rooms, phi, refresh=fresh))
    earned = np.asarray(jax.jit(play)(phis)).mean(1)
    print(f"{name:15} earns most with a believed λ of {beliefs[earned.argmax()]:.2f}: {earned.max():.3f}")
    axes.plot(beliefs, 100 * (1 - earned / best), "o-", ms=4, label=name)
axes.axvline(0.5, color="grey", lw=1)
axes.text(0.51, 0.78, "the true λ", transform=axes.get_xaxis_transform())
axes.set(xlabel="believed λ", ylabel="regret, per cent of the optimum", yscale="log")
axes.legend(frameon=False)
figure.savefig("regret.png", dpi=120)
