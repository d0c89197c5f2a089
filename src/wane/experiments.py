"""The old home of what experiments are made of, which is `wane.lab` now. It goes with the next release."""

from wane.lazy import attach

__getattr__, __dir__ = attach(
    __name__,
    renamed={
        **{
            name: f"wane.lab.{name}"
            for name in [
                "Claim",
                "Experiment",
                "Finding",
                "Loop",
                "NotTested",
                "SCALES",
                "Scale",
                "Seeded",
                "Settings",
                "exceeds",
                "find",
                "matches",
                "module_of",
                "plot_learning",
                "seed_keys",
                "stays_below",
            ]
        },
        **{name: f"wane_paper.collection.{name}" for name in ["FOLDERS", "LEARNED", "NAMES", "TABULAR"]},
        "KEPT": "wane_paper.collection.RESULTS",
    },
)
