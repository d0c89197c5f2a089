"""Trees of arrays and tables of several runs, taken apart and put together."""

from collections.abc import Sequence
from typing import Any

import jax
import pandas as pd

from wane.lab import Tables


def entry(tree: Any, *index: Any) -> Any:
    """Returns one entry of every leaf of a tree, along the first axes."""
    return jax.tree_util.tree_map(lambda leaf: leaf[index], tree)


def join_tables(parts: Sequence[Tables]) -> Tables:
    """Concatenates the tables of each name."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: pd.concat([part[name] for part in parts if name in part], ignore_index=True) for name in names}
