"""Simulations load neither a plotting library nor Gymnasium, which knows every world in whatever order one imports."""

import subprocess
import sys

import pytest

from wane import worlds

HEAVY = ("gymnasium", "matplotlib", "pandas", "PIL")


def run(code):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_and_simulating_loads_nothing_heavy():
    loaded = run(f"""
import sys, jax, wane.worlds
world = wane.worlds.make("corridor", observation="first-person", length=3)
world.step(None, world.reset(jax.random.key(0))[1], 1)
world.optimum, world.values([0] * 3), repr(world), wane.worlds.describe.describe(world)
wane.worlds.register("my-line", lambda **settings: world)
print(*[name for name in {HEAVY} if name in sys.modules])
""")
    assert loaded == []


def test_gymnasium_learns_of_worlds_that_were_registered_before_it_was_loaded():
    printed = run("""
import wane.worlds
wane.worlds.register("my-line", lambda **settings: wane.worlds.make("corridor", **settings))
import gymnasium
print(gymnasium.make("wane.worlds.gym:wane/MyLine-v0", length=5).observation_space.n)
print("wane/FourRooms-v0" in gymnasium.registry)
""")
    assert printed == ["5", "True"]


def test_gymnasium_learns_of_worlds_that_are_registered_after_it_was_loaded():
    printed = run("""
import gymnasium, wane.worlds
wane.worlds.register("my-line", lambda **settings: wane.worlds.make("corridor", **settings))
print(gymnasium.make("wane/MyLine-v0", length=5).observation_space.n)
""")
    assert printed == ["5"]


def test_all_names_are_there():
    for name in worlds.__all__:
        assert getattr(worlds, name) is not None
    assert set(worlds.__all__) <= set(dir(worlds))
    assert worlds.draw.draw_map.__module__ == "wane.worlds.draw"
    assert worlds.gym.Environment is worlds.Environment
    with pytest.raises(AttributeError, match="module 'wane.worlds' has no attribute 'Environments'"):
        _ = worlds.Environments
