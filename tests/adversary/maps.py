"""Random maps with random settings: a refusal in words, or a world that does what its drawing says."""

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import wane
from adversary.frame import Fuzzer, assert_in_words, one_of
from wane.worlds import World
from wane.worlds.describe import describe
from wane.worlds.gym import Environment

JUNK = ("\0", "\t", " ", "\r", "é", "λ", "💥", "-", "?", "\x1b", "\ud800", "١", "\u2028")
NUMBERS = (
    *(True, None, 0, -1, 0.5, 3, 2**31, 2**63, -(2**63), 10**30, 10**400, -(10**400), 1e308, 1e-320, -0.0),
    *(float("nan"), float("inf"), float("-inf"), "", "0.5", "a" * 5000, {}),
)
"""Values in the place of a number of a description, or of an entry of a list of numbers."""
DEPLETIONS = (
    *({"kind": "Geometric", "lam": 0.5}, {"kind": "Geometric", "lam": [0.5]}, {"kind": "FirstVisits", "n": 2}),
    *(
        {"kind": "Hyperbolic", "k": 1.0},
        {"kind": "PowerLaw", "p": 1.0},
        {"kind": "Listed", "values": [1, 0.5], "tail": 0},
    ),
    *({"kind": "TimeElapsed", "lam": 0.5, "rate": 1.0}, {"kind": "EligibilityTrace", "drop": 0.5, "regrow": 0.9}),
    {"kind": "TotalTime", "drop": 0.5, "regrow": 0.9, "equation": "representation"},
)
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))


def random_text(rng: np.random.Generator) -> str:
    """A map of up to 6 × 6 cells, with one fault or none."""
    rows, columns = rng.integers(1, 7, 2)
    letters = np.array(list("##....abS1"))[rng.integers(10, size=(rows, columns))]
    if rng.random() < 0.7:
        letters[[0, -1]], letters[:, [0, -1]] = "#", "#"
        letters[rng.integers(rows), rng.integers(columns)] = "."
    lines = ["".join(row) for row in letters]
    i, at = int(rng.integers(rows)), int(rng.integers(columns + 1))
    match rng.integers(12):
        case 0:
            lines[i] = lines[i][:at] + one_of(rng, *JUNK) + lines[i][at:]
        case 1:
            lines[i] = lines[i][:at]
        case 2:
            lines = ["   " + line + "  " for line in lines]
        case 3:
            lines.insert(i, "")
        case 4:
            return one_of(rng, "", "\n", "#", "##\n##", ".", "\0", "   ", "#" * 1000)
    return one_of(rng, "\n", "\n", "\r\n", "\n    ").join(lines)


def random_settings(rng: np.random.Generator, text: str) -> dict:
    """Settings of a world: most are fine, and some of them are wrong."""
    size = max(1, sum(letter not in "#\n\r " for letter in text))
    sites = one_of(rng, "a", "ab", "S1", [0], [0, 1], [size - 1], [(1, 1)], [size], [-1], [0, 0], "??", [0.5], [])
    wrong = {
        "discount": (-0.5, 1.5, np.nan),
        "slip": (-0.1, 1.1, np.nan),
        "horizon": (0, -1, 2.5),
        "n_actions": (3, 6, 0),
        "timing": ("later", ""),
        "wall_penalty": (np.nan, np.inf),
        "start": ("?", -1, (99, 99), "nowhere"),
        "observation": ("nothing", "index+left", ""),
        "rewards": ([np.nan] * len(sites), [1.0] * (len(sites) + 1)),
    }
    settings = {
        "sites": list(sites),
        "rewards": rng.integers(-2, 9, len(sites)).astype(float).tolist(),
        "discount": one_of(rng, 0.0, 0.9, 1.0),
        "slip": one_of(rng, 0.0, 0.0, 0.25, 1.0),
        "horizon": one_of(rng, None, 1, 7),
        "n_actions": one_of(rng, 4, 5),
        "timing": one_of(rng, "arrival", "departure"),
        "wall_penalty": one_of(rng, 0.0, 0.5, -1.0),
        "observation": one_of(rng, "index", "one-hot", "cell", "index+remaining"),
        "depletion": one_of(rng, wane.Geometric(0.5), wane.FirstVisits(2), wane.TimeElapsed(0.5)),
        "threshold": one_of(rng, None, 0.1, -1.0),
    }
    if rng.random() < 0.3:
        name = one_of(rng, *wrong)
        settings[name] = one_of(rng, *wrong[name])
    return settings


def read_map(text: str) -> dict[tuple[int, int], int]:
    """The number of every free cell, read from the text by hand."""
    lines = [line.strip() for line in text.strip().splitlines()]
    cells = [(r, c) for r, line in enumerate(lines) for c, letter in enumerate(line) if letter != "#"]
    return {cell: i for i, cell in enumerate(cells)}


def expected_row(cells: dict[tuple[int, int], int], cell: tuple[int, int], action: int, slip: float) -> np.ndarray:
    """The probabilities of all next states, by hand."""
    number = cells[cell]
    around = [cells.get((cell[0] + down, cell[1] + right)) for down, right in STEPS]
    row = np.zeros(len(cells))
    row[number if around[action] is None else around[action]] += 1 - slip
    near = [other for other in around[:4] if other is not None] or [number]
    for other in near:
        row[other] += slip / len(near)
    return row


def random_world(rng: np.random.Generator) -> tuple[World | None, str]:
    """A world, or None where it was refused in words, and the text of its map."""
    text = random_text(rng)
    try:
        return World(text, **random_settings(rng, text)), text
    except (ValueError, TypeError) as error:
        assert_in_words(error)
        return None, text


def good_world(rng: np.random.Generator, slips: bool = True) -> World:
    """A world with a site that was not refused."""
    while True:
        world, _ = random_world(rng)
        if world is not None and world.n_sites and (slips or not world.slip):
            return world


def map_case(rng: np.random.Generator) -> None:
    """The transitions of a world are those of its drawing."""
    world, text = random_world(rng)
    if world is None:
        return
    cells = read_map(text)
    assert world.n_states == len(cells)
    for action in range(world.n_actions):
        kernel = world.mdp.action(action)
        kernel = np.asarray(kernel.toarray() if hasattr(kernel, "toarray") else kernel)
        wanted = [expected_row(cells, cell, action, world.slip) for cell in cells]
        np.testing.assert_allclose(kernel, wanted, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(world.start.sum(), 1, rtol=1e-9)


def step_case(rng: np.random.Generator) -> None:
    """A jitted step goes where the transitions say, as often as they say, and pays what remains."""
    world = good_world(rng)
    action = int(rng.integers(world.n_actions))
    samples = 400

    @jax.jit
    def step_all(keys):
        starts = jax.vmap(world.reset)(keys[0])[1]
        return starts, jax.vmap(lambda key, state: world.step(key, state, action))(keys[1], starts)

    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), (2, samples))
    starts, (_, after, rewards, terminated, truncated, _) = step_all(keys)
    kernel = world.mdp.action(action)
    kernel = np.asarray(kernel.toarray() if hasattr(kernel, "toarray") else kernel)
    left, entered = np.asarray(starts.cell), np.asarray(after.cell)
    assert (kernel[left, entered] > 0).all(), f"a step of {world!r} goes where its transitions do not"
    for state in np.unique(left):
        counts = np.bincount(entered[left == state], minlength=world.n_states)
        expected = counts.sum() * kernel[state]
        # Five standard deviations of a binomial count, and one for small numbers.
        assert (np.abs(counts - expected) <= 5 * np.sqrt(expected * (1 - kernel[state])) + 3).all()
    paying = entered if world.timing == "arrival" else left
    site_of = {int(s): r for states, r in zip(world.patches, world.rewards, strict=True) for s in states}
    pays = np.array([site_of.get(s, 0.0) for s in paying.tolist()])
    bumped = world.map.bumps(world.n_actions)[left, action]
    cost = world.wall_penalty * bumped
    certain = np.ones(samples, bool) if world.slip == 0 else ~bumped
    np.testing.assert_allclose(np.asarray(rewards)[certain], (pays - cost)[certain], rtol=1e-6)
    assert not (np.asarray(terminated) & np.asarray(truncated)).any()
    if world.horizon == 1:
        assert (np.asarray(terminated) | np.asarray(truncated)).all()


def gym_case(rng: np.random.Generator) -> None:
    """The Gymnasium environment of a deterministic world walks as a walk by hand does, and pays the same."""
    world = good_world(rng, slips=False)
    env, depletion = Environment(world), world.depletion
    cell, memories = int(rng.choice(world.n_states, p=world.start)), [depletion.initial() for _ in world.sites]
    observation, info = env.reset(seed=int(rng.integers(2**31)), options={"state": cell})
    assert env.observation_space.contains(observation)
    aims, patches = world.map.next_states(world.n_actions), [set(states.tolist()) for states in world.patches]
    for _ in range(6):
        action = int(rng.integers(world.n_actions))
        observation, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(observation), observation
        bumped, entered = world.map.bumps(world.n_actions)[cell, action], int(aims[cell, action])
        visited = entered if world.timing == "arrival" else cell
        expected = -world.wall_penalty * bumped
        for i, patch in enumerate(patches):
            if visited in patch:
                expected += float(world.rewards[i]) * float(depletion.worth(memories[i]))
            memories[i] = depletion.visit(memories[i]) if visited in patch else depletion.wait(memories[i])
        np.testing.assert_allclose(reward, expected, rtol=1e-5, atol=1e-6)
        worths = [float(depletion.worth(memory)) for memory in memories]
        np.testing.assert_allclose(info["remaining"], worths * np.asarray(world.rewards), rtol=1e-5, atol=1e-6)
        cell = entered
        if terminated or truncated:
            break
    env.close()


def strange_value(rng: np.random.Generator) -> Any:
    """A value that a number or a list of a description should not have: alone, in a list, or deep in lists."""
    value = one_of(rng, *NUMBERS)
    for _ in range(one_of(rng, 0, 0, 0, 0, 1, 1, 2, 45, 400)):
        value = [value]
    return one_of(
        rng, value, value, value, value, [], value * 2 if isinstance(value, list) else [value, 1], [[1, 2], value]
    )


def json_case(rng: np.random.Generator) -> None:
    """A description with a strange value is refused in a sentence, or makes a page that starts."""
    world = describe(good_world(rng)) | {"depletion": dict(one_of(rng, *DEPLETIONS)), "timing": "arrival"}
    view = {"seed": 1, "agents": [{"kind": "paths", "belief": 0.5}]}
    place = one_of(rng, world, world["depletion"], world["depletion"], world["rewards"], world["start"], view)
    key = one_of(rng, *place) if isinstance(place, dict) else int(rng.integers(len(place)))
    place[key] = strange_value(rng)
    if place is not view:
        _assert_page_or_words(lambda: wane.explore(World.from_json(json.dumps(world))))
    link = base64.urlsafe_b64encode(json.dumps({"world": world, "view": view}).encode()).decode()
    _assert_page_or_words(lambda: wane.explore(f"#{link}"))


def _assert_page_or_words(make_page: Callable[[], wane.explorer.Explorer]) -> None:
    """Asserts that a page's data are JSON for a browser too, or that the page was refused in a few words."""
    try:
        page = make_page()
    except ValueError as error:
        assert_in_words(error)
        if len(str(error)) > 1000:
            raise
        return
    data = re.search(r'id="data">(.*?)</script>', page.html)
    assert data is not None
    json.loads(data[1], parse_constant=lambda name: pytest.fail(f"{name} is no JSON: the page would not start"))


FUZZERS = (
    Fuzzer("maps", map_case, 600),
    Fuzzer("steps", step_case, 5),
    Fuzzer("gym", gym_case, 60),
    Fuzzer("worlds-as-json", json_case, 200),
)
