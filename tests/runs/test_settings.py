"""Every setting of an experiment is an option of the command line."""

import dataclasses
from dataclasses import dataclass

import pytest

from runs.sample import EXPERIMENT
from wane.cli import RunOptions
from wane.experiments.contract import Seeded
from wane.runs.settings import parse_settings
from wane.types import Integer, Scalar


@dataclass(frozen=True)
class Learner:
    """Settings that agents are batched over, so that they may also be arrays."""

    lam: Scalar = 0.5
    discount: Scalar | None = None
    episodes: Integer = 10


@dataclass(frozen=True)
class Batched(Seeded):
    agent: Learner = Learner()
    names: tuple[str, ...] = ("a",)


def parse(*words: str) -> Batched:
    experiment = dataclasses.replace(EXPERIMENT, quick=Batched(), paper=Batched(seeds=9))
    options, settings = parse_settings(experiment, RunOptions(), words, "wane run")
    assert options == RunOptions()
    return settings


def test_nothing_said_is_the_preset():
    assert parse() == Batched()


def test_settings_that_may_be_arrays_are_numbers_on_the_command_line():
    words = "--agent.lam 0.25 --agent.discount 0.9 --agent.episodes 3 --names x y --seeds 2"
    assert parse(*words.split()) == Batched(2, Learner(0.25, 0.9, 3), ("x", "y"))
    assert isinstance(parse("--agent.episodes", "3").agent.episodes, int)
    assert parse("--agent.discount", "none").agent.discount is None


@pytest.mark.parametrize("words", ["--agent.lam much", "--agent.episodes 2.5", "--agent.lam none", "--lam 0.5"])
def test_other_words_are_refused(words, capsys):
    with pytest.raises(SystemExit) as end:
        parse(*words.split())
    assert end.value.code == 2
    assert words.split()[0] in capsys.readouterr().err


def test_the_scale_chooses_the_preset():
    experiment = dataclasses.replace(EXPERIMENT, quick=Batched(), paper=Batched(seeds=9))
    _, settings = parse_settings(experiment, RunOptions("paper"), [], "wane run")
    assert settings.seeds == 9
