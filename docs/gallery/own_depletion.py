"""Your own depletion.

A curve over visit counts needs one method, `worth`. Everything else follows from it: the representation, values, the
optimum, worlds and agents.
"""

import numpy as np
from matplotlib.figure import Figure

import wane


class FreeSamples(wane.Diminishing):
    """The first visits pay in full, and each later one pays a third of the one before."""

    free: int

    def worth(self, visits):
        """Returns what a visit pays after so many earlier ones."""
        beyond = visits - self.free + 1
        return 3.0 ** (-(abs(beyond) + beyond) / 2)


curves = {"three free samples": FreeSamples(3), "λ = ½": wane.Geometric(0.5), "hyperbolic": wane.Hyperbolic(1.0)}

# %%
# A walker on three states, with a reward at each of them:
walk = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
for name, curve in curves.items():
    phi = wane.representation(walk, curve, discount=0.9)
    print(f"{name:20} {phi.values([1.0, 0.0, 2.0]).round(3)}")

# %%
figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
visits = np.arange(9)
for name, curve in curves.items():
    axes.plot(visits, curve.worth(visits), "o-", label=name)
axes.set(xlabel="earlier visits", ylabel="worth of the next visit")
axes.legend()
figure.savefig("curves.png", dpi=120)
