"""Rewards that grow back.

A depletion has a memory, and may change it while nobody is there. Three schemes of the paper are built in. The picture
shows what a visit would pay while a forager visits at steps 2, 3, 4 and 12.
"""

import numpy as np
from matplotlib.figure import Figure

import wane

schemes = {
    "time elapsed": wane.TimeElapsed(0.5, 0.3),
    "eligibility trace": wane.EligibilityTrace(0.6, 0.8),
    "total time": wane.TotalTime(0.6, 0.95),
}
visited = {2, 3, 4, 12}

figure = Figure(figsize=(7, 3.4), layout="constrained")
axes = figure.subplots()
for name, scheme in schemes.items():
    memory, worth = scheme.initial(()), []
    for step in range(20):
        worth.append(float(scheme.worth(memory)))
        memory = scheme.visit(memory) if step in visited else scheme.wait(memory)
    axes.plot(worth, "o-", ms=4, label=name)
for step in visited:
    axes.axvline(step, color="grey", lw=0.7)
axes.set(xlabel="step", ylabel="what a visit would pay", xticks=range(0, 20, 2))
axes.legend()
figure.savefig("growing_back.png", dpi=120)

# %%
# How well a number is known is part of every answer: closed forms leave nothing out, and sums state a bound.
walk = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
for name, scheme in schemes.items():
    phi = wane.representation(walk, scheme, discount=0.8)
    print(f"{name:18} {phi.values([1.0, 0.0, 0.0]).round(4)}   left out: at most {phi.truncation:.0e}")
