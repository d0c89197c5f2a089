"""Settings say in their types what they may be, and are checked wherever they are made."""

import math
import pickle
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wane.agents import forward_backward, gpi, planner, policy_iteration, q_lambda, q_learning, td
from wane.settings import (
    DISTINCT,
    Checked,
    Lambda,
    Probability,
    Range,
    SettingError,
    check,
    check_setting,
    deferred,
)
from wane.types import Flag


@dataclass(frozen=True)
class Inner(Checked):
    epsilon: Probability = 0.2
    rounds: Annotated[int, Range(2, 100)] = 10
    order: Literal["up", "down"] = "up"

    def rules(self) -> None:
        check_setting(self.rounds >= 5 or self.order == "up", self, "rounds", "at least 5 is needed to go down")


@dataclass(frozen=True)
class Outer(Checked):
    inner: Inner = Inner()
    lambdas: Annotated[tuple[Lambda, ...], DISTINCT] = (0.0, 1.0)
    pair: tuple[Lambda, Annotated[float, Range(0, above=True)]] = (0.5, 3.0)
    anything: float = 1.0
    count: int = 3
    maybe: Probability | None = None
    sure: Flag = True


pytestmark = pytest.mark.usefixtures("unchecked_types")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lambdas": (0.5, 1.5)}, "lambdas = (0.5, 1.5): a λ between 0 and 1 is needed, not 1.5"),
        ({"lambdas": (0.5, 0.5)}, "lambdas = (0.5, 0.5): different values are needed, but 0.5 is given twice"),
        ({"lambdas": ()}, "lambdas = (): at least one value is needed"),
        ({"sure": 0.5}, "sure = 0.5: True or False is needed"),
        ({"sure": "no"}, "sure = no: True or False is needed"),
        ({"pair": (0.5, 0.0)}, "pair = (0.5, 0): a number above 0 is needed, not 0"),
        ({"pair": (2.0, 3.0)}, "pair = (2, 3): a λ between 0 and 1 is needed, not 2"),
        ({"anything": -1.0}, "anything = -1: a number of at least 0 is needed"),
        ({"anything": "much"}, "anything = much: a number of at least 0 is needed"),
        ({"anything": True}, "anything = True: a number of at least 0 is needed"),
        ({"count": 2.5}, "count = 2.5: a whole number of at least 1 is needed"),
        ({"count": -(10**400)}, f"count = -1{'0' * 42}…{'0' * 15}: a whole number of at least 1 is needed"),
        ({"count": 0}, "count = 0: a whole number of at least 1 is needed"),
        ({"maybe": math.nan}, "maybe = nan: a probability between 0 and 1 is needed"),
        ({"maybe": np.array([0.5, 2.0])}, "maybe = [0.5 2. ]: a probability between 0 and 1 is needed"),
    ],
)
def test_what_is_out_of_range_is_refused(changes, message):
    with pytest.raises(SettingError) as refusal:
        Outer(**changes)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 7.0}, "inner.epsilon = 7: a probability between 0 and 1 is needed"),
        ({"order": "dwn"}, 'inner.order = dwn: "up" or "down" is needed; did you mean down?'),
        ({"rounds": 3, "order": "down"}, "inner.rounds = 3: at least 5 is needed to go down"),
    ],
)
def test_nested_settings_are_named_from_outside(changes, message):
    with deferred():
        outer = Outer(inner=Inner(**changes))
    with pytest.raises(SettingError) as refusal:
        check(outer)
    assert str(refusal.value) == message
    assert refusal.value.as_option.startswith("--inner.")
    with pytest.raises(SettingError, match=message.removeprefix("inner.").partition(" =")[0]):
        Inner(**changes)


def test_what_is_allowed_passes():
    changed = Outer(maybe=1.0, lambdas=[0.25], count=np.int64(4), anything=np.float32(2), pair=(1.0, 1e9))
    assert changed.maybe == 1.0
    Outer(maybe=None)


def test_what_jax_traces_passes():
    found = jax.jit(lambda e: replace(Inner(), epsilon=e).epsilon * 2)(3.0)
    assert found == 6.0
    lams = jax.vmap(lambda lam: q_lambda.Config(lam=lam).lam)(jnp.array([0.0, 0.5]))
    assert lams.tolist() == [0.0, 0.5]


def test_an_error_of_a_worker_comes_back_whole():
    error = pickle.loads(pickle.dumps(SettingError("a.b_c", (1.0, 2), "less is needed")))
    assert (str(error), error.as_option) == ("a.b_c = (1, 2): less is needed", "--a.b-c 1 2: less is needed")


AGENTS = (q_lambda, q_learning, td, gpi, planner, policy_iteration, forward_backward)


@pytest.mark.parametrize(
    ("agent", "changes"),
    [
        *[(agent, {"discount": 1.5}) for agent in (q_lambda, q_learning, td, forward_backward)],
        *[(agent, {"epsilon": 7.0}) for agent in (q_lambda, q_learning, td, forward_backward)],
        *[(agent, {"episodes": 0}) for agent in (q_lambda, q_learning, td)],
        *[(agent, {"optimism": math.inf}) for agent in (q_lambda, q_learning)],
        *[(agent, {"lam": (0.5, 2.0)}) for agent in (q_lambda, td, forward_backward)],
        *[(agent, {"timing": "never"}) for agent in (gpi, policy_iteration)],
        (td, {"cap": 0.0}),
        (planner, {"tolerance": math.nan}),
        (policy_iteration, {"sweeps": -1}),
        (forward_backward, {"polyak": 2.0}),
        (forward_backward, {"temperature": 0.0}),
        (forward_backward, {"replay": 10}),
        (forward_backward, {"width": 10**12}),
    ],
)
def test_an_agent_made_in_python_is_checked_too(agent, changes):
    (name,) = changes
    with pytest.raises(SettingError, match=f"^{name} = .* is needed"):
        agent.Config(**changes)


def test_every_configuration_is_checked():
    assert all(issubclass(agent.Config, Checked) for agent in AGENTS)
