"""Experiments on the behaviour of animals."""

from wane.extras import require

require("experiments", "wane_paper")
