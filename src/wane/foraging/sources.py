"""Tables as laboratories have them: files, pandas, polars and pynapple objects, all read into pandas.

polars and pynapple are used where they are installed; nothing here imports them. An error names a row of a file by its
line, as an editor counts it: the names of the columns are line 1.

Labels of a file (subjects, sessions, patches, kinds, environments) stay as they are written: 007 and 7 are two animals,
and an animal may be called NA. They are whole numbers if all of the column are, in their plain form, and else text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from wane.names import nearest

Where = Callable[[int], str]
"""Names the i-th row in an error message."""
ColumnNames = Mapping[str, str | None]
"""The names of columns in a table, by what they hold: {"subject": "rat"}. None if there is no such column."""
Source = Any
"""A path of a CSV file, a pandas or polars DataFrame, a pynapple object, or a dictionary of columns."""


def read_table(
    source: Source, separator: str = ",", title: str = "", labels: Iterable[str | None] = ()
) -> tuple[pd.DataFrame, Where]:
    """The source as a DataFrame with rows 0, 1, …, and a function that names a row of it in messages.

    `title` says which table it is where there are several: "row 3 of the rewards". `labels` are columns of a file whose
    entries stay as they are written. Raises ValueError if a file is not a table, and TypeError if a source of this type
    cannot be read.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        table = read_file(path, separator)
        written = {str(name) for name in labels if name in table}
        if written:
            text = read_file(path, separator, dtype=str, keep_default_na=False)
            table = table.assign(**{name: _plain(text[name]) for name in written})
        return table, lambda i: f"line {i + 2} of {path}"
    table = as_pandas(source)
    index = table.index
    return table.reset_index(drop=True), lambda i: f"row {index[i]}" + f" of {title}" * bool(title)


def read_file(path: Path, separator: str, **how: Any) -> pd.DataFrame:
    """The table in a CSV file; `how` is passed to pandas. Raises ValueError if there is none."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}: give the path of a CSV file, or a table")
    if not separator:
        raise ValueError('separator is empty: name what stands between the columns, separator=";" or separator="\\t"')
    try:
        usual: dict[str, Any] = dict(sep=separator, skipinitialspace=True, encoding="utf-8-sig", skip_blank_lines=False)
        table = pd.read_csv(path, **(usual | how))
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
    if not isinstance(table.index, pd.RangeIndex):
        raise ValueError(f"{path} has rows with more entries than its first line: name every column there")
    return table


def _plain(text: pd.Series) -> pd.Series:
    """Labels as they are written: whole numbers if all of them are, else text."""
    numbers = {label: whole_number(label) for label in text.unique()}
    return text if None in numbers.values() else text.map(numbers)


def whole_number(label: Any) -> int | None:
    """The label as a whole number if it is one, else None. Text counts only in its plain form: "07" is a name."""
    if isinstance(label, str):
        digits = label.removeprefix("-")
        return int(label) if digits.isascii() and digits.isdigit() and str(int(label)) == label else None
    return int(label) if isinstance(label, int | float | np.number) and float(label).is_integer() else None


def as_pandas(source: Source) -> pd.DataFrame:
    """A pandas DataFrame from pandas, polars, pynapple (`IntervalSet`, `Tsd`, `TsdFrame`, `Ts`) or a dictionary."""
    if isinstance(source, pd.DataFrame):
        return source
    if isinstance(source, Mapping):
        lengths = {name: np.size(values) for name, values in source.items()}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} {count}" for name, count in lengths.items())
            raise ValueError(f"the columns have different lengths, {sizes}: give every column one value for each row")
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


def column_names(given: ColumnNames | None, usual: ColumnNames) -> dict[str, str | None]:
    """The name of every column: the given one, or else the usual one. Raises ValueError for an unknown column."""
    for name in given or {}:
        if name not in usual:
            raise ValueError(
                f"columns has the key {name!r}, which is no needed column: its keys may be {', '.join(usual)}, and its "
                "values the names of these columns in the table"
            )
    return {**usual, **(given or {})}


def pick(table: pd.DataFrame, names: ColumnNames, where: str = "the table") -> pd.DataFrame:
    """The named columns under the names that the package uses, and all others as they are.

    A name that is None is left out. Raises ValueError if a column is missing (the message lists the existing columns),
    and if one column is named twice.
    """
    wanted = {needed: given for needed, given in names.items() if given is not None}
    taken: dict[str, str] = {}
    for needed, given in wanted.items():
        if given not in table:
            hint = nearest(str(given), map(str, table.columns))
            meant = f" (did you mean {hint!r}?)" if hint else ""
            raise ValueError(
                f"{where} has no column {given!r}{meant}, there are {', '.join(map(str, table.columns))}: "
                f'name the column that holds the {needed}, columns={{"{needed}": "…"}}'
            )
        if given in taken:
            raise ValueError(
                f"the column {given!r} of {where} is named for the {taken[given]} and for the {needed}: name another "
                f'column for one of them, columns={{"{taken[given]}": "…"}} or columns={{"{needed}": "…"}}'
            )
        if (table.columns == given).sum() > 1:
            raise ValueError(f"{where} has two columns {given!r}: rename one of them")
        taken[given] = needed
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


def listed(words: Sequence[Any], most: int = 4) -> str:
    """Words with commas between them, cut if there are many: a, b, c, … (12 in all)."""
    shown_words = ", ".join(map(str, words[:most]))
    return shown_words if len(words) <= most else f"{shown_words}, … ({len(words)} in all)"


def with_unit(number: Any, unit: str) -> str:
    """A number with the name of its unit, if it has one: 10 s."""
    return f"{float(number):g} {unit}".rstrip()


def is_blank(values: pd.Series) -> Bool[np.ndarray, " rows"]:
    """Whether each entry is missing, or text of nothing but spaces."""
    blank = [isinstance(value, str) and not value.strip() for value in values]
    return values.isna().to_numpy(bool) | np.array(blank, bool)


def as_known(values: pd.Series, known: Sequence[Any]) -> pd.Series:
    """The labels with those of `known` in place of others that are written alike: 1 and "1" are one label."""
    written = {str(label): label for label in known}
    same = set(known)
    return values.map(lambda value: value if value in same else written.get(str(value), value), na_action="ignore")


def require_labels(values: pd.Series, where: Where, known: Sequence[Any] | None = None, cure: str = "") -> None:
    """Raises ValueError if a label is missing, has spaces around it, or is none of the known ones."""
    missing = is_blank(values)
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


def to_floats(values: pd.Series) -> Float[np.ndarray, " rows"]:
    """The values as floats, NaN for what is no number: other text, true and false, complex numbers, dates."""
    if values.dtype.kind not in "iuf":
        kinds = str | Real | Decimal
        numbers = [isinstance(value, kinds) and not isinstance(value, bool | np.bool_) for value in values]
        values = values.astype(object).where(np.array(numbers, bool), None)
    return pd.to_numeric(values, errors="coerce").to_numpy(float, na_value=np.nan)


def as_numbers(values: pd.Series, where: Where, what: str) -> Float[np.ndarray, " rows"]:
    """The values as finite floats. Raises ValueError for any other value; `what` says what to give instead."""
    numbers = to_floats(values)
    bad = ~np.isfinite(numbers)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(f"{values.name} is {shown(values, i)} in {where(i)}: give {what}")
    return numbers
