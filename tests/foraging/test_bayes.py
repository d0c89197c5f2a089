"""Hierarchical Bayes, where NumPyro and ArviZ are installed."""

import sys

import numpy as np
import pytest

from foraging.test_fitting import make_data
from wane import foraging
from wane.extras import MissingExtra


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.fuzz
def test_animals_lean_on_each_other():
    pytest.importorskip("numpyro")
    pytest.importorskip("arviz")
    data = make_data(animals=3, visits=30)
    found = foraging.hierarchical(data, foraging.HarvestCount(), draws=150, warmup=150, predictive=5)
    separate = foraging.fit(data, foraging.HarvestCount(), intervals="none")
    slopes = found.posterior["slope"].mean(("chain", "draw")).to_numpy()
    alone = separate.estimates.query("parameter == 'slope'")["value"].to_numpy()
    assert slopes.std() < alone.std(), "estimates shrink towards the population"
    assert np.corrcoef(slopes, alone)[0, 1] > 0.9
    assert found.posterior["population_slope"].shape == (2, 150)
    predicted = found.posterior_predictive["harvests"].mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(predicted, found.observed_data["harvests"].to_numpy(), atol=1.0)
    assert set(found.log_likelihood["visits"].dims) == {"chain", "draw", "subject"}


def test_what_is_missing_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(MissingExtra, match=r"hierarchical needs NumPyro, .*: pip install .*\[fit\]'"):
        foraging.hierarchical(make_data(animals=2, visits=5), foraging.ConstantHazard())
