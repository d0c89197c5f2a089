"""The worlds of the catalogue.

All worlds that come with the package, as `wane.worlds.make` makes them. Discs are rewarded sites with what a first
visit pays, and a box is the start. Worlds with another size of the same map are left out.
"""

from matplotlib.figure import Figure

from wane.worlds import make

names = [
    ["grid-6x6", "two-rooms", "four-rooms"],
    ["toy", "asymmetric", "open-field"],
    ["corridor", "patches-2", "patches-4"],
]
figure = Figure(figsize=(11, 9), layout="constrained")
for row, line in zip(names, figure.subplots(3, 3), strict=True):
    for name, axes in zip(row, line, strict=True):
        make(name).draw(title=name, ax=axes)
figure.savefig("worlds.png", dpi=100)

# %%
# A policy that comes with a world, as arrows:
rooms = make("four-rooms")
rooms.draw(policy=rooms.policies[0], title="a policy of FourRooms").savefig("policy.png", dpi=110)
