"""A field of 10¹² cells: the same in NumPy and in JAX, played and computed alike, and never built."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.testing import check_world
from wane.worlds import EndlessField, make


@pytest.mark.parametrize(
    "settings",
    [
        dict(horizon=20),
        dict(slip=0.2, timing="departure", horizon=20, observation="cell"),
        dict(depletion=wane.TotalTime(0.6, 0.95), observation=lambda field, state: state.time, horizon=20),
        dict(rows=3, columns=2**31 - 2, sites=0.5, observation="window:2", horizon=20),
    ],
)
def test_it_keeps_the_contract(settings):
    check_world(make("endless-field", **settings))


def test_numpy_and_jax_see_the_same_field():
    field = EndlessField(seed=7, walls=0.3, sites=0.1)
    cells = np.stack(np.meshgrid(np.arange(-3, 200), np.arange(999_800, 1_000_003), indexing="ij"), axis=-1)
    for look in (field.is_free, field.is_site):
        np.testing.assert_array_equal(look(cells), look(jnp.asarray(cells, jnp.int32)))
    inside = np.all((cells >= 0) & (cells < 10**6), axis=-1)
    assert not field.is_free(cells)[~inside].any()
    assert abs(field.is_free(cells)[inside].mean() - 0.7) < 0.01
    assert abs(field.is_site(cells)[inside].sum() / field.is_free(cells).sum() - 0.1) < 0.01
    other = EndlessField(seed=8, walls=0.3, sites=0.1)
    assert np.mean(other.is_free(cells)[inside] == field.is_free(cells)[inside]) < 0.65


@pytest.mark.parametrize("timing", ["arrival", "departure"])
def test_values_are_those_of_a_part_that_is_large_enough(timing):
    """From the middle of 61 × 61 cells, γ = 0.8 hardly reaches the border."""
    field = EndlessField(seed=1, sites=0.1, discount=0.8, timing=timing, slip=0.1, depletion=wane.Hyperbolic(1.0))
    top, left = np.array(field.start) - 30
    part = dataclasses.replace(field.window(int(top), int(left), 61, 61), horizon=None)
    starts = np.array([field.start, (field.start[0], field.start[1] + 1)])
    states = [part.map.state(*cell) for cell in starts - (top, left) + 1]
    truth = part.values(np.full((part.n_states, 5), 0.2))[states]
    found = field.values("uniform", at=starts, tolerance=1e-8)
    assert found.width <= 1e-8
    assert np.all((found.lower - 1e-9 <= truth) & (truth <= found.upper + 1e-9))
    right = field.values(lambda cells: np.full(len(cells), 1), at=starts, tolerance=1e-6)
    assert np.all(np.abs(right.values - part.values(np.full(part.n_states, 1))[states]) <= 1e-6)


def test_episodes_earn_what_the_values_say():
    field = EndlessField(seed=2, sites=0.15, discount=0.9, slip=0.2, horizon=100, observation="cell")
    found = field.values("uniform", tolerance=1e-6)

    def episode(key):
        def step(state, key):
            act, move = jax.random.split(key)
            _, state, reward, *_ = field.step(move, state, jax.random.randint(act, (), 0, 5))
            return state, reward

        rewards = jax.lax.scan(step, field.reset()[1], jax.random.split(key, 100))[1]
        return (0.9 ** jnp.arange(1, 101) * rewards).sum()

    returns = np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 4000)))
    assert abs(returns.mean() - found.values[0]) <= 5 * returns.std() / np.sqrt(len(returns))


def test_the_size_of_the_field_does_not_matter():
    start = (500, 500)
    found = [
        EndlessField(side, side, seed=4, start=start, discount=0.9).values(tolerance=1e-8) for side in (10**3, 10**6)
    ]
    assert found[0].touched == found[1].touched
    assert found[0].lower[0] == found[1].lower[0]


def test_a_walk_back_and_forth_wears_a_site_off():
    field = EndlessField(seed=5, sites=0.2, reward=2.0)
    around = np.array(field.start) + np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
    field = next(
        each for seed in range(50) if (each := dataclasses.replace(field, seed=seed)).is_site(around).sum() == 1
    )
    there = int(np.argmax(field.is_site(around)))
    _, state = field.reset()
    paid = []
    for action in (there, (there + 2) % 4, there):
        _, state, reward, *_ = field.step(None, state, action)
        paid.append(float(reward))
    assert paid == [2.0, 0.0, 1.0]
    assert int((state.visited[:, 0] >= 0).sum()) == 1


def test_gymnasium_and_pictures(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make("wane.worlds.gym:wane/EndlessField-v0", slip=0.1).unwrapped, skip_render_check=True)
    env = gymnasium.make("wane.worlds.gym:wane/EndlessField-v0", render_mode="ansi", observation="cell").unwrapped
    env.reset(seed=0)
    assert env.render().count("@") == 1
    env.render_mode = "rgb_array"
    assert env.render().shape == (13 * 16, 13 * 16, 3)
    with pytest.raises(ValueError, match="begins in a free"):
        env.reset(options={"state": (-1, 0)})
    field, states, rewards = env.world, [], []
    _, state = field.reset()
    for action in (0, 1, 1, 2, 3):
        states.append(state)
        _, state, reward, *_ = field.step(None, state, action)
        rewards.append(reward)
    field.film([*states, state], rewards, tmp_path / "walk.gif")
    assert (tmp_path / "walk.gif").stat().st_size > 1000
    assert field.window(10**5, 10**5, 20, 30).map.shape == (22, 32)


def test_walls_have_no_value():
    with pytest.raises(ValueError, match=r"cell \(-1, 3\) is a wall or beyond the border"):
        EndlessField().values(at=[(-1, 3)])
    with pytest.raises(ValueError, match="successors raised ValueError at state -5: there is a wall"):
        wane.evaluate_local(EndlessField(), {-5: 1.0}, wane.Geometric(0.5), discount=0.9, at=[-5], policy="uniform")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(rows=2), "rows must lie between"),
        (dict(columns=2**40), "columns must lie between"),
        (dict(walls=1.5), "walls must lie in"),
        (dict(start=(-1, 4)), "start is a"),
        (dict(horizon=None), "a field needs a horizon"),
        (dict(observation="pixels"), 'a field shows "window"'),
        (dict(timing="later"), "timing"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make("endless-field", **settings)
