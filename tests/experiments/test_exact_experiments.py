"""The experiments that need no learner: their claims, their pictures, and numbers known by other means."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import wane
from wane.exact import counterexamples
from wane.lab import find
from wane.lab.contract import Tables
from wane.worlds.catalog import four_rooms, grid_6x6
from wane_paper.exact import dp_convergence, errata, lambda_vs_gamma, n_occupancy
from wane_paper.exact.representations import PAPERS, phi_by_lambda


class Expected(NamedTuple):
    panels: int
    """The number of axes in the figure, colour bars included."""
    columns: dict[str, list[str]]
    """The columns of each table."""
    fails: frozenset[str] = frozenset()
    """Claims that are known not to hold."""


SWEEPS = ["bellman_sweeps", "coarse_sweeps", "fine_sweeps"]
EXPECTED = {
    "diminishing": Expected(1, {"rewards": ["lam", "earlier_visits", "reward"]}),
    "representations": Expected(15, {"representations": ["policy", "lam", "state", "site", "phi"]}),
    "dp-convergence": Expected(2, {"bellman_errors": ["slip", "policy", "lam", "sweep", "error"]}),
    "replenishing": Expected(3, {"rewards": ["scheme", "form", "step", "reward"]}),
    "n-occupancy": Expected(
        5, {"first_visits": ["n", "state", "site", "phi"], "limits": ["kind", "state", "site", "phi"]}
    ),
    "lambda-vs-gamma": Expected(
        3,
        {
            "runs": ["slip", "policy", "discount", "lam", *SWEEPS],
            "errors": ["slip", "discount", "lam", "sweep", "error"],
        },
        frozenset({"higher-discount-fine"}),
    ),
    "errata": Expected(1, {"errata": ["name", *counterexamples.Counterexample._fields]}),
}


SLOW = "lambda-vs-gamma"
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name == SLOW else name for name in EXPECTED]


class Computed(dict[str, Tables]):
    """The tables of every experiment at its quick settings, computed when they are asked for."""

    def __missing__(self, name: str) -> Tables:
        self[name] = find(name).tables(find(name).quick)
        return self[name]


@pytest.fixture(scope="module")
def tables() -> Computed:
    return Computed()


def verdicts(name, computed):
    experiment = find(name)
    return {claim["name"]: claim["verdict"] for claim in experiment.findings(experiment.quick, computed)}


@pytest.mark.parametrize("name", NAMES)
def test_claims(name, tables):
    """Every claim holds, but for those that are known not to."""
    experiment = find(name)
    found = experiment.findings(experiment.quick, tables[name])
    assert {claim["name"] for claim in found if claim["verdict"] == "fails"} == EXPECTED[name].fails
    assert {claim["verdict"] for claim in found} <= {"holds", "fails"}, "the presets leave nothing untested"
    assert len(found) == len({claim["name"] for claim in found}) > 0
    for claim in found:
        assert np.isfinite(claim["estimate"])
        assert claim["detail"]


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_figure(name, tables, tmp_path):
    """The tables survive a file, and the figure is drawn from what comes back."""
    experiment, computed = find(name), tables[name]
    assert experiment.name == name
    assert experiment.quick == experiment.paper
    assert {table: list(rows.columns) for table, rows in computed.items()} == EXPECTED[name].columns
    back = {}
    for table, rows in computed.items():
        rows.to_parquet(tmp_path / f"{table}.parquet")
        back[table] = pd.read_parquet(tmp_path / f"{table}.parquet")
        pd.testing.assert_frame_equal(back[table], rows)
    figure = experiment.draw(experiment.quick, back)
    assert len(figure.axes) == EXPECTED[name].panels
    figure.savefig(tmp_path / "figure.png", dpi=50)
    assert (tmp_path / "figure.png").stat().st_size > 5000


SPOILED = {
    "diminishing": ("rewards", "reward", "falls-by-lambda"),
    "representations": ("representations", "phi", "between"),
    "replenishing": ("rewards", "step", "drops-and-recovers"),
    "n-occupancy": ("first_visits", "phi", "recursion"),
    "errata": ("errata", "corrected_violation", "mismatch"),
    "dp-convergence": ("bellman_errors", "lam", "fewer-sweeps"),
    "lambda-vs-gamma": ("runs", "lam", "lower-is-faster"),
}
"""A table, a column of it, and the claim that other numbers in that column refute."""


def spoiled(name, computed):
    """The tables with numbers that refute a claim, and that claim."""
    table, column, claim = SPOILED[name]
    rows = computed[table].copy()
    match column:
        case "corrected_violation":
            rows[column] = 1.0
        case "lam" | "step":
            rows[column] = rows[column].max() - rows[column]
        case _:
            rows[column] += 1e-3 * (np.arange(len(rows)) % 3)
    return computed | {table: rows}, claim


@pytest.mark.parametrize("name", NAMES)
def test_claims_can_fail(name, tables):
    wrong, claim = spoiled(name, tables[name])
    assert verdicts(name, tables[name])[claim] == "holds"
    assert verdicts(name, wrong)[claim] == "fails"


WAY, LOOP = 4, 6
"""steps from S to the loop of the paper's policy on the grid, and around it"""


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_representation_of_the_loop(lam, tables):
    """The walk from S enters its loop of six cells at (1, 2) after four steps: Φ = γ⁴ / (1 − λγ⁶)."""
    grid = grid_6x6()
    lams, phi = phi_by_lambda(tables["representations"], PAPERS)
    value = phi[np.searchsorted(lams, lam), grid.map.find("S"), grid.map.state(1, 2)]
    assert value == pytest.approx(0.9**WAY / (1 - lam * 0.9**LOOP), rel=1e-12)


def test_n_visits_of_the_loop(tables):
    grid = grid_6x6()
    _, phis, _ = n_occupancy.representations(tables["n-occupancy"])
    found = phis[:, grid.map.find("S"), grid.map.state(1, 2)]
    visits = 0.9 ** (WAY + LOOP * np.arange(12))
    np.testing.assert_allclose(found, np.cumsum(visits), rtol=1e-12)


def test_sweeps_of_dynamic_programming(tables):
    """For λ = 1 the error of sweep k is γ^(k−1), in the goal; for λ = 0 it is gone one sweep after the longest way."""
    errors = tables["dp-convergence"]["bellman_errors"]
    counts = dp_convergence.sweeps(errors, 0.05).loc[0.0]
    assert counts[1.0].tolist() == [1 + int(np.ceil(np.log(0.05) / np.log(0.97)))] * 4 == [100] * 4
    ways = [_longest_way(policy) for policy in four_rooms().policies]
    assert counts[0.0].tolist() == [way + 1 for way in ways] == [17, 17, 15, 17]
    assert counts[0.5].tolist() == [21, 21, 19, 21]
    noisy = dp_convergence.sweeps(errors, 0.05).loc[0.2]
    assert noisy.to_numpy().tolist() == [[23, 25, 92], [23, 26, 92], [21, 24, 92], [23, 25, 92]]


def _longest_way(policy):
    leads = four_rooms().map.next_states()[np.arange(len(policy)), policy]
    state, steps = np.arange(len(policy)), 0
    while np.any(leads[state] != state):
        state, steps = leads[state], steps + 1
    return steps


def test_errors_are_those_of_iteration():
    world = four_rooms(slip=0.2)
    kernel, lams = world.mdp.under(world.policies[2]), np.array([0.25, 1.0])
    exact = np.stack([wane.lambda_representation(kernel, lam, discount=0.9).matrix for lam in lams])
    bellman, error = lambda_vs_gamma.iteration_errors(kernel, exact, lams, 0.9, 1e-4)
    for i, lam in enumerate(lams):
        run = wane.iterate(kernel, lam, discount=0.9, tolerance=1e-3)
        steps = len(run.errors)
        np.testing.assert_allclose(bellman[:steps, i], run.errors, rtol=1e-8)
        assert error[steps - 1, i] == pytest.approx(np.abs(run.matrix - exact[i]).max(), rel=1e-8)


@pytest.mark.parametrize(
    ("scheme", "form", "values"),
    [
        ("time elapsed", "reward", [1, 1, 1, 0.5, 0.5 ** (1 / 2), 0.5 ** (1 / 3), 0.25, 0.5, 0.5 ** (2 / 3)]),
        ("eligibility trace", "reward", [1, 1, 1, 0.75, 0.875, 0.9375, 0.71875]),
        ("eligibility trace", "representation", [0.5, 0.5, 0.5, 0.25, 0.375, 0.4375, 0.21875]),
        ("total time", "reward", [1, 1 / 0.9, 1 / 0.81, 0.5 / 0.81, 0.5 / 0.729, 0.5 / 0.6561, 0.25 / 0.6561]),
        ("total time", "representation", [1, 0.9, 0.81, 0.405, 0.3645, 0.32805, 0.164025]),
    ],
)
def test_replenishing_by_hand(scheme, form, values, tables):
    rows = tables["replenishing"]["rewards"].query("scheme == @scheme and form == @form")
    np.testing.assert_allclose(rows["reward"].to_numpy()[: len(values)], values, rtol=1e-12)


def test_every_erratum_is_a_claim(tables):
    names = {find.__name__ for find in counterexamples.ALL}
    assert set(errata.STATEMENTS) == names == set(tables["errata"]["errata"]["name"])
