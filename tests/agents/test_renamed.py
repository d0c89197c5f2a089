"""Names and settings of 0.2.0 that have other names now: they work, and warn."""

import dataclasses
import json
from importlib import import_module

import jax
import pytest

from wane.agents import Trained, bandit, load, sac
from wane.agents.a2c import Config as ActorCritic
from wane.agents.common.views import Vision
from wane.agents.forward_backward import Config as ForwardBackward
from wane.agents.lambda_features import Config as LambdaFeatures
from wane.agents.laplacian import Config as Laplacian
from wane.agents.td import Config as TD
from wane.files import checksum, read_json, write_json
from wane.settings import with_present_names
from wane.worlds.control import ControlTask, Copies, describe, from_description

TASK = ControlTask("Pendulum-v1", horizon=5)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("wane.agents.sac", "Batch", "Transitions"),
        ("wane.agents.sac", "Fleet", "Learners"),
        ("wane.agents.a2c", "Batch", "Sequences"),
        ("wane.agents.a2c", "Memory", "LSTMState"),
        ("wane.agents.lambda_features", "Batch", "Examples"),
        ("wane.agents.lambda_features", "many", "train_each"),
        ("wane.agents.forward_backward", "draw_tasks", "sample_tasks"),
        ("wane.agents.bandit", "draw", "sample"),
        ("wane.agents.common.views", "Sight", "Vision"),
        ("wane.worlds.control", "Task", "ControlTask"),
        ("wane.worlds.control", "Batch", "Copies"),
    ],
)
def test_an_old_name_warns(module, old, new):
    home = import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{module}.{old} is now {module}.{new}"):
        assert getattr(home, old) is getattr(home, new)
    with pytest.raises(AttributeError):
        _ = home.no_such_name


@pytest.mark.parametrize(
    ("kind", "old", "new", "value"),
    [
        (sac.Config, "memory", "replay", 5000),
        (sac.Config, "feature_weight", "lambda_features", True),
        (ForwardBackward, "memory", "replay", 5000),
        (ActorCritic, "memory", "recurrent", False),
        (TD, "form", "rows", "state"),
        (Laplacian, "sight", "vision", Vision("index")),
    ],
)
def test_an_old_setting_warns(kind, old, new, value):
    with pytest.warns(DeprecationWarning, match=f"the setting {old} of .* is now {new}"):
        config = kind(**{old: value})
    assert config == kind(**{new: value})
    with pytest.warns(DeprecationWarning, match=f"the setting {old} of .* is now {new}"):
        assert getattr(config, old) == value
    assert old not in {field.name for field in dataclasses.fields(kind)}


def test_settings_of_files_get_their_present_names():
    kept = {"lam": 0.5, "base": {"sight": {"observation": "index"}, "features": 3}}
    found = with_present_names(LambdaFeatures, kept)
    assert found == {"lam": 0.5, "base": {"vision": {"observation": "index"}, "features": 3}}


def test_control_tasks():
    with pytest.warns(DeprecationWarning, match="ControlTask.batch is now ControlTask.copies"):
        assert isinstance(TASK.batch([0]), Copies)
    with pytest.warns(DeprecationWarning, match="the setting told of .*ControlTask is now remaining"):
        task = ControlTask("wane/PointMass-v0", told=True)  # pyright: ignore[reportCallIssue]
    assert task == ControlTask("wane/PointMass-v0", remaining=True)
    old = {name if name != "remaining" else "told": value for name, value in describe(task).items()}
    assert from_description(old) == task


def test_an_agent_that_was_saved_with_numbers_for_true_and_false(tmp_path):
    """0.2.0 wrote "adaptive": 0, "feature_weight": 0, "averaging": 0.0 and "told": false."""
    config = sac.Config(hidden=(4,), adaptive=False, lambda_features=False, replay=300, bandit=bandit.Config())
    trained = Trained("sac", TASK, config, sac.init(jax.random.key(0), TASK, config))
    folder = trained.save(tmp_path / "agent")
    about = read_json(folder / "config.json")
    about["config"] = about["config"] | {"adaptive": 0, "feature_weight": 0, "memory": about["config"]["replay"]}
    about["config"]["bandit"]["averaging"] = 0.0
    about["world"]["told"] = about["world"].pop("remaining")
    for name in ("lambda_features", "replay"):
        del about["config"][name]
    about.pop("seal")
    write_json(folder / "config.json", json.loads(json.dumps(about)), sealed=True)
    assert about["files"]["params.safetensors"] == checksum(folder / "params.safetensors")
    again = load(folder)
    assert again.config == config
    assert (again.config.adaptive, again.config.bandit.averaging, again.world) == (False, False, TASK)
