"""The paper's figures, theorems and equations in its own order, the experiments of each, and what is missing.

Both lists are kept here only: the report and the table in the README are made from them.
"""

from wane.lab.registry import Missing, Place

ERRATA = "errata"
"""The experiment whose claims say that a printed statement is wrong."""

PLACES = (
    Place("Figure 1.1", "Rewards that wear off", ("diminishing",)),
    Place("Section 2", "Policy improvement (a misprint)", (ERRATA,), ("improvement",), is_erratum=True),
    Place("Figures 4.1, F.1 and F.2", "The λ representation between FR and SR", ("representations",)),
    Place("Proposition 4.1", "How fast dynamic programming converges", (ERRATA,), ("convergence",), is_erratum=True),
    Place("Figure 5.1", "Evaluating a policy", ("policy-evaluation", "grid-features")),
    Place("Section 5.2", "The operator of control (a misprint)", (ERRATA,), ("target-action",), is_erratum=True),
    Place("Figure 5.2", "Learning a policy in TwoRooms", ("q-lambda", "a2c")),
    Place("Theorem 5.1", "What GPI can lose", (ERRATA,), ("gpi",), is_erratum=True),
    Place("Figure 5.3", "Composing policies in FourRooms", ("gpi-tabular",)),
    Place("Figure 5.4", "Composing policies from pixels", ("gpi-pixels",)),
    Place("Figure 6.1", "The λ operator: learning λ; a large reward or many", ("fb-learn-lambda", "fb-asymmetric")),
    Place("Lemma B.2", "The operator contracts", (ERRATA,), ("contraction",), is_erratum=True),
    Place("Lemma B.3", "The largest values (a step of the proof)", (ERRATA,), ("maximum",), is_erratum=True),
    Place("Lemma B.4", "Subadditivity", (ERRATA,), ("subadditivity",), is_erratum=True),
    Place("Lemma B.6", "What a wrong λ costs", (ERRATA,), ("mismatch",), is_erratum=True),
    Place(
        "Lemma B.7",
        "The best policy of another task (a step of the proof)",
        (ERRATA,),
        ("optimum-mismatch",),
        is_erratum=True,
    ),
    Place("Theorem B.1", "An extension of GPI", (ERRATA,), ("gpi-extension",), is_erratum=True),
    Place("Appendix C", "The first N visits", ("n-occupancy",)),
    Place("Figure E.1", "Learning λ-features from pixels", ("lambda-features-curves",)),
    Place("Figure F.3", "Convergence of dynamic programming", ("dp-convergence",)),
    Place("Figure F.4", "Composing policies with noisy transitions", ("gpi-noisy",)),
    Place("Figure G.1", "Three states: the correct λ", ("toy",)),
    Place("Appendix H", "The loss of the λ operator (a misprint)", (ERRATA,), ("lambda-operator",), is_erratum=True),
    Place("Figure H.1", "The λ operator on random tasks", ("fb-lambda-table",)),
    Place("Figure H.2", "Leaving patches: the marginal value theorem", ("mvt",)),
    Place("Figures I.1 and I.2", "λ-SAC: continuous control", ("sac", "sac-flops")),
    Place("Figure J.1", "Rewards that grow back", ("replenishing",)),
    Place(
        "Appendix J",
        "Representations of rewards that grow back",
        (ERRATA,),
        ("eligibility-trace", "total-time"),
        is_erratum=True,
    ),
    Place("Figure J.2", "Learning where rewards grow back", ("replenishing-q",)),
    Place("Appendix K", "λ beside γ", ("lambda-vs-gamma",)),
)
"""The places of the paper, in its order."""

MISSING = (
    Missing(
        "Section 4.1",
        "The λ operator on sets of states.",
        "It is computed exactly (wane.patch_representation), the gallery draws it, and lemma B.4 is judged; but no "
        "network learns it for sets.",
    ),
    Missing(
        "Section 4.1",
        "λ-features scale to continuous state spaces.",
        "All experiments here with features, pixels included, have a grid's cells as states; the only continuous "
        "states are those of λ-SAC.",
    ),
    Missing(
        "Figure 5.4, right",
        "The principal components of the λFs show the structure that values give.",
        "They are drawn, but the paper gives no measure of such structure, so no claim judges them.",
    ),
    Missing(
        "Section 6",
        "The λ operator predicts not only when to leave a patch but also where to go.",
        "No claim judges where agents go: the paper shows no data for it either.",
        "mvt",
        "where-to-go",
    ),
    Missing(
        "Lemmas 3.1 and B.1",
        "Values alone have no Bellman equation.",
        "It is mathematics without a figure: the package's tests hold two chains that prove it, and no claim of the "
        "report repeats them.",
    ),
    Missing(
        "Lemmas B.5, B.7 and B.8",
        "Steps of the proofs about GPI.",
        "Only the theorems that rest on them are judged.",
        ERRATA,
        "optimum-mismatch",
    ),
    Missing(
        "Tables H.1 and I.1",
        "Settings of the λ operator and of SAC.",
        "They state no result. The settings of the experiments are those of the tables, except where an experiment "
        "says that it differs.",
    ),
)
"""The parts of the paper that are not built or not tested."""
