"""The experiments that need no learner: their claims, their pictures, and numbers known by other means."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import wane
from wane.exact import counterexamples
from wane.experiments import dp_convergence, errata, find, lambda_vs_gamma, n_occupancy
from wane.experiments.any_depletion import AnyDepletion
from wane.experiments.dp_convergence import DPConvergence
from wane.experiments.lambda_vs_gamma import LambdaVsGamma
from wane.experiments.n_occupancy import NOccupancy
from wane.experiments.replenishing import Replenishing
from wane.experiments.representations import PAPERS, Representations, matrices
from wane.worlds.catalog import four_rooms, grid_6x6


class Expected(NamedTuple):
    panels: int
    """colour bars included"""
    columns: set[str]
    fails: frozenset[str] = frozenset()
    """claims that are known not to hold"""


EXPECTED = {
    "representations": Expected(13, {"policy", "lam", "state", "site", "value"}),
    "dp-convergence": Expected(2, {"slip", "policy", "lam", "sweep", "error"}),
    "replenishing": Expected(3, {"scheme", "form", "panel", "at", "value", "check", "rest"}),
    "n-occupancy": Expected(5, {"kind", "n", "state", "site", "value"}),
    "lambda-vs-gamma": Expected(
        3,
        {"panel", "slip", "policy", "discount", "lam", "sweep", "value"},
        frozenset({"higher-discount-fine", "higher-discount-rate"}),
    ),
    "errata": Expected(1, {"name", *counterexamples.Counterexample._fields}),
    "any-depletion": Expected(8, {"panel", "curve", "at", "value", "check"}),
}


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {name: find(name).table(find(name).quick) for name in EXPECTED}


def verdicts(name, table):
    experiment = find(name)
    return {claim["name"]: claim["verdict"] for claim in experiment.findings(experiment.quick, table)}


@pytest.mark.parametrize("name", EXPECTED)
def test_claims(name, tables):
    """Every claim holds, but for those that are known not to."""
    experiment = find(name)
    found = experiment.findings(experiment.quick, tables[name])
    assert {claim["name"] for claim in found if claim["verdict"] == "fails"} == EXPECTED[name].fails
    assert len(found) == len({claim["name"] for claim in found}) > 0
    for claim in found:
        assert np.isfinite(claim["estimate"])
        assert claim["detail"]


@pytest.mark.parametrize("name", EXPECTED)
def test_table_and_figure(name, tables, tmp_path):
    """The table survives a file, and the figure is drawn from what comes back."""
    experiment, table = find(name), tables[name]
    assert experiment.name == name
    assert experiment.quick == experiment.paper
    assert set(table.columns) == EXPECTED[name].columns
    table.to_parquet(tmp_path / "table.parquet")
    back = pd.read_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(back, table)
    figure = experiment.draw(experiment.quick, back)
    assert len(figure.axes) == EXPECTED[name].panels
    figure.savefig(tmp_path / "figure.png", dpi=50)
    assert (tmp_path / "figure.png").stat().st_size > 5000


def spoiled(name, table):
    """The table with numbers that refute a claim, and that claim."""
    table = table.copy()
    match name:
        case "errata":
            table["corrected_violation"] = 1.0
            return table, "mismatch"
        case "dp-convergence":
            table["lam"] = 1 - table["lam"]
            return table, "fewer-sweeps"
        case "lambda-vs-gamma":
            table["lam"] = 1 - table["lam"]
            return table, "lower-is-faster"
    table["value"] += 1e-3 * (np.arange(len(table)) % 3)
    claims = {"replenishing": "as-printed", "n-occupancy": "recursion", "any-depletion": "agrees-with-brute-force"}
    return table, claims.get(name, "zero-is-first-occupancy")


@pytest.mark.parametrize("name", EXPECTED)
def test_claims_can_fail(name, tables):
    table, claim = spoiled(name, tables[name])
    assert verdicts(name, tables[name])[claim] == "holds"
    assert verdicts(name, table)[claim] == "fails"


WAY, LOOP = 4, 6
"""steps from S to the loop of the paper's policy on the grid, and around it"""


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_representation_of_the_loop(lam, tables):
    """The walk from S enters its loop of six cells at (1, 2) after four steps: Φ = γ⁴ / (1 − λγ⁶)."""
    grid = grid_6x6()
    lams, phi = matrices(tables["representations"], PAPERS)
    value = phi[np.searchsorted(lams, lam), grid.map.find("S"), grid.map.state(1, 2)]
    assert value == pytest.approx(0.9**WAY / (1 - lam * 0.9**LOOP), rel=1e-12)


def test_n_visits_of_the_loop(tables):
    grid = grid_6x6()
    found = n_occupancy.matrices(tables["n-occupancy"], "NR")[:, grid.map.find("S"), grid.map.state(1, 2)]
    visits = 0.9 ** (WAY + LOOP * np.arange(12))
    np.testing.assert_allclose(found, np.cumsum(visits), rtol=1e-12)


def test_sweeps_of_dynamic_programming(tables):
    """For λ = 1 the error of sweep k is γ^(k−1), in the goal; for λ = 0 it is gone one sweep after the longest way."""
    counts = dp_convergence.sweeps(tables["dp-convergence"], 0.05).loc[0.0]
    assert counts[1.0].tolist() == [1 + int(np.ceil(np.log(0.05) / np.log(0.97)))] * 4 == [100] * 4
    ways = [_longest_way(policy) for policy in four_rooms().policies]
    assert counts[0.0].tolist() == [way + 1 for way in ways] == [17, 17, 15, 17]
    assert counts[0.5].tolist() == [21, 21, 19, 21]
    noisy = dp_convergence.sweeps(tables["dp-convergence"], 0.05).loc[0.2]
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
    bellman, error = lambda_vs_gamma.errors(kernel, exact, lams, 0.9, 1e-4)
    for i, lam in enumerate(lams):
        run = wane.iterate(kernel, lam, discount=0.9, tolerance=1e-3)
        steps = len(run.errors)
        np.testing.assert_allclose(bellman[:steps, i], run.errors, rtol=1e-8)
        assert error[steps - 1, i] == pytest.approx(np.abs(run.matrix - exact[i]).max(), rel=1e-8)


def test_rate_is_a_spectral_radius(tables):
    """γ times the largest spectral radius of D P over the columns: with slip, that is about γ for every λ."""
    world = four_rooms(slip=0.2)
    kernel = world.mdp.under(world.policies[0]).toarray()
    rows = tables["lambda-vs-gamma"].query("panel == 'factor' and slip == 0.2 and policy == 0")
    for lam in (0.0, 0.5):
        scaled = np.repeat(kernel[None], len(kernel), axis=0)
        scaled[np.arange(len(kernel)), np.arange(len(kernel))] *= lam
        radius = np.abs(np.linalg.eigvals(scaled)).max()
        assert 0.999 < radius <= 1 + 1e-12
        for discount in (0.97, 0.99):
            factor = rows.query("lam == @lam and discount == @discount")["value"].item()
            assert 0.99 * discount < factor <= discount * radius + 1e-9


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
    rows = tables["replenishing"].query("panel == 'reward' and scheme == @scheme and form == @form")
    np.testing.assert_allclose(rows["value"].to_numpy()[: len(values)], values, rtol=1e-12)


def test_geometric_values_are_those_of_iteration(tables):
    world = four_rooms(slip=0.2)
    kernel = world.mdp.under(world.policies[1])
    phi = wane.iterate(kernel, 0.5, discount=0.97, sites=world.sites, tolerance=1e-10).matrix
    rows = tables["any-depletion"].query("panel == 'value' and curve == 'geometric'")
    np.testing.assert_allclose(rows["value"], phi @ world.rewards, atol=1e-6)
    means = tables["any-depletion"].query("panel == 'value'").groupby("curve", sort=False)["value"].mean()
    np.testing.assert_allclose(means, [15.15, 22.48, 26.38, 12.19, 29.57], atol=5e-3)


def test_every_erratum_is_a_claim(tables):
    names = {find.__name__ for find in counterexamples.ALL}
    assert set(errata.STATEMENTS) == names == set(tables["errata"]["name"])


@pytest.mark.parametrize(
    ("settings", "change", "culprit"),
    [
        (Representations(), {"points": 1}, "points = 1"),
        (DPConvergence(), {"slip": 0.0}, "slip = 0"),
        (DPConvergence(), {"until": 0.1}, "until = 0.1"),
        (LambdaVsGamma(), {"slip": 1.5}, "slip = 1.5"),
        (LambdaVsGamma(), {"far": (0.999, 0.5)}, "far = "),
        (NOccupancy(), {"maps": (1, 20)}, "maps = "),
        (Replenishing(), {"visits": (2, 50)}, "visits = "),
        (Replenishing(), {"length": 40}, "length = 40"),
        (AnyDepletion(), {"policy": 4}, "policy = 4"),
    ],
)
def test_settings_are_checked(settings, change, culprit):
    with pytest.raises(ValueError, match=culprit):
        replace(settings, **change)
