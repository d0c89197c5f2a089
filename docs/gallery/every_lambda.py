"""Every λ from one solve.

The λ representation is the successor representation with rescaled columns. So the kernel is factorised once, and each
further λ costs one product. Here a random walker in FourRooms is evaluated for 101 values of λ.
"""

import time

import numpy as np
from matplotlib.figure import Figure

import wane
from wane.worlds import make

rooms = make("four-rooms")
uniform = np.full((rooms.n_states, rooms.n_actions), 1 / rooms.n_actions)
walk = rooms.mdp.under(uniform)

phi = wane.successor_representation(walk, discount=0.97, sites=rooms.sites)
lambdas = np.linspace(0, 1, 101)
began = time.perf_counter()
values = np.array([phi.with_depletion(wane.Geometric(lam)).values(rooms.rewards) for lam in lambdas])
print("101 values of λ took less than a second:", time.perf_counter() - began < 1)

# %%
# Far from the rewards, λ matters little: the walker comes late and seldom returns. Close to them it matters a lot.
figure = Figure(figsize=(6, 3.4), layout="constrained")
axes = figure.subplots()
for state, place in ((int(rooms.sites[1]), "on the largest reward"), (0, "in a corner"), (30, "in the middle")):
    axes.plot(lambdas, values[:, state], label=place)
axes.set(xlabel="λ", ylabel="value of the random walk")
axes.legend()
figure.savefig("every_lambda.png", dpi=120)
