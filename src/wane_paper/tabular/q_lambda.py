"""TwoRooms: Qλ-learning for a λ̂ that is right or wrong (see `wane_paper.common.learning`).

The rewards halve with every visit. The agents are compared with the optimum over (cell × visit counts).
"""

from wane.lab import Experiment
from wane_paper.common.learning import Learning, claims, draw, films, optimum_table, seeded
from wane_paper.texts import texts

EXPERIMENT = Experiment(
    **texts("q-lambda"),
    quick=Learning(seeds=64),
    paper=Learning(seeds=256),
    fixed=lambda settings: optimum_table(settings.world, settings.lam),
    seeded=seeded,
    draw=draw,
    films=films,
    claims=claims("section 5.2, figure 5.2"),
)
