"""Hierarchical Bayes over animals, with NumPyro: `pip install 'wane[fit]'`.

On the unbounded scale of each parameter (`Parameter.unbounded`), animals are draws from a normal distribution whose
mean and standard deviation are inferred too:

    mean ~ Normal(typical, 2)      spread ~ HalfNormal(1)      z_animal ~ Normal(mean, spread)

So the estimates of animals with little data are drawn towards the population, which is estimated too. The result is an
ArviZ `InferenceData`: all plots and statistics of ArviZ work on it.
"""

from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from wane.extras import require
from wane.foraging.arguments import Seed, check_arguments
from wane.foraging.decisions import Counts, Decisions, TaskArrays, prepare, task_arrays
from wane.foraging.fitting import check_fittable
from wane.foraging.models import Model, Parameter, typical_point, values_at
from wane.foraging.recovery import simulate
from wane.foraging.visits import PatchVisits
from wane.settings import Count


@check_arguments
def hierarchical(
    data: PatchVisits,
    model: Model,
    *,
    draws: Count = 500,
    warmup: Count = 500,
    chains: Count = 2,
    predictive: Count = 20,
    seed: Seed = 0,
) -> Any:
    """Samples the posterior of a model's parameters over animals and population, as ArviZ `InferenceData`.

    The posterior holds each parameter by `subject`, and `population_…`, its value at the mean of the population.
    `posterior_predictive` holds mean harvests by environment, kind and draw for `predictive` draws; `observed_data`
    holds the observed means. Raises MissingExtra if NumPyro or ArviZ is not installed, and ValueError as `fit` does.
    """
    require("fit", "hierarchical")
    arviz, numpyro, infer = (import_module(name) for name in ("arviz", "numpyro", "numpyro.infer"))
    check_fittable(data, model)
    names = model.parameters(data.task)
    with jax.enable_x64(True):
        decisions, counts = prepare(data, model.learns)
        counts = Counts(*(jnp.asarray(each.sum(1)) for each in counts))
        task = task_arrays(data.task)
        centre = typical_point(names)

        def program() -> None:
            _program(numpyro, model, names, decisions, counts, task, centre)

        start = {
            "mean": centre,
            "spread": jnp.full(len(names), 0.3),
            "offset": jnp.zeros((len(data.subjects), len(names))),
        }
        kernel = infer.NUTS(program, init_strategy=infer.init_to_value(values=start))
        chain = infer.MCMC(
            kernel,
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        chain.run(jax.random.key(seed))
        samples = {name: np.asarray(value) for name, value in chain.get_samples(group_by_chain=True).items()}
        divergent = np.asarray(chain.get_extra_fields(group_by_chain=True)["diverging"])
    return _describe(arviz, data, model, names, samples, divergent, predictive, seed)


def _program(
    numpyro: Any,
    model: Model,
    names: list[Parameter],
    decisions: Decisions,
    counts: Counts,
    task: TaskArrays,
    centre: Float[Array, " parameters"],
) -> None:
    """Defines the statistical model: the population, its animals, and their decisions."""
    animals = counts.stays.shape[0]
    mean = numpyro.sample("mean", numpyro.distributions.Normal(centre, 2.0).to_event(1))
    spread = numpyro.sample("spread", numpyro.distributions.HalfNormal(jnp.ones(len(names))).to_event(1))
    # Animals differ from the mean in units of the spread, which is easier for the sampler if the spread is small.
    standard = numpyro.distributions.Normal(jnp.zeros((animals, len(names))), 1.0).to_event(2)
    z = mean + spread * numpyro.sample("offset", standard)
    values = values_at(names, z.T)
    for i, parameter in enumerate(names):
        numpyro.deterministic(parameter.name, values[parameter.name])
        numpyro.deterministic(f"population_{parameter.name}", parameter.value(mean[i]))
    own = 0 if model.learns else None

    def one(params: Any, each: Decisions, number: Counts) -> Any:
        return model.log_likelihood(params, each, number, task)

    likelihood = jax.vmap(one, (0, own, 0))(values, decisions, counts)
    numpyro.deterministic("animal_log_likelihood", likelihood)
    numpyro.factor("visits", jnp.sum(likelihood))


def _describe(
    arviz: Any,
    data: PatchVisits,
    model: Model,
    names: list[Parameter],
    samples: dict[str, np.ndarray],
    divergent: np.ndarray,
    predictive: int,
    seed: int,
) -> Any:
    """Returns the samples as InferenceData, with the predicted and the observed mean harvests."""
    subjects = [str(subject) for subject in data.subjects]
    posterior = {p.name: samples[p.name] for p in names}
    posterior |= {f"population_{p.name}": samples[f"population_{p.name}"] for p in names}
    coords = {"subject": subjects, "environment": data.task.environments, "kind": data.task.kinds}
    dims = {p.name: ["subject"] for p in names} | {"visits": ["subject"], "harvests": ["environment", "kind"]}
    flat = {p.name: samples[p.name].reshape(-1, len(subjects)) for p in names}
    chosen = np.random.default_rng(seed).integers(len(next(iter(flat.values()))), size=predictive)
    predicted = [_predict(data, model, {name: value[i] for name, value in flat.items()}, int(i)) for i in chosen]
    return arviz.from_dict(
        posterior=posterior,
        log_likelihood={"visits": samples["animal_log_likelihood"]},
        sample_stats={"diverging": divergent},
        posterior_predictive={"harvests": np.stack(predicted)[None]},
        observed_data={"harvests": _mean_harvests(data.table, data)},
        coords=coords,
        dims=dims,
    )


def _predict(
    data: PatchVisits, model: Model, values: dict[str, np.ndarray], seed: int
) -> Float[np.ndarray, "environments kinds"]:
    """Mean harvests of simulated animals that have these parameters."""
    tables = []
    for number, (_, own) in enumerate(data.by_subject()):
        params = {name: float(value[number]) for name, value in values.items()}
        tables.append(simulate(model, own, params, seed=seed + number).table)
    return _mean_harvests(pd.concat(tables), data)


def _mean_harvests(table: Any, data: PatchVisits) -> Float[np.ndarray, "environments kinds"]:
    """Mean harvests for each environment and kind, NaN where there are no visits."""
    wide = table.groupby(["environment", "kind"])["harvests"].mean().unstack()
    return wide.reindex(index=data.task.environments, columns=data.task.kinds).to_numpy(float)
