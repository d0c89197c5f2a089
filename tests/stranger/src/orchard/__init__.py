"""One of everything that a package can add to wane."""

from wane.lab import Collection

EXPERIMENTS = Collection({"orchard": "orchard.experiment"})
