"""Experiments in which everything is computed exactly, without learning."""

from wane.extras import require

require("experiments", "wane_paper")
