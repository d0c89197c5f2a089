"""TwoRooms: Qλ-learning for a λ̂ that is right or wrong (see `wane_paper.common.learning`).

The rewards halve with every visit. The agents are compared with the optimum over (cell × visit counts).
"""

import pandas as pd

from wane.lab.contract import Experiment, Tables
from wane_paper.common.learning import (
    Learning,
    draw,
    films,
    has_optimum,
    optimal_return,
    seeded,
)
from wane_paper.common.learning_claims import claims


def fixed(settings: Learning) -> Tables:
    """Returns the table `optimum`, one row with its return, or nothing where the optimum must count too many visits."""
    if not has_optimum(settings.lam):
        return {}
    return {"optimum": pd.DataFrame({"value": [optimal_return(settings)]})}


EXPERIMENT = Experiment(
    name="q-lambda",
    title="Learning a policy in TwoRooms",
    source="section 5.2, figure 5.2 (left)",
    summary=(
        "The paper states that Qλ-learning outperforms standard Q-learning (λ = 1) where rewards diminish, and that "
        "the correct λ does best."
    ),
    quick=Learning(seeds=64),
    paper=Learning(seeds=256),
    fixed=fixed,
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("section 5.2, figure 5.2"),
    differences=(
        "The paper has three seeds, which cannot decide its claims: a difference of 2 would be within the noise. We "
        "have 256, and 64 at the quick scale. What the paper calls standard "
        "Q-learning is λ̂ = 1, and this agent is told at each step what remains of the rewards. Plain Q-learning, "
        "which is not told and has no representation, is added, and so is the optimum. ε and the optimistic start are "
        "those of the released settings, because the text gives neither."
    ),
    paper_cost="less than one hour on a laptop (2020, quad-core)",
)
