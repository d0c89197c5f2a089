"""Every statement of the paper that does not hold as printed: its counterexample refutes it, the correction stands."""

from typing import Any

import numpy as np
import pytest

import wane
from wane.exact import bounds, counterexamples


@pytest.mark.parametrize("find", counterexamples.ALL, ids=lambda find: find.__name__)
def test_counterexample(find):
    case = find()
    assert case.violation > 1e-10, case.claim
    assert case.corrected_violation <= counterexamples.ROUNDING, case.correction


def test_every_erratum_is_there():
    names = {find.__name__ for find in counterexamples.ALL}
    assert names == {
        "contraction",
        "convergence",
        "maximum",
        "subadditivity",
        "mismatch",
        "gpi",
        "optimum_mismatch",
        "gpi_extension",
        "target_action",
        "lambda_operator",
        "eligibility_trace",
        "total_time",
        "improvement",
    }


def test_numbers_that_the_cases_quote():
    ratio = 1 + counterexamples.mismatch().violation / bounds.mismatch(1.0, 0.999, 0.99, 1.0, printed=True)
    assert ratio == pytest.approx(90, abs=1)
    assert counterexamples.gpi().violation == pytest.approx(3.24)
    assert counterexamples.optimum_mismatch().violation == pytest.approx(0.81 - 0.081)
    k = counterexamples.convergence()
    paper = bounds.convergence(5, 1.0, 0.9, printed=True)
    assert (paper + k.violation) / paper == pytest.approx(1 / 0.9)


def test_improvement_need_not_improve():
    """What the GPI counterexample also says: with λ < 1, greedy improvement of one policy can make it worse."""
    mdp, rewards, base = counterexamples.trap()
    phi = wane.lambda_representation(mdp.under(base), 0.0, discount=0.9)
    greedy = phi.q_values(mdp, rewards).argmax(1)
    better = wane.lambda_representation(mdp.under(greedy), 0.0, discount=0.9)
    assert better.values(rewards)[0] < phi.values(rewards)[0] - 3
    best = wane.optimum(mdp, rewards, wane.Geometric(0.0), discount=0.9)
    assert best.values[0] >= phi.values(rewards)[0] - 1e-6


@pytest.mark.usefixtures("unchecked_types")
def test_printed_bounds():
    old: Any = bounds.mismatch
    with pytest.warns(DeprecationWarning, match="`form` is now `printed`"):
        printed = old(0.5, 0.4, 0.9, 1.0, form="paper")
    assert printed == bounds.mismatch(0.5, 0.4, 0.9, 1.0, printed=True) != bounds.mismatch(0.5, 0.4, 0.9, 1.0)
    with pytest.raises(ValueError, match="pass r_state_action"):
        bounds.gpi(0.5, 0.4, 0.9, 1.0, printed=True)
    assert bounds.gpi_extension(0.5, 0.5, 0.9, np.ones(2), np.ones(2), np.ones((1, 2)), printed=True) > 0
