"""The rats.

Eight rats visited 2,615 patches (Kane et al. 2019, CC BY 4.0). The data come with the package, and so does the task.
The optimum is the marginal value theorem, solved exactly. The rats stay about three harvests too long everywhere.
"""

from wane import foraging
from wane.foraging import figures

data = foraging.rats()
table = foraging.harvests_beside_optimum(data)
print(table[["environment", "kind", "optimal", "observed", "difference", "share"]].round(2).to_string(index=False))

# %%
figures.draw_harvests(data).savefig("rats.png", dpi=130)
