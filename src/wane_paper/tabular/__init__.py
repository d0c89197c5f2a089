"""Experiments with tables."""

from wane.extras import require

require("experiments", "wane_paper")
