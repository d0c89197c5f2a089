"""FourRooms with slips: composing policies where one action in five leads to a random neighbour instead."""

from wane.lab.contract import Experiment
from wane_paper.common.composing import Composing, claims, draw, films, fixed, seeded
from wane_paper.texts import texts

EXPERIMENT = Experiment(
    **texts("gpi-noisy"),
    quick=Composing(slip=0.2, repeats=50),
    paper=Composing(slip=0.2, repeats=500),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("appendix F, figure F.4"),
)
