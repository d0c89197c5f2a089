"""The experiments that need no learner, with every setting changed: tables, verdicts, a figure, or a clear refusal."""

import warnings
from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest

from wane.lab import find
from wane.lab.contract import Settings, flat
from wane_paper.exact.diminishing import DiminishingSettings
from wane_paper.exact.dp_convergence import DPConvergence
from wane_paper.exact.errata import Errata
from wane_paper.exact.lambda_vs_gamma import LambdaVsGamma
from wane_paper.exact.n_occupancy import NOccupancy
from wane_paper.exact.replenishing import Replenishing
from wane_paper.exact.representations import Representations

TOY: dict[str, Settings] = {
    "diminishing": DiminishingSettings(visits=3),
    "representations": Representations(points=3),
    "dp-convergence": DPConvergence(until=1e-3),
    "n-occupancy": NOccupancy(most=4),
    "lambda-vs-gamma": LambdaVsGamma(
        discounts=(0.5, 0.8), lambdas=(0.0, 0.5, 1.0), near=(0.5, 1.0), far=(0.8, 0.5), fine=1e-3
    ),
    "replenishing": Replenishing(steps=8),
    "errata": Errata(),
}
"""Settings that take a fraction of a second."""


def check(name: str, settings: Settings, tmp_path) -> dict[str, str]:
    """Computes, judges and draws; returns the verdicts."""
    experiment = find(name)
    tables = experiment.tables(settings)
    assert tables
    assert all(len(table) > 0 for table in tables.values())
    found = experiment.findings(settings, tables)
    assert len(found) == len(experiment.claims)
    for claim in found:
        assert claim["verdict"] in ("holds", "fails", "undecided", "not tested")
        if claim["verdict"] == "not tested":
            assert len(claim["detail"].split()) > 5, "a whole sentence says what is missing"
        else:
            assert np.isfinite(claim["estimate"]) or claim["estimate"] == np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        experiment.draw(settings, tables).savefig(tmp_path / "figure.png", dpi=40)
    return {claim["name"]: claim["verdict"] for claim in found}


def others(settings: Settings, field: str) -> list[object]:
    """Other values of a setting: one, half, zero; of a tuple the first value alone, and those that are not ½ or 1."""
    value = flat(settings)[field]
    match value:
        case int():
            return [1 if value > 1 else 2]
        case float():
            return [value / 2, 0.0]
        case tuple() if Ellipsis in get_args(get_type_hints(type(settings))[field]):
            return [value[:1], tuple(item for item in value if item not in (0.5, 1.0))]
        case tuple():
            return [(value[0] / 2, value[1]), (value[0], value[1] / 2), value[::-1]]
    raise AssertionError(f"no other value of {value!r} is known")


CHANGES = [
    (name, field, value)
    for name, settings in TOY.items()
    for field, given in flat(settings).items()
    for value in others(settings, field)
    if value != given
]
REFUSED = {
    ("representations", "points", 1): "points = 1",
    ("dp-convergence", "slip", 0.0): "slip = 0",
    ("dp-convergence", "tolerance", 0.0): "tolerance = 0",
    ("dp-convergence", "until", 0.0): "until = 0",
    ("n-occupancy", "most", 1): "most = 1",
    ("lambda-vs-gamma", "discounts", (0.5,)): r"far = \(0.8, 0.5\): one of the discounts and one of the lambdas",
    ("lambda-vs-gamma", "discounts", (0.8,)): r"near = \(0.5, 1\): one of the discounts and one of the lambdas",
    (
        "lambda-vs-gamma",
        "lambdas",
        (0.0,),
    ): r"near = \(0.5, 1\): one of the discounts and one of the lambdas",
    ("lambda-vs-gamma", "near", (0.25, 1.0)): r"near = \(0.25, 1\): one of the discounts and one of the lambdas",
    (
        "lambda-vs-gamma",
        "near",
        (1.0, 0.5),
    ): r"near = \(1, 0.5\): a discount above 0 and at most 0.9999",
    ("lambda-vs-gamma", "far", (0.4, 0.5)): r"far = \(0.4, 0.5\): one of the discounts and one of the lambdas",
    ("lambda-vs-gamma", "far", (0.8, 0.25)): r"far = \(0.8, 0.25\): one of the discounts and one of the lambdas",
    ("lambda-vs-gamma", "far", (0.5, 0.8)): r"far = \(0.5, 0.8\): one of the discounts and one of the lambdas",
    ("lambda-vs-gamma", "slip", 0.0): "slip = 0",
    ("lambda-vs-gamma", "coarse", 0.0): "coarse = 0",
    ("lambda-vs-gamma", "fine", 0.0): "fine = 0",
    ("replenishing", "steps", 1): "steps = 1",
}
"""Changes of one setting that are refused, and what the refusal says."""


@pytest.mark.parametrize("name", TOY)
def test_toy_settings(name, tmp_path):
    """Toy sizes are enough to test every claim."""
    assert "not tested" not in check(name, TOY[name], tmp_path).values()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "field", "value"),
    [change for change in CHANGES if change not in REFUSED],
)
def test_every_setting_changed_once(name, field, value, tmp_path):
    check(name, replace(TOY[name], **{field: value}), tmp_path)


@pytest.mark.parametrize(("change", "message"), REFUSED.items())
def test_changes_that_leave_no_sense_are_refused(change, message):
    name, field, value = change
    assert change in CHANGES
    with pytest.raises(ValueError, match=message):
        replace(TOY[name], **{field: value})


@pytest.mark.parametrize(
    ("settings", "change", "culprit"),
    [
        (Representations(), {"lambdas": (0.5, 1.5)}, r"lambdas = \(0.5, 1.5\): a λ between 0 and 1 is needed, not 1.5"),
        (DPConvergence(), {"until": 0.1}, "until = 0.1"),
        (DPConvergence(), {"lambdas": (0.5, 0.5)}, "lambdas = .* different values are needed, but 0.5 is given twice"),
        (LambdaVsGamma(), {"slip": 1.5}, "slip = 1.5"),
        (LambdaVsGamma(), {"far": (0.999, 0.5)}, "far = "),
        (
            LambdaVsGamma(),
            {"discounts": (0.97, 0.99, 1.0)},
            "discounts = .*: a discount above 0 and at most 0.9999",
        ),
        (NOccupancy(), {"maps": (1, 20)}, "maps = "),
        (
            Replenishing(),
            {"visits": (2, 50)},
            "steps = 12: at least 51 is needed, because",
        ),
        (Replenishing(), {"visits": (5, 2)}, "visits = .*: rising numbers are needed"),
        (Replenishing(), {"total": (0.5, 1.1)}, r"total = \(0.5, 1.1\): a λ between 0.001 and 1 is needed, not 1.1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, change, culprit):
    with pytest.raises(ValueError, match=culprit):
        replace(settings, **change)


@pytest.mark.parametrize(
    ("name", "change", "untested"),
    [
        ("dp-convergence", {"lambdas": (0.5,)}, {"fewer-sweeps"}),
        (
            "lambda-vs-gamma",
            {"lambdas": (0.5,), "near": (0.5, 0.5), "far": (0.8, 0.5)},
            {"lower-is-faster", "higher-discount-coarse", "higher-discount-fine"},
        ),
        ("lambda-vs-gamma", {"far": (0.5, 0.5)}, {"higher-discount-coarse", "higher-discount-fine"}),
        ("replenishing", {"visits": (6, 7)}, {"drops-and-recovers"}),
        ("replenishing", {"visits": (0,), "steps": 1}, {"drops-and-recovers"}),
    ],
)
def test_claims_without_data_are_not_tested(name, change, untested, tmp_path):
    verdicts = check(name, replace(TOY[name], **change), tmp_path)
    assert {claim for claim, verdict in verdicts.items() if verdict == "not tested"} == untested


@pytest.mark.parametrize("lambdas", [(0.3,), (0.0, 0.25, 0.5, 0.75, 1.0)])
def test_any_number_of_lambdas_is_drawn(lambdas, tmp_path):
    """0.3 is not the point 0.3 of the way from 0 to 1, but differs from it by rounding."""
    settings = Representations(lambdas=lambdas, points=11)
    assert set(check("representations", settings, tmp_path).values()) == {"holds"}


def test_rounding_does_not_refute(tmp_path):
    """After 80 visits the distance from the successor representation is rounding."""
    assert set(check("n-occupancy", NOccupancy(most=80), tmp_path).values()) == {"holds"}
