"""Every model's likelihood on the rats, against a plain loop over decisions in NumPy."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane import foraging
from wane.foraging import MODELS
from wane.foraging.decisions import Counts, Decisions, prepare, task_arrays
from wane.testing import check_model

FIRST = {"low": 60.0, "middle": 90.0, "high": 120.0}
AWAY = {"rich": 10.0, "poor": 30.0}
H, AHEAD = 10.0, 48
PARAMS = {
    "constant": {"chance": 0.13},
    "count": {"slope": 0.25, "half": 13.0},
    "thresholds": {"slope": 0.09, "threshold_rich": 27.0, "threshold_poor": 13.0},
    "theorem": {"slope": 0.02},
    "theorem-bias": {"slope": 0.08, "bias": 41.0},
    "learned-average": {"slope": 0.09, "learning": 0.002, "bias": 33.0},
    "optimal": {"slope": 0.02},
    "exponential": {"slope": 0.19, "rate": 0.12},
    "hyperbolic": {"slope": 1.3, "k": 2.0},
    "quasi-hyperbolic": {"slope": 0.09, "beta": 0.6, "rate": 0.04},
    "two-exponential": {"slope": 0.1, "weight": 0.6, "slow": 0.002, "faster": 0.15},
    "drop-told": {"slope": 0.02, "drop": 5.0},
    "drop-counted": {"slope": 0.03, "drop": 3.0},
    "lambda-told": {"slope": 0.03, "lam": 0.85},
    "lambda-counted": {"slope": 0.03, "lam": 0.96},
    "drop-told-bias": {"slope": 0.08, "drop": 3.0, "bias": 50.0},
}


def true_reward(kind, n):
    """What the n-th harvest pays."""
    return max(FIRST[kind] - 8.0 * (n - 1), 0.0)


def annuity(s, t):
    return t if s == 0 else (1 - np.exp(-s * t)) / s


@cache
def best_rate(curve, away, s):
    """ρ by trying all numbers of harvests; `curve` holds the rewards of the three kinds as tuples."""
    count = np.arange(1, len(curve[0]) + 1)
    gained = [np.cumsum(np.array(row) * np.exp(-s * H * count)) for row in curve]
    spent = annuity(s, count * H + away)
    shapes = [[-1 if i == k else 1 for i in range(3)] for k in range(3)]
    top = sum(row.reshape(shape) for row, shape in zip(gained, shapes, strict=True))
    bottom = sum(np.asarray(spent).reshape(shape) for shape in shapes)
    return float((top / bottom).max())


def staying(future, rho, away, s):
    """What staying is worth more than leaving: the best number of further harvests, all of them tried."""
    count = np.arange(1, len(future) + 1)
    gained = np.cumsum(np.array(future) * np.exp(-s * H * count))
    return float((gained - rho * annuity(s, count * H + away)).max() + rho * annuity(s, away))


def logit_by_hand(name, p, environment, kind, n):
    """The log-odds of leaving after n harvests, from the definition of each model."""
    away, last, following = AWAY[environment], true_reward(kind, n), true_reward(kind, n + 1)
    truth = tuple(tuple(true_reward(k, i) for i in range(1, 18)) for k in FIRST)
    if name == "constant":
        return np.log(p["chance"] / (1 - p["chance"]))
    if name == "count":
        return p["slope"] * (n - p["half"])
    if name == "thresholds":
        return p["slope"] * (p[f"threshold_{environment}"] - following)
    if name.startswith("theorem"):
        return p["slope"] * (H * best_rate(truth, away, 0.0) - p.get("bias", 0.0) - following)
    if name.startswith(("drop", "lambda")):

        def worn(r, i):
            return max(r - p["drop"] * i, 0.0) if "drop" in p else r * p["lam"] ** i

        believed = tuple(tuple(worn(FIRST[k], i) for i in range(AHEAD)) for k in FIRST)
        rho = best_rate(believed, away, 0.0)
        told = "told" in name
        future = [worn(last, i) for i in range(1, AHEAD + 1)] if told else believed[list(FIRST).index(kind)][n:]
        return -p["slope"] * (staying(future, rho, away, 0.0) + p.get("bias", 0.0))
    future = [true_reward(kind, i) for i in range(n + 1, n + 20)]
    if name == "hyperbolic":
        points, weights = np.polynomial.laguerre.laggauss(24)
        rates = p["k"] * points
    elif name == "two-exponential":
        # ω from its share in the discount of the next harvest, which also divides all values.
        fast, slow, odds = p["slow"] + p["faster"], p["slow"], p["weight"] / (1 - p["weight"])
        omega = odds * np.exp(10 * p["faster"]) / (1 + odds * np.exp(10 * p["faster"]))
        discount = omega * np.exp(-10 * fast) + (1 - omega) * np.exp(-10 * slow)
        rates, weights = [fast, slow], [omega / discount, (1 - omega) / discount]
    else:
        rates, weights = [p.get("rate", 0.0)], [p.get("beta", 1.0)]
    worth = sum(w * staying(future, best_rate(truth, away, s), away, s) for w, s in zip(weights, rates, strict=True))
    return -p["slope"] * (worth + (1 - p.get("beta", 1.0)) * following)


def log_likelihood_by_hand(name, p):
    """One decision after the other."""
    total, table = 0.0, foraging.rats().table
    hazard = cache(lambda e, k, n: logit_by_hand(name, p, e, k, n))
    truth = tuple(tuple(true_reward(k, i) for i in range(1, 18)) for k in FIRST)
    rho, animal = 0.0, None
    for visit in table.itertuples():
        if visit.subject != animal:
            animal, rho = visit.subject, np.mean([best_rate(truth, away, 0.0) for away in AWAY.values()])
        for n in range(1, visit.harvests + 1):
            if name == "learned-average":
                rho *= (1 - p["learning"]) ** (AWAY[visit.environment] if n == 1 else 0.0)
                kept = (1 - p["learning"]) ** H
                rho = kept * rho + (1 - kept) * true_reward(visit.kind, n) / H
                logit = p["slope"] * (rho * H - p["bias"] - true_reward(visit.kind, n + 1))
            else:
                logit = hazard(visit.environment, visit.kind, n)
            chance = 1 / (1 + np.exp(-logit))
            total += np.log(chance if n == visit.harvests else 1 - chance)
    return total


def test_all_find_models_are_tested():
    assert set(PARAMS) == set(MODELS)


@pytest.mark.parametrize("name", PARAMS)
def test_the_likelihood_is_that_of_a_plain_loop(name):
    model, data = MODELS[name], foraging.rats()
    assert [p.name for p in model.parameters(data.task)] == list(PARAMS[name])
    decisions, counts = prepare(data, model.learns)
    counts = Counts(*(jnp.asarray(each.sum(1)) for each in counts))
    own = 0 if model.learns else None
    task = task_arrays(data.task)

    @jax.jit
    def total(params):
        one = jax.vmap(lambda d, c: model.log_likelihood(params, d, c, task), (own, 0))
        return one(decisions, counts).sum()

    found = float(total({n: jnp.asarray(v) for n, v in PARAMS[name].items()}))
    assert found == pytest.approx(log_likelihood_by_hand(name, PARAMS[name]), abs=1e-6)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", MODELS)
def test_every_model_passes_the_public_check(name):
    check_model(MODELS[name])


def test_a_learning_model_says_the_same_step_by_step():
    model, data = MODELS["learned-average"], foraging.rats()
    own = data.where(data.table["subject"] == 1)
    (decisions, _), task = prepare(own, True), task_arrays(data.task)
    one = Decisions(*(a[0, :200] for a in decisions))
    params = {name: jnp.asarray(value) for name, value in PARAMS["learned-average"].items()}
    slow = jax.jit(lambda p: foraging.LearningModel.leaving(model, p, one, task))(params)
    np.testing.assert_allclose(jax.jit(lambda p: model.leaving(p, one, task))(params), slow, rtol=1e-10)


def test_quasi_hyperbolic_discounting_is_the_limit_of_two_exponential_systems():
    """A system with a large rate q values the next harvest at e^(−qh) of what it pays, and nothing after it.

    Scaled by e^(qh), its preference is that of the impatient planner of `QuasiHyperbolic`. So the parameters of two
    exponentials are those of quasi-hyperbolic discounting with other names, and the fast rate changes nothing any more.
    """
    data = foraging.rats()
    (decisions, _), task = prepare(data, False), task_arrays(data.task)
    two, quasi = MODELS["two-exponential"], MODELS["quasi-hyperbolic"]
    slow, share, later = 0.03, 0.4, 0.6 * np.exp(0.03 * H)
    params = {"slope": 0.1 * (share + later), "beta": later / (share + later), "rate": slow}
    expected = jax.jit(lambda p: quasi.leaving(p, decisions, task))(params)

    @jax.jit
    def steep(faster):
        p = {"slope": 0.1, "weight": share, "slow": slow, "faster": faster}
        return jax.jvp(lambda q: two.leaving(p | {"faster": q}, decisions, task), (faster,), (1.0,))

    for faster in (4.0, 1e6):
        found, change = steep(faster)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_allclose(change, 0.0, atol=1e-9)


def test_parameters_go_to_the_unbounded_scale_and_back():
    ranges = [("a", 0.0, 1.0, 0.3), ("b", 0.05, np.inf, 2.0), ("c", -np.inf, np.inf, -3.0)]
    for parameter in itertools.starmap(foraging.Parameter, ranges):
        for value in (0.2, 0.7):
            assert float(parameter.value(parameter.unbounded(jnp.asarray(value)))) == pytest.approx(value)


@pytest.mark.usefixtures("unchecked_types")
def test_planners_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match='discount = geometric: "none", "exponential", .* is needed'):
        foraging.Planner("geometric")
    with pytest.raises(ValueError, match='sees = all: "reward" or "count" is needed'):
        foraging.Planner(sees="all")
    with pytest.raises(TypeError, match=r"belief is the class LinearDrop, and a Belief is needed: make one, such as"):
        foraging.Planner(belief=foraging.LinearDrop)
