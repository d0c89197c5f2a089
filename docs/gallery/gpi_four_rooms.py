"""GPI in FourRooms.

Generalised policy improvement composes policies that are there already: at every step it takes the action that is best
under one of them. It needs the representation of each policy for a λ that the agent believes in. The true λ is ½ here.
"""

import jax
from matplotlib.figure import Figure

from wane import Geometric
from wane.agents import gpi
from wane.worlds import make

rooms = make("four-rooms")
start = 0
figure = Figure(figsize=(11, 4), layout="constrained")
for believed, axes in zip((0.0, 0.5, 1.0), figure.subplots(1, 3), strict=True):
    phi = gpi.representations(rooms, depletion=Geometric(believed))
    episode = gpi.play_composed(jax.random.key(0), rooms, phi, start)
    print(f"believing in λ = {believed}: {float(episode.value):.2f}")
    rooms.draw(trajectory=episode.cells, title=f"believes in λ = {believed:g}: {float(episode.value):.1f}", ax=axes)
figure.savefig("walks.png", dpi=110)
