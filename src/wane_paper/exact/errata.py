"""Statements of the paper that do not hold as printed, each with a case that refutes it, and their corrections.

The cases of `wane.exact.counterexamples` are computed again here. A violation is the amount by which the left side of
an inequality exceeds the right side, or the distance between the two sides of an equation. The paper claims a strict
inequality for subadditivity, but equality occurs; there the violation is the share of states with equality.
"""

from dataclasses import dataclass
from functools import partial
from typing import cast

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wane.exact import counterexamples
from wane.lab import Claim, Experiment, Finding, Settings, Tables, plots
from wane_paper.texts import texts

STATEMENTS = {
    "contraction": "The operator does not contract entry by entry, only in the largest difference of each column.",
    "convergence": "After k sweeps the error can exceed γ^(k+1) / (1 − λγ); it never exceeds γ^k / (1 − λγ).",
    "maximum": "A row of Φ need not peak on the diagonal, as a proof assumes; a column does.",
    "subadditivity": "Φ of two patches together can equal the sum of both; it is never more than that.",
    "mismatch": "A wrong λ can cost more than |λ − λ̂| ‖r‖ / (1 − γ); it never costs more than γ / (1 − γ) times that.",
    "gpi": "GPI can lose more than a bound with the present state's reward allows; with the largest one it holds.",
    "optimum_mismatch": "The values of two best policies can differ by more than their Q do, which a proof denies; the "
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
PLACE, STATEMENT, AMOUNT = 0.1, 2.8, 9.9
"""The left edges of the first two columns of the figure's table, and the right edge of the last, in inches."""


@dataclass(frozen=True)
class Errata(Settings):
    """Settings of errata, which has none."""


def fixed(settings: Errata) -> Tables:
    """Computes every counterexample."""
    cases = [(find.__name__, *find()) for find in counterexamples.ALL]
    return {"errata": pd.DataFrame(cases, columns=["name", *counterexamples.Counterexample._fields])}


def draw(settings: Errata, tables: Tables) -> Figure:
    """Draws a table of the statements as printed and corrected. Their units differ, so nothing is drawn to scale."""
    table = tables["errata"]
    figure = plots.figure(10.0, 0.9 + 0.52 * len(table))
    ax = figure.subplots()
    ax.set(xlim=(0, 10), ylim=(len(table) - 0.4, -1.0))
    ax.set_axis_off()
    for column, heading in ((PLACE, "where"), (STATEMENT, "as printed, and what holds"), (AMOUNT, "off by")):
        ax.text(column, -0.75, heading, color=plots.GREY, ha="right" if column == AMOUNT else "left")
    for i, row in table.iterrows():
        height = cast(int, i)
        ax.axhline(height - 0.4, color=plots.GREY, lw=0.5)
        place = row["where"].replace(", ", ",\n", 1)
        ax.text(PLACE, height - 0.12, place, va="top", weight="bold", fontsize="small")
        _draw_statement(ax, height - 0.12, row["claim"], f"{row['violation']:.3g}")
        _draw_statement(ax, height + 0.16, row["correction"], "", holds=bool(row["corrected_violation"] <= 0))
    ax.set_title(
        "Off by: the left side minus the right side of an inequality, or the distance between the sides of an\n"
        "equation, in the case that refutes it (lemma B.4: the share of states with equality). Each number has\n"
        "units of its own.",
        fontsize="small",
        loc="left",
    )
    return figure


def _draw_statement(ax: Axes, height: float, text: str, amount: str, holds: bool = False) -> None:
    """Draws one line of the table: a sign, a statement, and the amount by which it is violated."""
    sign, shade = ("✓", plots.OTHERS[3]) if holds else ("✗", plots.OTHERS[2])
    ax.text(STATEMENT - 0.25, height, sign, va="top", color=shade, weight="bold", fontsize="small")
    ax.text(STATEMENT, height, text, va="top", fontsize="small")
    ax.text(AMOUNT, height, amount, va="top", ha="right", color=shade, weight="bold", fontsize="small")


def refuted(name: str, settings: Errata, tables: Tables) -> Finding:
    """Tests that the counterexample violates the printed form of a statement, and not the corrected form."""
    table = tables["errata"]
    case = table[table["name"] == name].iloc[0]
    printed, corrected = float(case["violation"]), float(case["corrected_violation"])
    margin = f"with {-corrected:.3g} to spare" if corrected < -1e-6 else "with equality"
    outcome = f"holds, {margin}" if corrected <= counterexamples.ROUNDING else f"is violated by {corrected:.3g}"
    detail = f"In this case, {case['case']}: the printed form is violated by {printed:.3g}, the corrected one {outcome}"
    return Finding(printed > 1e-6 and corrected <= counterexamples.ROUNDING, printed, None, detail)


EXPERIMENT = Experiment(
    **texts("errata"),
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
)
