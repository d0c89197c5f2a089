"""Whether a model of patch leaving keeps the contract of `wane.foraging.models`.

    >>> from wane.foraging import HarvestCount
    >>> from wane.testing import check_model
    >>> check_model(HarvestCount())

The model is asked for its log-odds of leaving at decisions of animals, at typical parameters and at others; gradients
are compared with differences. Then animals are simulated with the parameters that fit the data, and fitted again. What
is compared is how well both explain the simulated data, and not the parameters themselves: two parameters of a sound
model may be told apart only by more data than these.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from wane.foraging import rats
from wane.foraging.decisions import Decisions, prepare, task_arrays
from wane.foraging.fitting import DataSets, fit, make_sets, objective
from wane.foraging.models import LearningModel, Model, Parameter, typical_point, values_at
from wane.foraging.recovery import simulate
from wane.foraging.visits import PatchVisits

DRAWS = 4
"""At how many points around the typical parameters the model is asked."""
CHANCE = 1e-4
"""How rarely a sound model fails the comparison of likelihoods."""
DIFFERENCE = 1e-5
"""The step of the differences with which gradients are compared, on the unbounded scale."""


def check_model(model: Model, data: PatchVisits | None = None) -> None:
    """Raises AssertionError, with the rule that was broken and the cure, unless a model keeps the contract.

    The `data` are visits of at least one animal; by default they are those of two rats.
    """
    if not isinstance(model, Model):
        raise AssertionError(f"{model!r} is no wane.foraging.Model: subclass it, and make an instance")
    if data is None:
        data = rats()
        data = data.where(data.table["subject"].isin(data.subjects[:2]))
    frozen = dataclasses.is_dataclass(model) and model.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]
    _require(frozen, model, "it is no frozen dataclass, so compiled programs cannot be used again")
    parameters = _check_parameters(model, data)
    with jax.enable_x64(True):
        _check_chances(model, data, parameters)
        _check_gradients(model, data, parameters)
    _check_recovery(model, data, parameters)


def _require(fine: Any, model: Model, message: str) -> None:
    if not fine:
        raise AssertionError(f"{model.name} does not keep the contract of a model: {message}")


def _check_parameters(model: Model, data: PatchVisits) -> list[Parameter]:
    found = model.parameters(data.task)
    _require(len(found) > 0 and all(isinstance(p, Parameter) for p in found), model, "it lists no `Parameter`")
    names = [p.name for p in found]
    _require(len(set(names)) == len(names), model, f"two of its parameters have the same name: {', '.join(names)}")
    for p in found:
        within = p.low < p.typical < p.high
        _require(within, model, f"the typical {p.name} = {p.typical:g} is not between {p.low:g} and {p.high:g}")
    return found


def _points(parameters: list[Parameter]) -> np.ndarray:
    """The typical parameters on the unbounded scale, and some others around them."""
    typical = np.asarray(typical_point(parameters))
    return typical + np.vstack([np.zeros_like(typical), np.random.default_rng(0).normal(size=(DRAWS, len(typical)))])


def _check_chances(model: Model, data: PatchVisits, parameters: list[Parameter]) -> None:
    """There is one finite number for each decision, and a model that learns says the same step by step."""
    task, decisions = task_arrays(data.task), prepare(data, model.learns).decisions
    one = Decisions(*(jnp.asarray(a)[0, :100] for a in decisions)) if model.learns else decisions

    def leaving(z: Any, steps: bool = False) -> Any:
        params = values_at(parameters, z)
        return LearningModel.leaving(model, params, one, task) if steps else model.leaving(params, one, task)  # pyright: ignore[reportArgumentType]

    for z in _points(parameters):
        logits = np.asarray(jax.jit(leaving)(jnp.asarray(z)))
        wanted = np.shape(one.harvests)
        _require(logits.shape == wanted, model, f"leaving returns the shape {logits.shape} for {wanted} decisions")
        point = ", ".join(f"{p.name} = {float(p.value(z[i])):g}" for i, p in enumerate(parameters))
        _require(np.isfinite(logits).all(), model, f"leaving is no finite number with {point}")
        if isinstance(model, LearningModel):
            steps = np.asarray(jax.jit(partial(leaving, steps=True))(jnp.asarray(z)))
            _require(np.allclose(logits, steps, atol=1e-8), model, "leaving and step by step differ: override both")


def _cost(model: Model, data: PatchVisits, parameters: list[Parameter]) -> Any:
    """Minus the log-likelihood of all animals together, as a function of unbounded numbers."""
    sets = make_sets(prepare(data, model.learns), True, model.learns)
    counts = jax.tree_util.tree_map(lambda a: a[0], sets.counts)
    decisions = jax.tree_util.tree_map(lambda a: a[0], sets.decisions) if model.learns else sets.decisions
    return jax.jit(partial(objective, model, tuple(parameters), DataSets(decisions, counts), task_arrays(data.task)))


def _check_gradients(model: Model, data: PatchVisits, parameters: list[Parameter]) -> None:
    """The log-likelihood is that of chances, and its gradient at typical parameters is that of small differences."""
    aim = _cost(model, data, parameters)
    for z in _points(parameters):
        value, slope = float(aim(z)), np.asarray(jax.jit(jax.grad(aim))(jnp.asarray(z)))
        _require(np.isfinite(value) and value >= 0, model, f"the log-likelihood of the data is {-value:g}, above 0")
        _require(np.isfinite(slope).all(), model, f"the gradient of the log-likelihood is {slope}: it must be finite")
        if model.kinks:
            continue
        steps = DIFFERENCE * np.eye(len(z))
        numeric = np.array([float(aim(z + step) - aim(z - step)) for step in steps]) / (2 * DIFFERENCE)
        close = np.allclose(slope, numeric, rtol=1e-3, atol=1e-6 * (1 + value))
        cure = "say kinks = True if it has any, else look for a `where` with an infinite branch"
        _require(close, model, f"the gradient of the log-likelihood is {slope}, and differences say {numeric}: {cure}")


def _check_recovery(model: Model, data: PatchVisits, parameters: list[Parameter]) -> None:
    """The parameters that made simulated animals explain them about as well as those that the search finds."""
    true = fit(data, model, pooled=True, intervals="none")
    simulated = simulate(model, data, true)
    again = fit(simulated, model, pooled=True, intervals="none")
    with jax.enable_x64(True):
        known = -float(_cost(model, simulated, parameters)(jnp.asarray(true.z[0])))
    gain = again.log_likelihood - known
    cure = "give its parameters typical values of the right size"
    _require(gain > -1e-3, model, f"the fit of simulated animals misses what made them by {-gain:.3g} nats: {cure}")
    most = stats.chi2.isf(CHANCE, len(parameters)) / 2
    message = f"other parameters explain simulated animals better by {gain:.3g} nats than those that made them"
    _require(gain < most, model, f"{message}: simulated decisions do not follow the chances that the model tells")
