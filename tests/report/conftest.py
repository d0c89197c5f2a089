"""Switches on the checks of types and shapes, before anything imports the report."""

from jaxtyping import install_import_hook

install_import_hook(["wane.lab.report"], "beartype.beartype")

import wane  # noqa: E402, F401
