"""FourRooms with slips: composing policies where one action in five leads to a random neighbour instead."""

from wane.lab.contract import Experiment
from wane_paper.common.composing import Composing, draw, films, fixed, seeded
from wane_paper.common.composing_claims import claims

EXPERIMENT = Experiment(
    name="gpi-noisy",
    title="Composing policies in FourRooms with noisy transitions",
    source="appendix F, figure F.4",
    summary=(
        "An action leads to a random neighbouring state with a probability of 20 %. The paper states that the correct "
        "λ still performs better."
    ),
    quick=Composing(slip=0.2, repeats=50),
    paper=Composing(slip=0.2, repeats=500),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("appendix F, figure F.4"),
    differences=(
        "Besides the paper's 50 episodes, every start is played many times with the same slips for every agent, and "
        "the optimum of the noisy world is computed."
    ),
    paper_cost="less than one hour on a laptop (2020, quad-core)",
)
