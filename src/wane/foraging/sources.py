"""Tables as laboratories have them: files, pandas, polars and pynapple objects, all read into pandas.

polars and pynapple are used where they are installed; nothing here imports them. An error names a row of a file by its
line, as an editor counts it: the names of the columns are line 1.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from wane.names import nearest

Where = Callable[[int], str]
"""Names the i-th row in an error message."""
Source = Any
"""A path of a CSV file, a pandas or polars DataFrame, a pynapple object, or a dictionary of columns."""


def read_table(source: Source, separator: str = ",", title: str = "") -> tuple[pd.DataFrame, Where]:
    """The source as a DataFrame with rows 0, 1, …, and a function that names a row of it in messages.

    `title` says which table it is where there are several: "row 3 of the rewards". Raises ValueError if a file is not a
    table, and TypeError if a source of this type cannot be read.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise ValueError(f"there is no file {path}: give the path of a CSV file, or a table")
        try:
            table = pd.read_csv(
                path, sep=separator, skipinitialspace=True, encoding="utf-8-sig", skip_blank_lines=False
            )
        except UnicodeDecodeError as error:
            raise ValueError(
                f'{path} is not a text file in UTF-8: save it as "CSV UTF-8" from the program that made it'
            ) from error
        except (pd.errors.EmptyDataError, pd.errors.ParserError) as error:
            raise ValueError(
                f"{path} is not a table of values with {separator!r} between them, one row in each line: {error}"
            ) from error
        if len(table.columns) == 1 and any(mark in str(table.columns[0]) for mark in ";,\t"):
            raise ValueError(f'{path} is not separated by {separator!r}: pass separator=";" or separator="\\t"')
        return table, lambda i: f"line {i + 2} of {path}"
    table = as_pandas(source)
    index = table.index
    return table.reset_index(drop=True), lambda i: f"row {index[i]}" + f" of {title}" * bool(title)


def as_pandas(source: Source) -> pd.DataFrame:
    """A pandas DataFrame from pandas, polars, pynapple (`IntervalSet`, `Tsd`, `TsdFrame`, `Ts`) or a dictionary."""
    if isinstance(source, pd.DataFrame):
        return source
    if isinstance(source, Mapping):
        lengths = {name: np.size(values) for name, values in source.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in lengths.items())
            raise ValueError(f"the columns have different lengths, {told}: give every column one value for each row")
        return pd.DataFrame({name: np.asarray(values) for name, values in source.items()})
    kind = type(source).__name__
    if type(source).__module__.startswith("polars"):
        return pd.DataFrame({name: source[name].to_list() for name in source.columns})
    if type(source).__module__.startswith("pynapple"):
        return _from_pynapple(source, kind)
    raise TypeError(
        f"a {kind} is not a table: give a pandas or polars DataFrame, a pynapple object or the path of a CSV file"
    )


def _from_pynapple(source: Any, kind: str) -> pd.DataFrame:
    """The columns of a pynapple object: start and end of intervals with their metadata, or times and values."""
    if kind == "IntervalSet":
        found = pd.DataFrame({"start": np.asarray(source.start), "end": np.asarray(source.end)})
        metadata = getattr(source, "metadata", None)
        return found if metadata is None else found.assign(**{name: np.asarray(metadata[name]) for name in metadata})
    times = np.asarray(source.t, float)
    if kind == "Ts":
        return pd.DataFrame({"time": times})
    values = np.asarray(source.d)
    if values.ndim == 1:
        return pd.DataFrame({"time": times, "value": values})
    names = [str(name) for name in getattr(source, "columns", range(values.shape[1]))]
    return pd.DataFrame(dict(zip(names, values.T, strict=True))).assign(time=times)


def pick(table: pd.DataFrame, names: Mapping[str, str | None], where: str = "the table") -> pd.DataFrame:
    """The named columns under the names that the package uses, and all others as they are.

    A name that is None is left out. Raises ValueError if a column is missing; the message lists the existing columns.
    """
    wanted = {needed: given for needed, given in names.items() if given is not None}
    for needed, given in wanted.items():
        if given not in table:
            hint = nearest(given, map(str, table.columns))
            meant = f" (did you mean {hint!r}?)" if hint else ""
            raise ValueError(
                f"{where} has no column {given!r}{meant}, there are {', '.join(map(str, table.columns))}: "
                f'name the column that holds the {needed}, {needed}="…"'
            )
    taken = {given: needed for needed, given in wanted.items()}
    others = [name for name in table.columns if name not in taken and name not in wanted]
    return table[[*taken, *others]].rename(columns=taken)


def shown(values: pd.Series, i: int) -> str:
    """An entry of a column as a message shows it: 'oak', −4 or missing, without the name of its NumPy type."""
    value = values.iloc[i]
    if pd.isna(value):
        return "missing"
    return repr(value.item() if isinstance(value, np.generic) else value)


def counted(number: int, thing: str) -> str:
    """A number with its noun, as notes say it: 1 visit, 2 visits."""
    return f"{number} {thing}{'s' * (number != 1)}"


def require_labels(values: pd.Series, where: Where, known: Sequence[Any] | None = None, cure: str = "") -> None:
    """Raises ValueError if a label is missing, has spaces around it, or is none of the known ones."""
    blank = [isinstance(value, str) and not value.strip() for value in values]
    missing = values.isna().to_numpy() | np.array(blank, bool)
    if missing.any():
        raise ValueError(
            f"{values.name} is missing in {where(int(missing.argmax()))}: every row needs one; fill it in, or delete "
            "the row"
        )
    spaced = np.array([isinstance(value, str) and value != value.strip() for value in values], bool)
    if spaced.any():
        i = int(spaced.argmax())
        raise ValueError(f"{values.name} is {shown(values, i)} in {where(i)}: remove the spaces around it")
    if known is not None:
        strange = ~values.isin(list(known)).to_numpy()
        if strange.any():
            i = int(strange.argmax())
            names = ", ".join(map(repr, known))
            raise ValueError(f"{values.name} is {shown(values, i)} in {where(i)}, which is none of {names}: {cure}")


def as_numbers(values: pd.Series, where: Where, what: str) -> Float[np.ndarray, " rows"]:
    """The values as finite floats. Raises ValueError for any other value; `what` says what to give instead."""
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(float)
    bad = ~np.isfinite(numbers)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(f"{values.name} is {shown(values, i)} in {where(i)}: give {what}")
    return numbers


def as_seconds(values: pd.Series, where: Where) -> Float[np.ndarray, " rows"]:
    """Times as numbers: numbers as they are, date-times and time differences in seconds since the earliest.

    Raises ValueError for a time that cannot be read; the message names its row.
    """
    if pd.api.types.is_numeric_dtype(values):
        return as_numbers(values, where, "a time, a finite number")
    if pd.api.types.is_timedelta64_dtype(values) or pd.api.types.is_datetime64_any_dtype(values):
        moments = values
    else:
        # If most entries are numbers, the other entries are mistakes; otherwise the entries are dates.
        if pd.to_numeric(values.dropna(), errors="coerce").notna().mean() > 0.5:
            return as_numbers(values, where, "a time, a finite number")
        moments = pd.to_datetime(values, errors="coerce", utc=True, format="mixed")
    missing = moments.isna().to_numpy()
    if missing.any():
        i = int(missing.argmax())
        raise ValueError(f"{values.name} is {shown(values, i)} in {where(i)}: give a number, or a date with its time")
    return (moments - moments.min()).dt.total_seconds().to_numpy(float)
