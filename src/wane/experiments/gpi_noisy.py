"""FourRooms with slips: composing policies where one action in five goes to a random neighbour instead."""

from wane.experiments.experiment import Experiment
from wane.experiments.gpi_tabular import CLAIMS, GPI, compute, draw, films

QUICK = GPI(slip=0.2, repeats=50)

EXPERIMENT = Experiment(
    name="gpi-noisy",
    title="Composing policies in FourRooms with noisy transitions",
    source="appendix F, figure F.4",
    says=(
        "With a 20 % probability that an action leads to a random neighbouring state, the correct λ still produces "
        "better performance."
    ),
    quick=QUICK,
    paper=GPI(slip=0.2, repeats=500),
    compute=compute,
    draw=draw,
    films=films,
    claims=CLAIMS,
    differs=(
        "Besides the paper's 50 episodes, every start is played many times with the same slips for every agent, and "
        "the optimum of the noisy world is computed."
    ),
    cost="less than one hour on a laptop (2020, quad-core)",
)
