"""SR, FR and λR as heat maps.

The paper's first result figure: the representation of the lower left state of a 6 × 6 grid, under the policy that comes
with the world. λ = 0 is the first-occupancy representation (FR), λ = 1 the successor representation (SR).
"""

from matplotlib.figure import Figure

import wane
from wane.worlds import make
from wane.worlds.draw import representation_map

grid = make("grid-6x6")
kernel = grid.mdp.under(grid.policies[0])
start = grid.map.find("S")

figure = Figure(figsize=(10, 3.4), layout="constrained")
titles = {0.0: "FR, λ = 0", 0.5: "λR, λ = ½", 1.0: "SR, λ = 1"}
for (lam, title), axes in zip(titles.items(), figure.subplots(1, 3), strict=True):
    phi = wane.lambda_representation(kernel, lam, discount=0.9)
    representation_map(grid.map, phi.matrix[start], state=start, title=title, ax=axes)
figure.savefig("heat_maps.png", dpi=120)
