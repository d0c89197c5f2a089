"""Experiments in which everything is computed."""

from wane.extras import require

require("experiments", "wane.experiments")
