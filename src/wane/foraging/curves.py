"""The reward of one more step at a site, given how its rewards wear off.

After n visits, the last of which paid r, staying pays

    λ r                        the paper's reward
    r f(n) / f(n − 1)          any curve f over visits, computed from the last reward
    r̄ f(n)                     any curve, if r̄ is known: for random rewards, where a single r says little
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float, Int

from wane.depletion import Depletion, Diminishing, Geometric
from wane.types import Integer, Scalar

Label = int | str
"""The label of a site in a table."""
Curve = Scalar | Diminishing
"""How a reward wears off: the fraction λ that a visit leaves, or any curve over visits."""
CurvesLike = Curve | Sequence[float] | Float[np.ndarray, " sites"] | Mapping[Any, Curve]
"""One curve for all sites, a list of λ for sites that are numbered from 0, or a curve for each label."""
RewardsLike = Scalar | Mapping[Any, Scalar]
"""One r̄ for all sites, or an r̄ for each label."""


class Curves(NamedTuple):
    """The curves of some sites, as tables."""

    shrink: Float[np.ndarray, "sites visits"]
    """f(n + 1) / f(n) for n = 0, 1, …; empty if r̄ is known."""
    worth: Float[np.ndarray, "sites visits"] | None
    """r̄ f(n) for n = 0, 1, …, if r̄ is known."""

    @property
    def forgets(self) -> bool:
        """Whether the next reward follows from the last one alone, whatever the number of visits."""
        return self.worth is None and bool(np.all(self.shrink == self.shrink[:, :1]))

    def next_reward(
        self,
        site: Integer | Int[np.ndarray, " bouts"],
        reward: Scalar | Float[np.ndarray, " bouts"],
        visits: Integer | Int[np.ndarray, " bouts"],
    ) -> Float[np.ndarray, "*bouts"] | float | np.floating:
        """The reward of staying at a site (a row of the tables) after some visits, the last of which paid `reward`."""
        return reward * self.shrink[site, visits - 1] if self.worth is None else self.worth[site, visits]


def make_curves(lam: CurvesLike, rewards: RewardsLike | None, labels: Sequence[Label], visits: int) -> Curves:
    """The curves of the sites with these labels, for up to `visits` visits.

    Raises ValueError if a label has no curve or no r̄, and if the next reward does not follow from the last one.
    """
    curves = [_curve(lam, label) for label in labels]
    n = np.arange(visits + 1)
    worth = np.array([np.broadcast_to(curve.worth(n), n.shape) for curve in curves], float).reshape(-1, len(n))
    if rewards is not None:
        fresh = np.array([_reward(rewards, label) for label in labels]).reshape(-1, 1)
        return Curves(np.zeros((0, 0)), fresh * worth)
    return Curves(_shrink(worth, curves, labels), None)


def _shrink(
    worth: Float[np.ndarray, "sites all_visits"], curves: Sequence[Diminishing], labels: Sequence[Label]
) -> Float[np.ndarray, "sites visits"]:
    """f(n + 1) / f(n), which is 0 once a site pays nothing. Raises ValueError if such a site pays again."""
    before, after = worth[:, :-1], worth[:, 1:]
    pays_again = (before == 0) & (after != 0)
    if np.any(pays_again):
        i, k = np.argwhere(pays_again)[0]
        raise ValueError(
            f"the curve of site {labels[i]!r} pays nothing at visit {k} and something at visit {k + 1}, which the last "
            "reward cannot tell: give r̄ of the sites, rewards=…"
        )
    shrink = np.divide(after, before, out=np.zeros(before.shape), where=before != 0)
    for i, curve in enumerate(curves):
        # λⁿ underflows after many visits, but the ratio is always λ.
        if curve.common_ratio is not None:
            shrink[i] = curve.common_ratio
    return shrink


def _curve(lam: CurvesLike, label: Label) -> Diminishing:
    """The curve of one site. Raises ValueError if it has none, and TypeError if the curve grows back."""
    if isinstance(lam, Mapping):
        if label not in lam:
            raise ValueError(f"lam has no entry for site {label!r}: it has {', '.join(map(repr, lam))}")
        return _curve(lam[label], 0)
    if isinstance(lam, Depletion) and not isinstance(lam, Diminishing):
        raise TypeError(
            f"{type(lam).__name__} grows back, which visits alone do not tell: take λ or a Diminishing depletion"
        )
    if isinstance(lam, str):
        raise TypeError(f"lam is the text {lam!r}: give λ, a curve such as wane.Hyperbolic(1.0), or one for each site")
    number = np.asarray(lam, float) if not isinstance(lam, Diminishing) else np.zeros(())
    curve = lam if isinstance(lam, Diminishing) else Geometric(number if number.ndim else float(number))
    sizes = {np.shape(value)[-1] for value in curve.per_site().values()}
    if not sizes:
        return curve
    if not isinstance(label, int | np.integer) or not 0 <= label < max(sizes):
        raise ValueError(
            f"lam is given for {max(sizes)} sites that are numbered from 0, but there is a site {label!r}: give a "
            "dictionary of site and λ"
        )
    return cast(Diminishing, curve.at_sites(int(label)))


def _reward(rewards: RewardsLike, label: Label) -> float:
    """r̄ of one site. Raises ValueError if it is missing or not finite."""
    if isinstance(rewards, Mapping) and label not in rewards:
        raise ValueError(f"rewards has no entry for site {label!r}: it has {', '.join(map(repr, rewards))}")
    value = float(rewards[label] if isinstance(rewards, Mapping) else rewards)
    if not np.isfinite(value):
        raise ValueError(f"rewards must be finite numbers, that of site {label!r} is {value}")
    return value
