"""Experiments with networks: the λ operator of the paper's section 6 and appendix H."""

from wane.extras import require

require("experiments", "wane_paper")
