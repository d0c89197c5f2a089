"""Every setting of an experiment is an option of the command line."""

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from runs.sample import EXPERIMENT
from wane.commands.arguments import parse_settings
from wane.commands.running import RunOptions
from wane.lab import find
from wane.lab.contract import Seeded
from wane.lab.runs.errors import UsageError
from wane.settings import Lambda, Range, SettingError, check, deferred, field_types, is_nested
from wane.types import Integer, Scalar
from wane.worlds.catalog import four_rooms
from wane_paper.collection import NAMES
from wane_paper.common.composing import Composing
from wane_paper.networks import training


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
    levels: tuple[Lambda, ...] = (0.0, 1.0)
    pair: tuple[Lambda, int] = (0.5, 1)


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--agent.lam much", "--agent.lam: a number is needed, got 'much'"),
        ("--agent.episodes 2.5", "--agent.episodes: a whole number is needed, got '2.5'"),
        ("--agent.lam none", "--agent.lam: a number is needed, got 'none'"),
        ("--lam 0.5", "--lam: there is no such option"),
        ("--agent.lmm 0.5", "--agent.lmm: there is no such option; did you mean --agent.lam?"),
        ("--agent.lam", "--agent.lam: a value is needed"),
        ("--seeds 2 3", "3: this word does not belong to any option"),
        ("--levels 0.5 x", "--levels: a number is needed, got 'x'"),
        ("--pair 0.5", "--pair: 2 values are needed"),
        ("--pair 0.5 x", "--pair: a whole number is needed, got 'x'"),
        ("--launcher rays", "--launcher rays: one of 'local', 'ray' is needed"),
    ],
)
def test_other_words_are_refused_in_one_line(words, message, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(UsageError) as refusal:
        parse(*words.split())
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)
    assert "`wane run --help` shows all" in str(refusal.value)
    assert capsys.readouterr() == ("", "")


def test_the_scale_chooses_the_preset():
    experiment = dataclasses.replace(EXPERIMENT, quick=Batched(), paper=Batched(seeds=9))
    _, settings = parse_settings(experiment, RunOptions("paper"), [], "wane run")
    assert settings.seeds == 9


def settings_of(name: str) -> list[tuple[str, object, object]]:
    """The numeric settings of an experiment: dotted name, value, and the type with its range."""
    found, waiting = [], [("", find(name).quick)]
    while waiting:
        prefix, settings = waiting.pop()
        for field, hint in field_types(type(settings)).items():
            value = getattr(settings, field, None)
            if is_nested(value):
                waiting.append((f"{prefix}{field}.", value))
            elif hint is not Any and not field.isupper() and (ranges(hint) or is_number(value)):
                found.append((prefix + field, value, hint))
    return found


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def ranges(hint: object) -> list[Range]:
    """All ranges that a type holds, those of a tuple's items included."""
    own = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Range)]
    return own + [each for inner in get_args(hint) if inner is not Ellipsis for each in ranges(inner)]


def changed_to(settings, name: str, value: object):
    """The settings with one of them changed, unchecked."""
    part, _, inner = name.partition(".")
    value = changed_to(getattr(settings, part), inner, value) if inner else value
    with deferred():
        return dataclasses.replace(settings, **{part: value})


def bad_values(value: object, hint: object) -> list[object]:
    """Values that no setting of this type may have."""
    limits = ranges(hint)
    numbers = [math.nan, math.inf, -math.inf, "word", True, 10**12 if type(value) is int else 1e300]
    numbers += [each.low - 1 for each in limits[:1]] + [each.low for each in limits[:1] if each.above]
    numbers += [each.high + 1 for each in limits[:1]] + [each.high for each in limits[:1] if each.below]
    if isinstance(value, tuple):
        return [(), *[(number, *value[1:]) for number in numbers]]
    return [*numbers, (), *([] if isinstance(value, float) or value is None else [1.5])]


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize("name", NAMES)
def test_every_numeric_setting_of_every_experiment_refuses_what_is_not_in_its_range(name):
    for setting, value, hint in settings_of(name):
        limits = ranges(hint)
        assert limits, f"{setting} declares no range"
        assert all(math.isfinite(each.low) and math.isfinite(each.high) for each in limits)
        for bad in bad_values(value, hint):
            with pytest.raises(SettingError) as refusal:
                check(changed_to(find(name).quick, setting, bad))
            told = str(refusal.value)
            assert told.startswith(f"{setting} = "), (setting, bad, told)
            assert " is needed" in told
            assert "\n" not in told


REASONS = r"needed, because|given twice|sets this itself|rising|add it to them|, as (most|coarse) is|at the end|so that"
"""What a refusal says where a setting has to fit another one."""


@pytest.mark.parametrize("name", NAMES)
def test_the_ends_of_every_range_are_taken_or_refused_with_a_reason(name):
    for setting, value, hint in settings_of(name):
        limits = ranges(hint)[0]
        for end in [limits.low] * (not limits.above) + [limits.high] * (not limits.below):
            number = end if "int" in str(hint) else float(end)
            settings = changed_to(find(name).quick, setting, (number, *value[1:]) if type(value) is tuple else number)
            refusal = None
            try:
                check(settings)
            except SettingError as error:
                refusal = str(error)
            assert refusal is None or re.search(REASONS, refusal), refusal


LISTED = {
    "q-lambda --discount 1.5": "--discount 1.5: a discount between 0 and 1 is needed",
    "q-lambda --agent.epsilon 7": "--agent.epsilon 7: a probability between 0 and 1 is needed",
    "q-lambda --agent.episodes 50": "--agent.episodes 50: at least 100 is needed, because the last 5 evaluations, one "
    "every 20 episodes, are judged",
    "gpi-tabular --slip 1.5": "--slip 1.5: a probability between 0 and 1 is needed",
    "gpi-noisy --shown 100": "--shown 100: a state of FourRooms between 0 and 67 is needed",
    "rats --starts 0": "--starts 0: a whole number between 1 and 100 is needed",
    "a2c --size 8": "--size 8: an odd number is needed",
    "mvt --distances 0": "--distances 0: a whole number between 1 and 6 is needed, not 0",
    "mvt --lam 2": "--lam 2: a λ between 0 and 1 is needed",
    "sac --agents SAC-2 SAC-2": "--agents SAC-2 SAC-2: different values are needed, but SAC-2 is given twice",
    "sac-flops --widths 0": "--widths 0: a whole number between 1 and 10,000 is needed",
    "sac-depleting --lam 2": "--lam 2: a λ between 0 and 1 is needed",
    "mvt --timings": "--timings: at least one value is needed",
    "lambda-operator --sweeps": "--sweeps: at least one value is needed",
    "learned-operator --maps": "--maps: at least one value is needed",
    "fb-asymmetric --factors": "--factors: at least one value is needed",
    "fb-zero-shot --lambdas": "--lambdas: at least one value is needed",
    "fb-lambda-table --agents 2": "--agents 2: a λ between 0 and 1 is needed, not 2",
    "fb-lambda-table --agent.polyak 2": "--agent.polyak 2: a share between 0 and 1 is needed",
    "fb-learn-lambda --goals 69": "--goals 69: a whole number between 1 and 68 is needed",
    "grid-features --agent.episodes 50": "--agent.episodes 50: at least 100 is needed, because",
    "gpi-pixels --shown 68": "--shown 68: at most 67 is needed, because FourRooms has 68 states",
    "lambda-features-curves --policy 4": "--policy 4: at most 3 is needed, because FourRooms brings policies 0 to 3",
    "diminishing --visits 0": "--visits 0: a whole number between 1 and 10,000 is needed",
    "representations --points 1": "--points 1: a whole number between 2 and 10,000 is needed",
    "policy-evaluation --agent.step-size inf": "--agent.step-size inf: a weight between 0 and 1 is needed",
    "dp-convergence --until 1e-300": "--until 1e-300: a number between 1e-12 and 1,000,000 is needed",
    "toy --horizon -1": "--horizon -1: a whole number between 1 and 1,000 is needed",
    "replenishing --steps 3": "--steps 3: at least 6 is needed, because the last visit is at step 5",
    "replenishing-q --rate 0": "--rate 0: a number above 0 and at most 1,000,000 is needed",
    "n-occupancy --maps 20": "--maps 20: numbers of at most 12 are needed, as most is",
    "lambda-vs-gamma --discounts 1": "--discounts 1: a discount above 0 and at most 0.9999 is needed, not 1",
}
"""A bad value of every experiment that has settings."""


@pytest.mark.parametrize(("words", "message"), LISTED.items())
def test_a_bad_value_is_told_in_one_line_and_nothing_is_written(command, tmp_path, words, message):
    status, out, errors = command("run", *words.split(), "--out", tmp_path / "out")
    assert status == 2
    assert errors.startswith(f"wane: {message}")
    assert (errors.count("\n"), out) == (1, "")
    assert not (tmp_path / "out").exists()


def test_there_is_a_bad_value_of_every_experiment():
    assert {words.split()[0] for words in LISTED} == set(NAMES) - {"errata"}


def test_the_numbers_of_fourrooms_are_those_of_the_world():
    world = four_rooms()
    assert ranges(field_types(Composing)["shown"])[0].high == world.n_states - 1
    assert ranges(training.Goals)[0].high == world.n_states


def test_preset_settings_are_in_their_ranges():
    for name in NAMES:
        for settings in (find(name).quick, find(name).paper):
            check(settings)
