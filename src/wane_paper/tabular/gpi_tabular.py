"""FourRooms: composing four given policies by GPE and GPI (see `wane_paper.common.composing`)."""

from wane.lab.contract import Experiment
from wane_paper.common.composing import Composing, draw, films, fixed, seeded
from wane_paper.common.composing_claims import claims

EXPERIMENT = Experiment(
    name="gpi-tabular",
    title="Composing policies in FourRooms",
    source="section 5.3, figure 5.3",
    summary=(
        "Four policies are composed by GPE and GPI. The paper states that the correct λ = ½ earns the highest return, "
        "that agents with a λ̂ that is too high stay in rewarding states for too long, and that agents with a λ̂ that "
        "is too low leave them too early."
    ),
    quick=Composing(),
    paper=Composing(),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("section 5.3, figure 5.3", "figure 5.3"),
    differences=(
        "Representations are solved for, not iterated. Besides the paper's 50 episodes, every start is played once, "
        "and the optimum over cells and visit counts is computed. λ̂ = ¼ and ¾ are added to the paper's 0, ½ and 1."
    ),
    paper_cost="less than one hour on a laptop (2020, quad-core)",
)
