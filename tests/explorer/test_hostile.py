"""Files and addresses from anywhere: whatever is in them, the page shows a world or says a sentence."""

import base64
import copy
import json
from typing import Any

import numpy as np
import pytest

from explorer import cases
from wane import worlds
from wane.explorer import pages
from wane.worlds import World, make

COUNT = 5000
STRANGE: list[Any] = [
    *(None, True, "", "#", "a" * 5000, "\u0000", "<script>alert(1)</script>", "__proto__", "constructor", "Infinity"),
    *(-1, 0, 0.5, 1e308, -1e308, 1e-320, 2**53, [], [[]], [None], [1, 2, 3], [[0, 0]] * 100, {}, {"kind": "Geometric"}),
    *(
        {"__proto__": {"kind": "x"}},
        {"kind": "toString"},
        {"kind": "Geometric", "lam": [0.5] * 99},
        "#" * 10 + "\n.",
        "\n" * 50,
    ),
]
READ = """inputs => inputs.map(({ text, link }) => {
  const began = performance.now();
  let outcome;
  try {
    const state = text === null ? wane.state.decodeLink(link) : wane.state.readText(text);
    const again = wane.state.decodeLink(wane.state.encodeLink(state));
    const same = JSON.stringify(wane.state.describeState(again)) === JSON.stringify(wane.state.describeState(state));
    wane.engine.makeProblem(state.world);
    outcome = { world: wane.state.describeWorld(state.world), same };
  } catch (error) {
    outcome = { refused: error instanceof wane.state.Refused ? error.message : null, error: String(error) };
  }
  return { ...outcome, took: performance.now() - began };
})"""


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The paths to all values inside of a value of JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


def mutate(value: Any, rng: np.random.Generator) -> Any:
    """A copy with a few values replaced, removed, doubled or renamed."""
    value = copy.deepcopy(value)
    for _ in range(rng.integers(1, 3)):
        path = places(value)[1:]
        if not path:
            return value
        *way, last = path[int(rng.integers(len(path)))]
        inside = value
        for key in way:
            inside = inside[key]
        strange = copy.deepcopy(STRANGE[int(rng.integers(len(STRANGE)))])
        kind = rng.integers(4)
        if kind == 0:
            del inside[last]
        elif kind == 1 and isinstance(inside, dict):
            inside[f"{last}x"] = strange
        elif kind == 2 and isinstance(inside, list):
            inside.insert(last, inside[last])
        else:
            inside[last] = strange
    return value


def scramble(text: str, rng: np.random.Generator) -> str:
    """A text with some characters replaced, removed or repeated."""
    for _ in range(rng.integers(1, 6)):
        at, end = sorted(rng.integers(0, len(text) + 1, 2).tolist())
        piece = ["", text[at:end], chr(int(rng.integers(32, 1000))), "9" * 20, "}", '"'][int(rng.integers(6))]
        text = (text[:at] + piece + text[at + int(rng.integers(3)) :])[:100_000]
    return text


def mutations(count: int, rng: np.random.Generator) -> list[dict[str, str | None]]:
    """Mutated states, half of them as JSON and half of them as addresses."""
    view = {"show": "values", "policy": 0, "cell": None, "agents": [{"kind": "paths", "belief": 0.5}], "seed": 3}
    made, worlds = [], [cases.random_world(rng) for _ in range(100)]
    for i in range(count):
        state = {"world": worlds[i % 100], "view": view}
        text = json.dumps(mutate(state if i % 3 else state["world"], rng))
        text = scramble(text, rng) if i % 4 == 0 else text
        code = base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
        link = "#" + (scramble(code, rng) if i % 5 == 0 else code)
        made.append({"text": text, "link": link} if i % 2 else {"text": None, "link": link})
    return made


def test_mutated_states_are_shown_or_refused_in_a_sentence(calculator):
    found = calculator.evaluate(READ, mutations(COUNT, np.random.default_rng(1)))
    refused = [each for each in found if "world" not in each]
    assert [each["error"] for each in refused if not each["refused"]] == []
    sentences = [each["refused"] for each in refused]
    assert [sentence for sentence in sentences if not sentence.endswith(".") or len(sentence) > 250] == []
    assert len({sentence.split("“")[0][:25] for sentence in sentences}) > 15
    shown = [each for each in found if "world" in each]
    assert len(refused) > 1000
    assert len(shown) > 300
    assert all(each["same"] for each in shown)
    # A busy machine may stop the browser for a moment; seconds would be a freeze of the page.
    assert np.median([each["took"] for each in found]) < 10
    assert max(each["took"] for each in found) < 2000
    refusals = [refusal for each in shown[:100] if (refusal := python_refusal(each["world"]))]
    assert [each for each in refusals if "no site can be reached from the start" not in each] == []


def python_refusal(world: dict[str, Any]) -> str | None:
    """Why the package does not make a world that the page shows; None if it does."""
    try:
        World.from_json(json.dumps(world))
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "This is not JSON"),
        ("[]", "A world is a JSON object"),
        ('{"map": "..", "sites": [[0, 0]], "rewards": []}', "There are 1 sites, but 0 rewards."),
        ('{"map": "..", "sites": [[0, 5]], "rewards": [1]}', "The site [0, 5] is not a free cell of the map."),
        (
            '{"map": "..", "sites": [], "rewards": [], "discount": 1}',
            "“discount” must be a number from 0 to 0.9999, not 1.",
        ),
        ('{"map": "..", "sites": [], "rewards": [], "timing": "departure"}', "pay on arrival only"),
        ('{"map": "..\\n.", "sites": [], "rewards": []}', "same length"),
        (
            '{"map": "..", "sites": [], "rewards": [], "depletion": {"kind": "Listed", "values": [1]}}',
            "kinds Geometric",
        ),
        (
            '{"world": {"map": "..", "sites": [], "rewards": []}, "view": {"agents": [1, 2, 3, 4]}}',
            "at most three agents",
        ),
    ],
)
def test_the_sentence_names_the_culprit(calculator, text, sentence):
    (found,) = calculator.evaluate(READ, [{"text": text, "link": "#"}])
    assert sentence in found["refused"]


def test_page_and_package_agree_on_their_limits(calculator):
    limits = calculator.evaluate("() => wane.state.LIMITS")
    kinds = calculator.evaluate(
        "() => Object.entries(wane.depletion.KINDS).map(([kind, { fields }]) => [kind, fields])"
    )
    assert json.dumps(kinds) == json.dumps([*pages.KINDS.items()])
    ours = pages.MOST_CELLS, pages.MOST_SITES, pages.MOST_STEPS, pages.LARGEST_DISCOUNT, pages.LARGEST_REWARD
    assert tuple(limits[name] for name in ("side", "sites", "horizon", "discount", "reward")) == ours


def test_every_world_of_the_catalogue_opens(calculator):
    names = calculator.evaluate("""() => {
      const { catalogue } = JSON.parse(document.getElementById("data").textContent);
      return Object.entries(catalogue).map(([name, world]) => [name, wane.state.readWorld(world).sites.length]);
    }""")
    assert [name for name, _ in names] == worlds.names()
    assert [[name, make(name).n_sites] for name, _ in names] == names
