"""Checks for what you add to the package: whether an agent, a depletion, a world and so on keeps its contract.

A check returns nothing if all is well. Otherwise it raises an AssertionError that names the rule that was broken and
the cure, so that one line in a test is enough. A name loads its module when it is used for the first time.
"""

from typing import TYPE_CHECKING

from wane.lazy import attach

if TYPE_CHECKING:
    from wane.testing.agents import check_agent
    from wane.testing.depletions import check_depletion
    from wane.testing.models import check_model
    from wane.testing.observations import check_observation
    from wane.testing.worlds import check_world

__all__ = ["check_agent", "check_depletion", "check_model", "check_observation", "check_world"]

__getattr__, __dir__ = attach(__name__)
