"""Measurements beside other libraries: `python -m benchmarks.exact`, from the root of the repository.

They are a package, so that the name of a script hides no package of that name from the libraries that it times: Python
puts the folder of a script in front of all others, and numba looks for a package `coverage`. With `--quick` a script
measures little in a few seconds, installs nothing, leaves out peers that are not installed, and keeps and judges
nothing.
"""

import sys

QUICK = "--quick" in sys.argv[1:]
"""Whether this is a quick run."""
