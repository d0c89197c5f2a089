"""The difference between an agent's leaving times and those of the marginal value theorem, and its average.

Not every bout gives the exact difference. The episode may end before the agent leaves, or before the rule would leave.
Then the difference of the two times is only a bound, and the column `bound` says which one.
"""

from typing import Any, Literal

import numpy as np
import pandas as pd

from wane.foraging.curves import CurvesLike
from wane.foraging.door import at_the_door
from wane.foraging.mvt import mvt_leaving_times
from wane.foraging.trajectory import Columns, group_columns

BOUNDS = ("exact", "at least", "at most", "unknown")


def leaving_difference(table: pd.DataFrame, lam: CurvesLike, **settings: Any) -> pd.DataFrame:
    """The agent's leaving time minus the MVT's for each bout. The settings are those of `mvt_leaving_times`.

    Above 0 the agent stayed longer than the rule. `bound` says whether the number is exact or a bound. "exact": both
    leave within the episode. "at least": the episode ends before the agent leaves. "at most": it ends before the rule
    leaves. "unknown": it ends before either leaves.
    """
    found = mvt_leaving_times(table, lam, **settings)
    which = found["censored"].to_numpy(int) + 2 * found["mvt_censored"].to_numpy(int)
    return found.assign(difference=found["leaving"] - found["mvt"], bound=np.array(BOUNDS)[which])


@at_the_door
def summarise(
    differences: pd.DataFrame,
    *,
    by: Columns = (),
    over: Columns | None = None,
    censored: Literal["drop", "keep"] = "drop",
) -> pd.DataFrame:
    """Mean and standard error of `leaving_difference`, in each group of `by`.

    Bouts are averaged within each unit of `over` first (by default each episode). The standard error is over these
    units, because bouts of one unit are not independent: `summarise(differences, by="distance", over="seed")`. Bouts
    whose difference is only a bound are dropped; with `censored="keep"` they count as if the agent and the rule left
    when the episode ends. In both cases, the last three columns count the bouts with each kind of bound.
    """
    by = group_columns(by)
    over = _units(differences, by, over)
    rows = []
    for key, group in differences.groupby(by) if by else [((), differences)]:
        used = group[group["bound"] == "exact"] if censored == "drop" else group
        units = used.groupby(over)["difference"].mean() if over else used["difference"]
        error = units.std(ddof=1) / np.sqrt(len(units)) if len(units) > 1 else np.nan
        counts = {name.replace(" ", "_"): int((group["bound"] == name).sum()) for name in BOUNDS[1:]}
        row = dict(mean=units.mean(), se=error, units=len(units), bouts=len(used)) | counts
        rows.append(dict(zip(by, key, strict=True)) | row)
    return pd.DataFrame(rows)


def _units(differences: pd.DataFrame, by: list[str], over: Columns | None) -> list[str]:
    """The columns that tell units apart: those of `over`, or by default all that name an episode within its group."""
    if "difference" not in differences:
        raise ValueError("summarise takes what leaving_difference returns: there is no column 'difference'")
    keys = list(differences.columns[: list(differences.columns).index("bout")])
    chosen = [name for name in keys if name not in by] if over is None else group_columns(over)
    for name in [*by, *chosen]:
        if name not in keys:
            raise ValueError(
                f"no column {name!r} to group by, there are {', '.join(keys)}: pass leaving_difference by=[…]"
            )
    return chosen
