"""The claims of the experiments with Qλ-learning (see `wane_paper.common.learning`)."""

from collections.abc import Callable

from wane.lab.contract import Claim, Finding, NotTested, Tables
from wane.lab.judging import exceeds
from wane.lab.statistics import (
    bootstrap,
    interquartile_mean,
    paired_difference,
    probability_of_improvement,
)
from wane_paper.common import beliefs
from wane_paper.common.learning import PLAIN, Learning, results


def ends_higher_than(other: float | None) -> Callable[[Learning, Tables], Finding]:
    """Returns a test that the true λ ends above another λ̂, or above plain Q-learning (None), paired by seed."""

    def test(settings: Learning, tables: Tables) -> Finding:
        beliefs.need(settings.lambdas, settings.lam, *(() if other is None else (other,)))
        if other == settings.lam:
            raise NotTested(f"The true λ itself is {other:g}.")
        scores = results(settings, tables["curves"])
        ours = scores[beliefs.label(settings.lam)]
        theirs = scores[PLAIN if other is None else beliefs.label(other)]
        found = paired_difference(ours, theirs)
        chance = probability_of_improvement(ours, theirs)
        middle = [bootstrap(each, interquartile_mean) for each in (ours, theirs)]
        detail = (
            f"interquartile means {middle[0]} against {middle[1]}; a run of the true λ beats one of the other with "
            f"probability {chance}; {len(ours)} seeds"
        )
        return exceeds(found, detail)

    return test


def claims(place: str) -> tuple[Claim, ...]:
    """Returns the claims, two of which the paper makes in the given place."""
    statement = "The true λ ends higher than λ̂ = 1, which is Q-learning on successor features."
    return (
        Claim("beats-lambda-1", statement, ends_higher_than(1.0), "paper", place),
        Claim("beats-lambda-0", "The true λ ends higher than λ̂ = 0.", ends_higher_than(0.0), "paper", place),
        Claim("beats-q-learning", "The true λ ends higher than plain Q-learning.", ends_higher_than(None)),
    )
