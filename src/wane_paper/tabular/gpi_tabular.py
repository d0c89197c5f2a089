"""FourRooms: composing four given policies by GPE and GPI (see `wane_paper.common.composing`)."""

from wane.lab.contract import Experiment
from wane_paper.common.composing import Composing, claims, draw, films, fixed, seeded
from wane_paper.texts import texts

EXPERIMENT = Experiment(
    **texts("gpi-tabular"),
    quick=Composing(),
    paper=Composing(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("section 5.3, figure 5.3", "figure 5.3"),
)
