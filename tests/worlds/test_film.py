"""A world shows itself: pictures, films of episodes, and a few lines of text."""

import base64
import dataclasses
import io
import re
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

import wane
from wane.worlds import Map, World, make
from wane.worlds.film import Film, _Stage

CORRIDOR = World("#####\n#a.b#\n#####", sites="ab", rewards=[1.0, 2.0], start="a", discount=0.5, horizon=4)


class Episode(NamedTuple):
    cells: Any
    rewards: Any
    remaining: Any
    live: Any


def play(world, actions):
    """An episode of these actions, which stands still once it has ended."""
    state, live = world.reset(jax.random.key(0))[1], 1.0
    cells, rewards, remaining, lives = [state.cell], [], [world.remaining(state)], []
    for action in actions:
        _, moved, reward, terminated, _, info = world.step(None, state, action)
        state = moved if live else state
        cells.append(state.cell)
        rewards.append(float(reward) * live)
        remaining.append(info["remaining"] if live else remaining[-1])
        lives.append(live)
        live = 0.0 if terminated else live
    return Episode(np.array(cells), np.array(rewards), np.array(remaining), np.array(lives))


@pytest.mark.parametrize(
    ("timing", "returns"),
    [
        ("arrival", [0, 0, 0.25 * 2, 0.25 * 2 + 0.125 * 1, 0.25 * 2 + 0.125 * 1 + 0.0625 * 0.5]),
        ("departure", [0, 1, 1, 1 + 0.25 * 2, 1 + 0.25 * 2 + 0.125 * 1]),
    ],
)
def test_the_return_counts_as_the_world_pays(timing, returns):
    world = dataclasses.replace(CORRIDOR, timing=timing)
    film = world.film(play(world, [1, 1, 4, 4]))
    np.testing.assert_allclose(film.returns, returns)
    assert film.states.tolist() == [0, 1, 2, 2, 2]


def test_steps_that_are_not_live_are_not_shown(tmp_path):
    world = dataclasses.replace(CORRIDOR, threshold=1.5)
    episode = play(world, [1, 1, 4, 4])
    assert episode.live.tolist() == [1, 1, 0, 0]
    film = world.film(episode, tmp_path / "episode.gif", title="λ = ½", fps=20)
    assert film.states.tolist() == [0, 1, 2]
    assert film.remaining.tolist() == [[1, 2], [1, 2], [1, 1]]
    with Image.open(tmp_path / "episode.gif") as pictures:
        assert pictures.n_frames == 3
        assert [frame.info["duration"] for frame in ImageSequence.Iterator(pictures)] == [50, 50, 1050]


def test_without_a_path_a_film_shows_itself_and_can_be_saved(tmp_path):
    film = CORRIDOR.film(play(CORRIDOR, [1, 1, 4]), title='one < "two"')
    assert isinstance(film, Film)
    assert repr(film) == "Film(3 steps, title='one < \"two\"')"
    shown = film._repr_html_()
    assert 'alt="one &lt; &quot;two&quot;"' in shown
    data = base64.b64decode(re.search(r"base64,([^\"]+)", shown)[1])
    with Image.open(io.BytesIO(data)) as pictures:
        assert (pictures.format, pictures.n_frames) == ("GIF", 4)
    assert film.save(tmp_path / "new" / "film.gif").read_bytes() == data
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


def test_the_letters_of_sites_and_the_agent_are_painted():
    film = CORRIDOR.film(play(CORRIDOR, [1]))
    assert _Stage(film).colours == ["#D55E00", "#0072B2"]
    assert len(list(film.pictures())) == 2


def test_several_episodes_are_refused():
    one = play(CORRIDOR, [1, 1])
    with pytest.raises(ValueError, match=r"cells have shape \(2, 3\), so these are several episodes: film one of them"):
        CORRIDOR.film(Episode(*(np.stack([part, part]) for part in one)))


def test_a_world_draws_itself():
    rooms = make("four-rooms")
    figure = rooms.draw(policy=rooms.policies[0], title="to the goal")
    assert isinstance(figure, Figure)
    assert [label.get_text() for label in figure.axes[0].texts] == ["5", "10", "5"]
    assert figure.axes[0].get_title() == "to the goal"
    faded = rooms.draw(remaining=[2.5, 10, 0], values=np.arange(68), trajectory=[0, 1, 2])
    assert [label.get_text() for label in faded.axes[0].texts] == ["2.5", "10", "0"]
    assert len(rooms.draw(sites=[], rewards=[]).axes[0].texts) == 0, "what is given counts"
    with Image.open(io.BytesIO(rooms._repr_png_())) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300


def test_the_text_of_worlds_and_maps():
    assert repr(CORRIDOR.map) == 'Map("""\n#####\n#a.b#\n#####\n""")'
    assert eval(repr(CORRIDOR.map)).text == CORRIDOR.map.text == "#####\n#a.b#\n#####"
    assert isinstance(eval(repr(CORRIDOR.map)), Map)
    assert repr(CORRIDOR).splitlines() == [
        "World of 3 × 5 cells, 3 of them free",
        "  sites        (1, 1) pays 1, (1, 3) pays 2",
        "  depletion    Geometric(lam=0.5)",
        "  start        (1, 1)",
        "  discount     0.5",
        "  horizon      4",
    ]
    rooms = make("four-rooms", observation="index+remaining", n_actions=5, start=[0.5, 0.5, *[0.0] * 66])
    assert repr(rooms).splitlines()[2:] == [
        "  depletion    Geometric(lam=0.5)",
        "  start        one of 2 states",
        "  discount     0.97",
        "  wall_penalty 1",
        "  observation  index+remaining",
        "  horizon      40",
        "  threshold    0.1",
        "  policies     4",
    ]
    assert "and 12 more" in repr(make("open-field"))
    assert "sites        none" in repr(World("..", sites=[], rewards=[]))


def test_a_world_with_traced_settings_has_a_text():
    texts = []

    def trace(rewards, lam):
        texts.append(repr(dataclasses.replace(CORRIDOR, rewards=rewards, depletion=wane.Geometric(lam), discount=lam)))
        return lam

    jax.jit(trace)(np.ones(2), 0.5)
    assert "sites        (1, 1), (1, 3)" in texts[0]
