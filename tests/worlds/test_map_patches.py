"""A site of a map may have several cells: one reward, which a visit to any of them pays and wears off."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.patches import Circle

import wane
from stepping import assert_steps_like_the_compiled_world
from wane import explorer, foraging
from wane.agents import a2c, gpi, lambda_features, policy_iteration, q_lambda, q_learning
from wane.agents.common.policy import Policy, sample_action, uniforms
from wane.agents.common.rollout import play
from wane.testing import check_world
from wane.worlds import Environment, Index, Map, MDPWorld, TopDownView, VectorEnvironment, World
from wane.worlds.gym import text
from wane.worlds.pixels import FirstPersonView

MAP = Map("""
    ########
    #a.#..a#
    #..a.b.#
    ########
""")
DEPLETIONS = [wane.Geometric([0.5, 0.8]), wane.FirstVisits(2), wane.Hyperbolic(1.0), wane.EligibilityTrace(0.5, 0.6)]


def world(**settings):
    defaults = dict(sites="ab", rewards=[1.0, 2.0], start="b", discount=0.8, horizon=6, wall_penalty=0.25)
    return World(MAP, **(defaults | settings))


def random_policy(room, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(room.n_actions, 0.3), room.n_states)


@pytest.mark.parametrize(
    "sites",
    [
        "ab",
        ["a", "b"],
        [{(1, 1), (1, 6), (2, 3)}, "b"],
        [{MAP.state(1, 1), (1, 6), (2, 3)}, {"b"}],
        [frozenset({0, 4, 7}), 9],
    ],
)
def test_a_patch_is_a_letter_on_several_cells_or_a_set_of_places(sites):
    room = world(sites=sites)
    assert room.sites == (frozenset({0, 4, 7}), frozenset({9}))
    assert [states.tolist() for states in room.patches] == [[0, 4, 7], [9]]
    assert room.site_of.tolist() == [0, -1, -1, -1, 0, -1, -1, 0, -1, 1, -1]
    assert "{(1, 1), (1, 6), (2, 3)} pays 1, (2, 5) pays 2" in f"{room}"


def test_a_site_of_one_cell_is_kept_as_before():
    room = World(MAP, sites=[{"b"}, (1, 1)], rewards=[1.0, 1.0])
    assert room.sites.tolist() == [9, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(sites=[{(1, 1), "b"}, "b"]), "state 9 belongs to two sites"),
        (dict(sites=[set(), "b"]), "site 0 is an empty set"),
        (dict(sites=[{(0, 0)}, "b"]), r"cell \(0, 0\) is a wall"),
        (dict(sites=".b"), "stands 7 times on the map, but it must appear once"),
        (dict(sites="#b"), "stands 21 times on the map"),
        (dict(start="a"), "'a' stands 3 times on the map"),
    ],
)
def test_wrong_patches_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        world(**settings)


@pytest.mark.parametrize("timing", ["arrival", "departure"])
@pytest.mark.parametrize("depletion", DEPLETIONS)
def test_values_are_those_of_the_same_mdp(depletion, timing):
    """`tests/worlds/test_patches.py` compares a world on an MDP with the definition."""
    room = world(depletion=depletion, timing=timing, slip=0.2, wall_penalty=0.0)
    twin = MDPWorld(
        room.mdp, sites=room.sites, rewards=room.rewards, depletion=depletion, timing=timing, discount=0.8, horizon=6
    )
    policy = random_policy(room)
    np.testing.assert_allclose(room.values(policy), twin.values(policy), atol=1e-12)
    np.testing.assert_allclose(room.q_values(policy), twin.q_values(policy), atol=1e-12)
    best = room.optimum()
    np.testing.assert_allclose(best.values, twin.optimum().values, atol=2 * best.error + 1e-9)


@pytest.mark.parametrize("depletion", DEPLETIONS[:3])
def test_endless_values_are_those_of_the_patch_representation(depletion):
    room = world(depletion=depletion, timing="departure", horizon=None, wall_penalty=0.0)
    policy = random_policy(room)
    phi = wane.patch_representation(room.mdp.under(policy), room.patches, depletion, discount=room.discount)
    np.testing.assert_allclose(room.values(policy), phi.matrix @ room.rewards, atol=1e-8)


@pytest.mark.parametrize("timing", ["arrival", "departure"])
@pytest.mark.parametrize("depletion", DEPLETIONS[1:])
def test_what_is_played_is_what_is_computed_and_no_policy_beats_the_optimum(depletion, timing):
    room = world(depletion=depletion, timing=timing, slip=0.1, wall_penalty=0.25 if timing == "arrival" else 0.0)
    policies = np.stack([random_policy(room, seed) for seed in range(4)])

    def act(cumulated, carry, cell, numbers):
        return sample_action(cumulated[cell], numbers[0]), carry, None

    def value(cumulated, key):
        return play(key, room, Policy(act, cumulated, draw=uniforms(1), observation="index"))[1].value

    keys = jax.random.split(jax.random.key(0), 4000)
    found = jax.jit(jax.vmap(jax.vmap(value, (None, 0)), (0, None)))(jnp.asarray(np.cumsum(policies, -1)), keys)
    best, start = room.optimum(), room.map.find("b")
    for policy, returns in zip(policies, np.asarray(found), strict=True):
        exact = room.values(policy)
        assert abs(returns.mean() - exact[start]) < 4.5 * returns.std() / 4000**0.5
        assert np.all(exact <= best.values + best.error + 1e-9)


@pytest.mark.parametrize("timing", ["arrival", "departure"])
def test_the_world_keeps_its_contract(timing):
    check_world(world(timing=timing, depletion=wane.Hyperbolic(1.0)))


@pytest.mark.parametrize(
    ("depletion", "observation"),
    [(wane.Hyperbolic(0.7), "symbolic+remaining"), (wane.EligibilityTrace(0.4, 0.9), "index+remaining+flat")],
)
def test_the_simulation_steps_like_the_compiled_world(depletion, observation):
    steps = assert_steps_like_the_compiled_world(world(depletion=depletion, observation=observation, start="uniform"))
    assert any((outcome[3] == 0).any() for *_, outcome in steps), "no visit to the patch was tested"


def test_a_visit_to_one_cell_wears_off_the_reward_of_all():
    env = Environment(world(start=(1, 1), depletion=wane.Geometric(0.5)), render_mode="ansi")
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in (4, 4, 2, 1)]
    assert rewards == [1.0, 0.5, 0.0, 0.0]
    assert env.step(1)[1] == 0.25, "a third visit, to another cell"
    used_up = dataclasses.replace(env.world, depletion=wane.FirstVisits(1))
    _, state = used_up.begin((1, 2))
    assert text(used_up, state).splitlines()[1:3] == ["#0@#..0#", "#..0.1.#"]
    _, state, *_ = used_up.step(None, state, 3)
    assert text(used_up, state).splitlines()[1:3] == ["#@.#...#", "#....1.#"]


def test_gymnasium_shows_what_remains_of_each_site():
    batch = VectorEnvironment(world(start=(1, 1), observation=Index(remaining=True)), num_envs=3)
    batch.reset(seed=0)
    seen, rewards, *_, info = batch.step([4, 4, 1])
    assert rewards.tolist() == [1.0, 1.0, 0.0]
    assert seen["remaining"].tolist() == [[0.5, 2.0], [0.5, 2.0], [1.0, 2.0]]
    assert info["site"].tolist() == [0, 0, -1]
    assert batch.observation_space.contains(seen)


def test_a_patch_is_drawn_in_all_its_cells():
    room = world()
    circles = [
        patch for patch in room.draw().axes[0].patches if isinstance(patch, Circle) and patch.get_gid() == "site"
    ]
    assert sorted(circle.center for circle in circles) == [(1, 1), (3, 2), (5, 2), (6, 1)]
    assert len({circle.get_edgecolor() for circle in circles}) == 2
    assert [label.get_text() for label in room.draw().axes[0].texts] == ["1", "2"]
    picture = np.asarray(TopDownView(MAP, room.sites).frame(9, 0, jnp.array([0.5, 1.0]))).astype(int)
    bare = np.asarray(TopDownView(MAP, []).frame(9, 0, jnp.zeros(0))).astype(int)
    changed = np.abs(picture - bare).reshape(4, 8, 8, 8, 3).max((1, 3, 4)) > 20
    assert np.argwhere(changed).tolist() == [[1, 1], [1, 6], [2, 3], [2, 5]]


def test_first_person_views_show_all_cells_of_a_patch():
    hall = Map("#######\n#.a.a.#\n#######")
    one, both, none = (FirstPersonView(hall, sites, size=32) for sites in ([1], [{1, 3}], []))
    right, left, middle, fraction = 1, 3, 2, jnp.array([0.7])
    np.testing.assert_array_equal(both.frame(middle, left, fraction), one.frame(middle, left, fraction))
    np.testing.assert_array_equal(one.frame(middle, right, fraction), none.frame(middle, right, jnp.zeros(0)))
    mirrored = np.asarray(both.frame(middle, right, fraction)), np.asarray(none.frame(middle, right, jnp.zeros(0)))
    assert np.abs(mirrored[0].astype(int) - mirrored[1]).max() > 50
    cast = FirstPersonView(hall, [{1, 3}], size=32, cache=False)
    for state in range(5):
        np.testing.assert_array_equal(both.frame(state, right, fraction), cast.frame(state, right, fraction))


def test_a_film_shows_all_cells_of_a_patch():
    room = world(horizon=4)
    episode = play(jax.random.key(0), room, Policy(lambda params, carry, seen, key: (jnp.int32(0), carry, None)))[1]
    film = room.film(episode)
    pictures = list(film.pictures())
    assert len(pictures) == 5
    assert [states.tolist() for states in film.patches] == [[0, 4, 7], [9]]


def test_patches_as_data():
    room = world()
    data = json.loads(room.to_json())
    assert data["sites"] == [{"states": [0, 4, 7]}, {"states": [9]}]
    assert World.from_json(room.to_json()).sites == room.sites
    assert World.from_json(json.dumps(data | {"sites": "ab"})).sites == room.sites
    again = dataclasses.replace(room, horizon=9)
    assert again.sites == room.sites


def test_agents_with_tables_learn_one_column_for_a_patch():
    room = world(wall_penalty=0.0)
    state, _ = q_lambda.train(jax.random.key(0), room, q_lambda.Config(episodes=5))
    assert state.phi.shape == (11, 5, 2)
    state, _ = q_learning.train(jax.random.key(0), room, q_learning.Config(episodes=5))
    assert state.q.shape == (11, 5)


def test_an_actor_critic_has_one_feature_for_a_patch():
    room = world(observation="index+remaining", horizon=5)
    small = dict(hidden=4, environments=2, length=3, epochs=1, updates=1)
    names = {field.name for field in dataclasses.fields(a2c.Config)}
    config = a2c.Config(**{name: value for name, value in small.items() if name in names}, features="sites")
    a2c.train(jax.random.key(0), room, config)
    with pytest.raises(ValueError, match='site 0 has 3 states, and a2c with features="cells" instead of "sites"'):
        a2c.train(jax.random.key(0), room, dataclasses.replace(config, features="cells"))


def test_what_cannot_be_done_with_a_patch_is_refused_in_a_sentence():
    room = world(policies=[np.zeros(11, int)])
    needs = "site 0 has 3 states, and {} needs sites of one state each"
    with pytest.raises(ValueError, match=needs.format("GPI")):
        gpi.representations(room)
    with pytest.raises(ValueError, match=needs.format("policy iteration")):
        policy_iteration.train(jax.random.key(0), room, policy_iteration.Config())
    with pytest.raises(ValueError, match=needs.format("an agent with λ-features")):
        lambda_features.init(jax.random.key(0), room, lambda_features.Config())
    with pytest.raises(ValueError, match="the explorer shows worlds with sites of one cell each"):
        explorer.explore(room)
    with pytest.raises(ValueError, match=needs.format("composing policies")):
        foraging.overstaying(room, [0.5], agent="gpi")


def test_trajectories_of_foragers_number_the_patches():
    table = foraging.table_from_rollout(world(), [[1, 0, 0, 5]], [[1.0, 0.5, 0.0]])
    assert table["site"].fillna(-1).tolist() == [0, 0, -1]
