"""What several experiments share."""

from wane.extras import require

require("experiments", "wane_paper")
