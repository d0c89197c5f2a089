"""The experiment with the rats: its claims on its own tables, its refusals, and its figure."""

from dataclasses import replace

import numpy as np
import pytest

from wane.lab import find
from wane_paper.foraging.rats import BELIEFS, NAMES, Rats

TOY = Rats(models=("theorem-bias",), starts=1)
"""Settings that take a second, beside what JAX takes to compile."""
FEW = Rats(models=("theorem", "theorem-bias", "drop-counted"), starts=2, thorough=False)


@pytest.fixture(scope="module")
def tables():
    return find("rats").tables(FEW)


def verdicts(settings, tables):
    return {claim["name"]: claim for claim in find("rats").findings(settings, tables)}


@pytest.mark.slow
def test_claims(tables):
    found = verdicts(FEW, tables)
    assert {name: claim["verdict"] for name, claim in found.items()} == {
        "overstay": "holds",
        "belief-explains": "fails",
        "believed-slower": "holds",
        "present-bias": "not tested",
    }
    assert found["belief-explains"]["estimate"] < -100, "log-likelihood for each rat"
    assert found["believed-slower"]["estimate"] == pytest.approx(3.0, abs=0.5)
    assert {claim.kind for claim in find("rats").claims} == {"ours"}


@pytest.mark.slow
def test_claims_can_fail(tables):
    """With the likelihoods of the theorem and of the belief exchanged, and with optima that nobody exceeds."""
    swapped = tables["likelihoods"].replace({"model": {"drop-counted": "theorem-bias", "theorem-bias": "drop-counted"}})
    assert verdicts(FEW, tables | {"likelihoods": swapped})["belief-explains"]["verdict"] == "holds"
    far = tables["harvests"].assign(optimal=20)
    assert verdicts(FEW, tables | {"harvests": far})["overstay"]["verdict"] == "fails"
    slow = tables["estimates"].assign(value=np.where(tables["estimates"]["parameter"] == "drop", 20.0, 1.0))
    assert verdicts(FEW, tables | {"estimates": slow})["believed-slower"]["verdict"] == "fails"


@pytest.mark.slow
def test_the_figure(tables, tmp_path):
    figure = find("rats").draw(FEW, tables)
    assert len(figure.axes) == 3
    figure.savefig(tmp_path / "figure.png", dpi=50)
    assert (tmp_path / "figure.png").stat().st_size > 5000
    assert tables["harvests"].columns.tolist()[:4] == ["environment", "kind", "optimal", "observed"]
    assert tables["harvests"]["optimal"].tolist() == [1, 3, 7, 2, 5, 9]


@pytest.mark.slow
@pytest.mark.fuzz
def test_blocks_are_held_out_for_each_rat_and_for_all_together():
    found = find("rats").tables(replace(TOY, blocks=2, last_harvest="forced"))["likelihoods"]
    assert found["pooled"].tolist() == [False] * 8 + [True]
    assert (found["held_out"] < found["log_likelihood"]).all(), "what was not fitted is less probable"
    assert found["decisions"].tolist()[-1] == 19516, "214 visits of the longest kind have no last decision"
    alone = found[~found["pooled"]]
    assert found["held_out"].iloc[-1] < alone["held_out"].sum(), "rats differ"


def test_settings_that_make_no_sense():
    assert set(BELIEFS) < set(NAMES)
    with pytest.raises(ValueError, match="blocks = 1: 0, or at least 2 is needed"):
        replace(TOY, blocks=1)
    with pytest.raises(ValueError, match="models"):
        replace(TOY, models=("theorem", "theorem"))
    with pytest.raises(ValueError, match="models = .*theorme.*: names of models are needed: constant, count"):
        replace(TOY, models=("theorme",))
