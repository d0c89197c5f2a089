"""Arrays as tables with one row for each entry, and tables that runs wrote."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from wane.extras import require

require("experiments", "wane.lab.tables")

import numpy as np
import pandas as pd

from wane.files import DamagedFile, read_bytes


def frame(values: Any, column: str, **axes: Iterable[Any]) -> pd.DataFrame:
    """Returns an array as a table: one column with its entries, and one column for each of its axes.

    `axes` gives the labels along each axis, in the order of the axes. Raises ValueError if the array does not have one
    entry for each combination of labels. Floats become double precision, in which statistics are computed.

    >>> print(frame([[1, 2], [3, 4]], "value", seed=[0, 1], lam=[0.5, 1.0]).to_string(index=False))
     seed  lam  value
        0  0.5      1
        0  1.0      2
        1  0.5      3
        1  1.0      4
    """
    levels = [list(labels) for labels in axes.values()]
    values = np.asarray(values).reshape([len(labels) for labels in levels])
    values = values.astype(float) if values.dtype.kind == "f" else values
    index = pd.MultiIndex.from_product(levels, names=list(axes))
    return pd.DataFrame({column: values.ravel()}, index=index).reset_index()


def select(table: pd.DataFrame, **labels: Any) -> pd.DataFrame:
    """Returns the rows of a table that have the given values in the columns with these names.

    >>> len(select(frame([[1, 2], [3, 4]], "value", seed=[0, 1], lam=[0.5, 1.0]), lam=0.5))
    2
    """
    chosen = np.ones(len(table), bool)
    for column, value in labels.items():
        chosen &= np.asarray(table[column] == value)
    return table[chosen]


def read_table(path: Path) -> pd.DataFrame:
    """Reads a table from a parquet file. Raises DamagedFile if the file holds none.

    What pandas notes in such a file is not read: our tables need none of it, and a file from somewhere else can hold
    anything there.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        # PyArrow opens only files whose names are UTF-8, so it gets the bytes.
        table = parquet.ParquetFile(BytesIO(read_bytes(path))).read().replace_schema_metadata(None).to_pandas()
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DamagedFile(f"{path} holds no table ({error})") from error
    if not table.columns.is_unique:
        raise DamagedFile(f"{path} has several columns called {table.columns[table.columns.duplicated()][0]!r}")
    return table
