"""Statements of the paper that do not hold as printed, each with a case that refutes it, and their corrections.

The cases are those of `wane.exact.counterexamples`, computed anew. A violation is the amount by which the left side of
an inequality exceeds the right side, or the distance between the two sides of an equation. The paper claims a strict
inequality for subadditivity, and equality occurs; there the violation is the share of states with equality.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from wane.exact import counterexamples
from wane.experiments.common import plots
from wane.experiments.contract import Claim, Experiment, Finding, Settings, Tables

STATEMENTS = {
    "contraction": "The operator does not contract entry by entry, only in the largest difference of each column.",
    "convergence": "After k sweeps the error can exceed γ^(k+1) / (1 − λγ); it never exceeds γ^k / (1 − λγ).",
    "maximum": "A row of Φ need not peak on the diagonal, as a proof assumes; a column does.",
    "subadditivity": "Φ of two patches together can equal the sum of both; it is never more than that.",
    "mismatch": "A wrong λ can cost more than |λ − λ̂| ‖r‖ / (1 − γ); it never costs more than γ / (1 − γ) times that.",
    "gpi": "GPI can lose more than a bound with the reward of the present state allows; with the largest reward, not.",
    "optimum_mismatch": "The values of two best policies can differ by more than their Q do, unlike in a proof; the "
    "difference of their Q is bounded by how much a policy can be beaten on its own task.",
    "gpi_extension": "The extended bound for GPI breaks for a wrong λ; with the corrected term for that it holds.",
    "target_action": "The control operator has the optimal Φ as its fixed point if the next state chooses the next "
    "action, and not if the present state does.",
    "lambda_operator": "The λ operator's loss vanishes at the λR with 11ᵀ − I, as it is defined, and not with 11ᵀ + I.",
    "eligibility_trace": "Ω is not the representation of the eligibility-trace reward; ours is.",
    "total_time": "P is not the representation of the total-time reward; ours is.",
    "improvement": "An improved policy has the higher values, not the lower ones.",
}
"""What is wrong and what is right, by the name of the counterexample."""


@dataclass(frozen=True)
class Errata(Settings):
    """There is nothing to choose."""


def fixed(settings: Errata) -> Tables:
    """Every counterexample, computed anew."""
    cases = [(find.__name__, *find()) for find in counterexamples.ALL]
    return {"errata": pd.DataFrame(cases, columns=["name", *counterexamples.Counterexample._fields])}


def draw(settings: Errata, tables: Tables) -> Figure:
    """By how much each statement is violated, as printed and corrected."""
    figure, table = plots.figure(8.0, 5.4), tables["errata"]
    ax = plots.tidy(figure.subplots(), "Statements in the cases that refute them", "violated by")
    height = np.arange(len(table))[::-1]
    bars = ax.barh(height + 0.18, table["violation"], 0.36, color=plots.OTHERS[2], label="as printed")
    ax.bar_label(bars, fmt="%.2f", padding=3, fontsize="small")
    corrected = table["corrected_violation"].clip(lower=0)
    ax.plot(corrected, height - 0.2, "o", ms=5, color=plots.OTHERS[3], label="corrected: not violated", clip_on=False)
    ax.set_yticks(height, [where.replace(", ", ",\n", 1) for where in table["where"]], fontsize="small")
    ax.set_xlim(0, 1.12 * table["violation"].max())
    ax.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.28))
    return figure


def refuted(name: str, settings: Errata, tables: Tables) -> Finding:
    """Tests that the printed form of a statement is violated in its case, and the corrected form is not."""
    table = tables["errata"]
    case = table[table["name"] == name].iloc[0]
    printed, corrected = float(case["violation"]), float(case["corrected_violation"])
    margin = f"with {-corrected:.3g} to spare" if corrected < -1e-6 else "with equality"
    outcome = f"holds, {margin}" if corrected <= counterexamples.ROUNDING else f"is violated by {corrected:.3g}"
    detail = f"In this case, {case['case']}: the printed form is violated by {printed:.3g}, the corrected one {outcome}"
    return Finding(printed > 1e-6 and corrected <= counterexamples.ROUNDING, printed, None, detail)


EXPERIMENT = Experiment(
    name="errata",
    title="What does not hold as printed",
    source="lemmas, theorems and equations of sections 2, 4 and 5 and appendices B, H and J",
    summary="Some lemmas, theorems, operators and definitions do not hold as they are printed. A corrected form "
    "of each of them does.",
    quick=Errata(),
    paper=Errata(),
    fixed=fixed,
    draw=draw,
    claims=tuple(
        Claim(
            find.__name__.replace("_", "-"), STATEMENTS[find.__name__], partial(refuted, find.__name__), kind="identity"
        )
        for find in counterexamples.ALL
    ),
    differences="Where a statement fails, this package uses the corrected one.",
    paper_cost="none stated",
)
