"""From a track to leaving times.

A camera gives positions, and a feeder gives the times of rewards. `from_track` cuts them into visits to patches. The
track below is made up: an animal goes back and forth between two feeders and stays for as long as it likes.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc

from wane import foraging

random = np.random.default_rng(1)
feeders = {"west": (0.0, 0.0), "east": (3.0, 0.5)}
places, pellets, now = [], [], 0.0
for visit in range(8):
    here, there = list(feeders.values())[visit % 2], list(feeders.values())[(visit + 1) % 2]
    steps = random.integers(30, 90)
    places += list(np.array(here) + 0.12 * random.normal(size=(steps, 2)))
    pellets += [now + 0.5 + 0.4 * 1.5**n for n in range(7) if 0.5 + 0.4 * 1.5**n < 0.1 * steps]
    places += list(np.linspace(here, there, 22)[1:-1] + 0.05 * random.normal(size=(20, 2)))
    now += 0.1 * (steps + 20)
x, y = np.array(places).T
times = 0.1 * np.arange(len(x))

# %%
patches = {name: foraging.Circle(*centre, 0.6) for name, centre in feeders.items()}
cleaning = foraging.Cleaning(shortest=3)
recording = foraging.from_track(times, x, y, patches=patches, rewards=np.array(pellets), cleaning=cleaning)
print(recording.visits[["patch", "arrival", "duration", "travel", "reward"]].round(1).to_string(index=False))

# %%
# Longer visits pay more, but less and less for each further second, because the feeders slow down.
figure = Figure(figsize=(9, 3.2), layout="constrained")
left, right = figure.subplots(1, 2)
left.plot(x, y, lw=0.5)
for centre in feeders.values():
    left.add_patch(Disc(centre, 0.6, fill=False, color="tab:orange", lw=2))
left.set(title="the track", aspect="equal")
for patch, rows in recording.visits.groupby("patch"):
    right.plot(rows["duration"], rows["reward"], "o", label=patch)
right.set(title="visits", xlabel="seconds in the patch", ylabel="pellets", ylim=(0, None))
right.legend()
figure.savefig("track.png", dpi=120)
