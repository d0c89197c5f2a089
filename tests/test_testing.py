"""The public checks find what is broken, and say how to mend it. Tests of agents and depletions use them too."""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane import foraging
from wane.agents import Agent, q_learning
from wane.agents.common.policy import Policy
from wane.foraging import Parameter
from wane.testing import check_agent, check_depletion, check_model
from wane.worlds import make

TOY = make("toy")
SHORT = q_learning.Config(episodes=2)
SOUND = q_learning.AGENT


@dataclass
class Melting:
    """Settings that can be changed."""


@dataclass(frozen=True)
class Needy:
    """A setting without a default."""

    speed: float


@dataclass(frozen=True)
class Silent:
    speed: float = 1.0


class Other(NamedTuple):
    q: jax.Array


def forgetful(key, world, config, state=None, first=0, episodes=None):
    """Each call to train begins with episode 0."""
    return q_learning.train(key, world, config, state, 0, episodes)


calls = []


def moody(key, world, config, state=None, first=0, episodes=None):
    calls.append(key)
    return q_learning.train(jax.random.fold_in(key, len(calls)), world, config, state, first, episodes)


def on_host(key, world, config, state=None, first=0, episodes=None):
    state, info = q_learning.train(key, world, config, state, first, episodes)
    return q_learning.State(jnp.asarray(np.asarray(state.q))), info


def outside(params, world, config):
    return Policy(lambda params, carry, cell, key: (jnp.int32(77), carry, None), params, observation="index")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Config": Melting}, "its Config is no frozen dataclass"),
        ({"Config": Needy}, "the setting 'speed' of its Config has no default"),
        ({"Config": Silent}, "its Config has no docstring"),
        ({"init": lambda key, world: None}, r"init\(key, world, config\) cannot be called"),
        ({"update": lambda state, data: None}, r"update\(state, data, world, config, key\) cannot be called"),
        ({"unit": "epochs"}, r"train\(key, world, config, state, first, epochs=…\) cannot be called"),
        ({"State": Other}, "init returns a State, and no State"),
        ({"train": lambda *args, **named: q_learning.train(*args, **named)[0]}, "train returns no pair"),
        ({"train": moody}, "training twice with one key gives two answers"),
        ({"train": forgetful}, r"two chunks differs from training at once: .*fold_in\(key, its number\)"),
        ({"train": on_host}, r"JAX cannot trace train, so say traceable=\('init',\)"),
        ({"policy": outside}, "takes an action that is not within 0 to 4"),
        ({"policy": lambda *args: None}, "policy returns no wane.agents.common.policy.Policy"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_a_broken_agent(changes, message):
    with pytest.raises(AssertionError, match=message):
        check_agent(dataclasses.replace(SOUND, **changes), TOY, SHORT)


@pytest.mark.usefixtures("unchecked_types")
def test_what_is_no_agent_at_all():
    with pytest.raises(AssertionError, match="make a wane.agents.Agent of its functions"):
        check_agent(q_learning)
    assert isinstance(SOUND, Agent)


class Shrinking(wane.Depletion):
    """`visit` forgets the shape of the memory."""

    def worth(self, memory):
        return 1.0 / (1 + memory)

    def visit(self, memory):
        return np.max(memory) + 1


class HostOnly(wane.Diminishing):
    def worth(self, visits):
        return np.exp(-np.asarray(visits))


class Growing(wane.Diminishing):
    def worth(self, visits):
        return 1.0 + visits


class Undeclared(wane.Diminishing):
    rates: np.ndarray

    def worth(self, visits):
        return self.rates[: np.shape(visits)[-1]] ** visits


class Miscounted(wane.Geometric):
    def generating_function(self, x, visits=0, escape=None):
        return 1 / (1 - self.lam * x)


class Leaky(wane.Diminishing):
    def worth(self, visits):
        return 0.5**visits

    def wait(self, visits):
        return visits + 1


class Split(wane.Geometric):
    """JAX pays something else than NumPy."""

    def worth(self, visits):
        return super().worth(visits) * (0.5 if isinstance(visits, jax.Array) else 1.0)


@pytest.mark.parametrize(
    ("depletion", "message"),
    [
        (0.5, "is no wane.Depletion"),
        (Shrinking(), r"visit returns \[\(\)\], where the memory has \[\(3,\)\]"),
        (HostOnly(), "cannot be traced by JAX: take where, exp and the like from wane.depletion.namespace"),
        (Growing(), "worth reaches .*, above its bound 1: override `bound`"),
        (Undeclared(np.array([0.2, 0.5, 0.9])), "pay something else alone .*declare parameters .*parameter()"),
        (Miscounted(0.5), "its generating function is 1 at x = 0 after 1 visits, and its power series 0.5"),
        (Leaky(), "its memory is not the number of visits"),
        (Split(0.5), "JAX pays .* where NumPy pays"),
        (wane.TotalTime([0.5, 0.4], [0.9, 0.8, 0.7]), r"its parameters are for \[2, 3\] sites"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_a_broken_depletion(depletion, message):
    with pytest.raises(AssertionError, match=message):
        check_depletion(depletion)


@dataclass(frozen=True)
class Count(foraging.HarvestCount):
    typical: float = 0.5
    wrong: str = ""

    def parameters(self, task):
        names = ("slope", "slope") if self.wrong == "names" else ("slope", "half")
        return [Parameter(names[0], -1.0, np.inf, self.typical), Parameter(names[1], -np.inf, np.inf, 8.0)]

    def leaving(self, params, decisions, task):
        odds = super().leaving(params, decisions, task)
        wrong = {
            "shape": odds[..., None],
            "infinite": odds / 0.0,
            "gradient": jax.lax.stop_gradient(odds),
        }
        return wrong.get(self.wrong, odds)


@dataclass(frozen=True)
class Impatient(foraging.LearnedAverage):
    """`step`, which animals are simulated with, leaves earlier than `leaving` says."""

    def step(self, params, known, decision, task):
        known, odds = super().step(params, known, decision, task)
        return known, odds + 1.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (foraging.HarvestCount, "is no wane.foraging.Model: subclass it, and make an instance"),
        (Count(wrong="names"), "two of its parameters have the same name: slope, slope"),
        (Count(typical=-2.0), "the typical slope = -2 is not between -1 and inf"),
        (Count(wrong="shape"), "leaving returns the shape .* decisions"),
        (Count(wrong="infinite"), "leaving is no finite number with slope = 0.5, half = 8"),
        (Count(wrong="gradient"), "the gradient of the log-likelihood is .*, and differences say"),
        (Impatient(), "leaving and step by step differ"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_a_broken_model(model, message):
    with pytest.raises(AssertionError, match=message):
        check_model(model)


def test_a_model_that_is_simulated_otherwise_than_it_says(monkeypatch):
    """Animals that leave earlier than the parameters say are explained much better by other parameters."""
    from wane.testing import models

    def simulate(model, like, params):
        early = params.parameters() | {"half": params.parameters()["half"] - 2}
        return foraging.simulate(model, like, early)

    monkeypatch.setattr(models, "simulate", simulate)
    with pytest.raises(AssertionError, match="other parameters explain simulated animals better by"):
        check_model(foraging.HarvestCount())


def test_a_sound_model_of_somebody_else():
    check_model(Count())
