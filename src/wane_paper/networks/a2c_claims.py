"""The claims of the experiment `a2c` (see `wane_paper.networks.a2c`). Comparisons are paired by seed."""

from collections.abc import Callable

import pandas as pd

from wane.lab.contract import Claim, Finding, NotTested, Tables
from wane.lab.judging import exceeds
from wane.lab.statistics import paired_difference
from wane_paper.common import beliefs
from wane_paper.networks.a2c_learning import PLAIN, TASK, ActorCritic, forgetful, on_arrival, told

Test = Callable[[ActorCritic, Tables], Finding]
LATE = 0.2
"""The share of the epochs that counts as the end of training."""
FALL = 0.5
"""A λF counts as learned if its last error is below this share of its first error."""


def at_the_end(tables: Tables, measure: str = "sampled") -> pd.DataFrame:
    """Returns mean returns of the evaluations in the last fifth of training."""
    curves = tables["curves"]
    late = curves["episode"] > (1 - LATE) * curves["episode"].max()
    return curves[late].pivot_table(index="seed", columns="agent", values=measure)


def over_training(tables: Tables) -> pd.DataFrame:
    """Returns mean returns of the evaluations over all of training."""
    return tables["curves"].pivot_table(index="seed", columns="agent", values="sampled")


def beats(other: float) -> Test:
    """Returns a test that agents with the true λ earn more at the end than agents with another λ̂."""

    def test(settings: ActorCritic, tables: Tables) -> Finding:
        beliefs.need(settings.lambdas, settings.lam, other)
        if other == settings.lam:
            raise NotTested(f"The true λ itself is {other:g}.")
        scores = at_the_end(tables)
        found = paired_difference(scores[beliefs.label(settings.lam)], scores[beliefs.label(other)])
        means = ", ".join(f"{beliefs.label(lam)}: {scores[beliefs.label(lam)].mean():.2f}" for lam in settings.lambdas)
        return exceeds(found, f"{means}; {_circumstances(tables, scores)}")

    return test


def earns_more(ours: Callable[[ActorCritic], str], theirs: Callable[[ActorCritic], str]) -> Test:
    """Returns a test that one agent earns more at the end than another, when actions are drawn.

    The detail also gives the difference over all of training, and the difference of greedy actions at the end.
    """

    def test(settings: ActorCritic, tables: Tables) -> Finding:
        drawn, greedy, average = at_the_end(tables), at_the_end(tables, "greedy"), over_training(tables)
        one, other = ours(settings), theirs(settings)
        if one == other:
            raise NotTested(f"{one!r} would be compared with itself.")
        for name in (one, other):
            if name not in drawn:
                raise NotTested(f"There is no agent {name!r}: add its λ̂ to lambdas.")
        means = f"{drawn[one].mean():.2f} ({one}) against {drawn[other].mean():.2f} ({other})"
        differences = [paired_difference(scores[one], scores[other]) for scores in (average, greedy)]
        detail = f"{means}; over all of training the difference is {differences[0]}, of greedy actions {differences[1]}"
        detail += f"; {_circumstances(tables, drawn)}"
        return exceeds(paired_difference(drawn[one], drawn[other]), detail)

    return test


def _circumstances(tables: Tables, scores: pd.DataFrame) -> str:
    optimum = f"the optimum is {tables['optimum']['value'].iloc[0]:.3f}; " if "optimum" in tables else ""
    return f"{optimum}{len(scores)} seeds"


def errors_of(tables: Tables, name: str) -> pd.DataFrame:
    """Returns the errors of an agent's λF: one row for each seed, one column for each epoch."""
    errors = tables["errors"]
    return errors[errors["agent"] == name].pivot_table(index="seed", columns="episode", values="error")


def learns_the_features(settings: ActorCritic, tables: Tables) -> Finding:
    """Tests that the error of the λF halves from the first to the last epoch, in agents without memory."""
    if settings.agent.epochs < 2:
        raise NotTested("There was one epoch, so no error can fall: raise agent.epochs.")
    errors, name = tables["errors"], forgetful(true_lam(settings))
    early, late = errors_of(tables, name).iloc[:, 0], errors_of(tables, name).iloc[:, -1]
    ends = errors[errors["episode"] == errors["episode"].max()].groupby("agent", sort=False)["error"].mean()
    detail = f"{name}: {early.mean():.3f} → {late.mean():.3f}; at the end "
    detail += ", ".join(f"{agent}: {error:.3f}" for agent, error in ends.items())
    return exceeds(paired_difference(FALL * early, late), detail)


def true_lam(settings: ActorCritic) -> str:
    """Returns the name of the agent with the true λ."""
    return beliefs.label(settings.lam)


CLAIMS = (
    Claim(
        "beats-lambda-1-end",
        "At the end of training, the true λ earns more than λ̂ = 1.",
        beats(1.0),
        kind="paper",
        place="section 5.2, figure 5.2",
    ),
    Claim(
        "beats-lambda-0-end",
        "At the end of training, the true λ earns more than λ̂ = 0.",
        beats(0.0),
        kind="paper",
        place="section 5.2, figure 5.2",
    ),
    Claim(
        "on-arrival-beats-lambda-1",
        "If the correction is made when rewards are paid, the true λ earns more at the end than λ̂ = 1.",
        earns_more(lambda settings: on_arrival(true_lam(settings)), lambda settings: on_arrival(beliefs.label(1.0))),
    ),
    Claim(
        "target",
        "The correction in the value's target makes an agent that learns the λF earn more.",
        earns_more(true_lam, lambda settings: TASK),
    ),
    Claim(
        "told",
        "An agent that is told what remains of the rewards earns more than one that must remember it.",
        earns_more(lambda settings: told(PLAIN), lambda settings: PLAIN),
    ),
    Claim(
        "remembers",
        "An agent with memory earns more than one without.",
        earns_more(lambda settings: PLAIN, lambda settings: forgetful(PLAIN)),
    ),
    Claim(
        "features",
        "Where memory plays no part, the error of the learned λF against the exact one falls by half or more.",
        learns_the_features,
    ),
)
