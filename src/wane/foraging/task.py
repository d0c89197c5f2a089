"""A patch-leaving task: which patches there are, what they pay, and how long everything takes.

An animal arrives at a fresh patch of a random kind and harvests it. The n-th harvest of a patch of kind k takes
`harvest` units of time and pays rewards[k][n − 1] when it ends. The animal leaves when it likes, after one harvest at
least, and is on its way for the `travel` time of the environment until it arrives at the next patch.

    >>> task = Task.linear({"low": 60, "high": 120}, drop=8, travel={"rich": 10, "poor": 30}, harvest=10)
    >>> task.rewards["low"][:4].tolist(), task.longest
    ([60.0, 52.0, 44.0, 36.0], 16)
    >>> task
    Task(patches low from 60, high from 120; travel rich 10, poor 30; harvest 10)
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from wane.depletion import Depletion, Diminishing
from wane.foraging.arguments import Above, Finite, NotNegative, check_arguments, check_fields
from wane.foraging.sources import listed, to_floats, with_unit
from wane.settings import Range, check_values
from wane.types import ArrayLike

MOST_HARVESTS = 10_000
"""Curves longer than this are refused: every harvest is one entry of a table."""


@dataclass(frozen=True, repr=False)
class Task:
    """Kinds of patches and environments. Raises ValueError if a number makes no sense."""

    rewards: Mapping[Any, ArrayLike]
    """What the first, second, … harvest of each kind of patch pays. Later harvests pay nothing."""
    travel: Mapping[Any, NotNegative]
    """The time from one patch to the next in each environment."""
    harvest: Above = 1.0
    """The time that one harvest takes."""
    handling: NotNegative | Mapping[Any, NotNegative] = 0.0
    """The time from the arrival until the first harvest begins, one number or one for each environment. It adds to the
    travel time."""
    chances: Mapping[Any, NotNegative] | Mapping[Any, Mapping[Any, NotNegative]] | None = None
    """How often each kind is met, {kind: number}, or {environment: {kind: number}} where environments differ; equally
    often by default."""
    time_unit: str = ""
    """The name of the unit of time, for tables, figures and sentences: "s"."""
    reward_unit: str = ""
    """The name of the unit of reward, for tables, figures and sentences: "µL"."""
    curve: Float[np.ndarray, "kinds harvests"] = field(init=False, repr=False, compare=False)
    """The rewards as one table, with zeros where a curve has ended."""

    def __repr__(self) -> str:
        kinds = [f"{kind} from {with_unit(row[0], self.reward_unit)}" for kind, row in self.rewards.items()]  # pyright: ignore[reportIndexIssue]
        travel = [f"{name} {with_unit(time, self.time_unit)}" for name, time in self.travel.items()]
        times = dict.fromkeys(self.handling_times.tolist())
        handling = f", handling {' or '.join(with_unit(time, self.time_unit) for time in times)}" * any(times)
        harvest = with_unit(self.harvest, self.time_unit)
        return f"Task(patches {listed(kinds)}; travel {listed(travel)}; harvest {harvest}{handling})"

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.rewards or not self.travel:
            raise ValueError(
                "a task needs rewards of at least one kind of patch and at least one travel time: "
                'Task({"oak": [8, 4, 2]}, {"wood": 3})'
            )
        curves = {kind: _checked_curve(kind, rewards) for kind, rewards in self.rewards.items()}
        longest = max(map(len, curves.values()))
        table = np.stack([np.pad(rewards, (0, longest - len(rewards))) for rewards in curves.values()])
        object.__setattr__(self, "rewards", curves)
        object.__setattr__(self, "curve", table)
        self._check_handling()
        for environment, given in self._chances.items():
            self._check_chances(environment, given)

    def _check_handling(self) -> None:
        """Raises ValueError unless every environment has a handling time, which is a number of at least 0."""
        by_environment = isinstance(self.handling, Mapping)
        times: Any = self.handling if by_environment else dict.fromkeys(self.travel, self.handling)
        if set(times) != set(self.travel):
            raise ValueError(
                f"handling names {', '.join(map(repr, times))}, and the environments are "
                f"{', '.join(map(repr, self.travel))}: give one number, or a time for each environment"
            )
        for environment, time in times.items():
            name = f"handling[{environment!r}]" if by_environment else "handling"
            check_values({name: time}, {name: NotNegative})

    @property
    def _chances(self) -> dict[Any, Any]:
        """The chances of each environment, as they were given. Raises ValueError if an environment has none."""
        given: Any = dict.fromkeys(self.rewards, 1.0) if self.chances is None else self.chances
        if not any(isinstance(each, Mapping) for each in given.values()):
            return dict.fromkeys(self.travel, given)
        if set(given) != set(self.travel) or not all(isinstance(each, Mapping) for each in given.values()):
            raise ValueError(
                f"chances names {', '.join(map(repr, given))}, and the environments are "
                f"{', '.join(map(repr, self.travel))}: give {{kind: number}}, or such chances for each environment"
            )
        return dict(given)

    def _check_chances(self, environment: Any, given: Mapping[Any, Any]) -> None:
        """Raises ValueError unless every kind has a chance, and the chances can be scaled to 1."""
        name = "chances" if given is self.chances or self.chances is None else f"chances[{environment!r}]"
        for kind, chance in given.items():
            check_values({f"{name}[{kind!r}]": chance}, {f"{name}[{kind!r}]": NotNegative})
        for kind in [*given, *self.rewards]:
            if kind not in given or kind not in self.rewards:
                raise ValueError(
                    f"{name} and rewards must name the same kinds of patches, but only one of them has {kind!r}: add "
                    "it to the other, or leave it out of both"
                )
        if not sum(map(float, given.values())) > 0:
            raise ValueError(f"no kind of patch is ever met, because {name} are {dict(given)}: make one larger than 0")

    @classmethod
    @check_arguments
    def linear(
        cls, first: Mapping[Any, Finite], drop: Above, travel: Mapping[Any, NotNegative], **settings: Any
    ) -> "Task":
        """Patches that pay `first` at the first harvest and `drop` less at each further one, until nothing is left."""
        rewards = {}
        for kind, value in first.items():
            if not 0 <= value / drop <= MOST_HARVESTS - 2:
                raise ValueError(
                    f"the first harvest of {kind!r} pays {value}: give a number of at least 0, and at most "
                    f"{MOST_HARVESTS - 2} times the drop of {drop}"
                )
            count = max(int(np.ceil(value / drop)), 1)
            rewards[kind] = np.maximum(value - drop * np.arange(count + 1), 0.0)
        return cls(rewards, travel, **settings)

    @classmethod
    @check_arguments
    def depleting(
        cls,
        first: Mapping[Any, Finite],
        depletion: Diminishing,
        travel: Mapping[Any, NotNegative],
        longest: Annotated[int, Range(1, MOST_HARVESTS)],
        **settings: Any,
    ) -> "Task":
        """Patches that pay `first` at the first harvest and wear off along a curve over harvests, up to `longest`.

        >>> from wane import Geometric
        >>> Task.depleting({"oak": 8}, Geometric(0.5), {"wood": 3.0}, longest=4).rewards["oak"].tolist()
        [8.0, 4.0, 2.0, 1.0]
        """
        worth = np.asarray(depletion.worth(np.arange(longest)), float)
        return cls({kind: value * worth for kind, value in first.items()}, travel, **settings)

    @property
    def kinds(self) -> list[Any]:
        """The labels of the kinds of patches, in the order of the rows of `curve`."""
        return list(self.rewards)

    @property
    def environments(self) -> list[Any]:
        """The labels of the environments."""
        return list(self.travel)

    @property
    def longest(self) -> int:
        """The number of harvests of the longest curve."""
        return self.curve.shape[1]

    @property
    def handling_times(self) -> Float[np.ndarray, " environments"]:
        """The handling time of each environment."""
        given: Any = self.handling
        return np.array([given[name] if isinstance(given, Mapping) else given for name in self.travel], float)

    @property
    def away(self) -> Float[np.ndarray, " environments"]:
        """The time from leaving a patch to the first harvest of the next one: travel and handling."""
        return np.array([*self.travel.values()], float) + self.handling_times

    @property
    def weights(self) -> Float[np.ndarray, "environments kinds"]:
        """The probability of each kind in each environment."""
        chances = self._chances
        values = np.array([[float(chances[name][kind]) for kind in self.rewards] for name in self.travel])
        return values / values.sum(1, keepdims=True)


def _checked_curve(kind: Hashable, rewards: ArrayLike) -> Float[np.ndarray, " harvests"]:
    """The rewards of one kind. Raises ValueError unless they are a list of finite numbers."""
    if isinstance(rewards, Depletion):
        raise TypeError(f"rewards of {kind!r} is a {type(rewards).__name__}: use Task.depleting(first, depletion, …)")
    given = np.asarray(rewards)
    if given.ndim != 1 or not 1 <= len(given) <= MOST_HARVESTS:
        raise ValueError(
            f"rewards of {kind!r} have the shape {given.shape}: give a list of 1 to {MOST_HARVESTS} numbers, what its "
            "first, second, … harvest pays"
        )
    curve = to_floats(pd.Series(given))
    bad = ~np.isfinite(curve)
    if bad.any():
        n = int(bad.argmax())
        raise ValueError(f"harvest {n + 1} of {kind!r} pays {given[n]}: every reward must be a finite number")
    return curve
