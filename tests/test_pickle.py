"""Every public object can be pickled by the plain pickler and copied, and its copy does what it does."""

import copy
import pickle
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
import wane.worlds.gym
from agents.test_contract import KEY, ROOMS, config_of, untrained
from wane.agents.common.contract import names
from wane.agents.common.policy import uniforms
from wane.agents.common.rollout import Episode
from wane.agents.forward_backward.acting import _choose_equivalent
from wane.foraging.optimal import imagining
from wane.worlds import Seen, TopDownView, make
from wane.worlds.gym import Environment, VectorEnvironment
from wane.worlds.simulate import Copies

AGAIN = {"pickle": lambda each: pickle.loads(pickle.dumps(each)), "deepcopy": copy.deepcopy}


@pytest.fixture(params=AGAIN, scope="module")
def again(request):
    return AGAIN[request.param]


@pytest.mark.parametrize("observation", ["index+remaining", "one-hot+remaining+flat"])
def test_environments_go_on_where_the_original_stands(again, observation):
    settings = dict(length=5, slip=0.4, depletion=wane.TimeElapsed(0.5), observation=observation, horizon=5)
    single = Environment("corridor", **settings)
    checked = gymnasium.make("wane/Corridor-v0", **settings)
    vector = VectorEnvironment("corridor", num_envs=3, **settings)
    for env, action in ((single, 1), (checked, 1), (vector, [1, 3, 4])):
        env.reset(seed=0)
        env.step(action)
        twin = again(env)
        for _ in range(3):
            np.testing.assert_equal(twin.step(action), env.step(action))
        np.testing.assert_equal(twin.reset(), env.reset())


def test_an_environment_with_pictures_can_be_pickled():
    env = Environment("corridor", length=3, observation="top-down")
    env.reset(seed=0)
    env.step(1)
    np.testing.assert_equal(AGAIN["pickle"](env).step(4), env.step(4))


def test_worlds_and_what_is_made_of_them(again):
    rooms = make("four-rooms-7", depletion=wane.Hyperbolic(np.array([1.0, 2.0, 3.0])))
    uniform = np.full((rooms.n_states, 5), 0.2)
    optimum = rooms.optimum(wane.FirstVisits(1))
    phi = wane.representation(rooms.mdp.under(uniform), rooms.depletion, discount=0.9, sites=rooms.sites)
    np.testing.assert_array_equal(again(rooms).values(uniform), rooms.values(uniform))
    assert again(rooms.map).text == rooms.map.text
    np.testing.assert_array_equal(again(optimum).values, optimum.values)
    np.testing.assert_array_equal(again(phi).matrix, phi.matrix)
    np.testing.assert_array_equal(again(rooms.mdp).under(uniform).toarray(), rooms.mdp.under(uniform).toarray())
    batch = Copies(rooms, 2)
    batch.reset(np.array([0.1, 0.9]))
    assert again(batch).cell.tolist() == batch.cell.tolist()
    view = TopDownView(rooms.map, rooms.sites)
    for old, new in zip(*map(jax.tree.leaves, (view, again(view))), strict=True):
        np.testing.assert_array_equal(old, new)


def test_depletions(again):
    class Local(wane.Diminishing):
        def worth(self, visits):
            return 1 / (1 + visits)

    for depletion in (
        wane.Geometric(0.5),
        wane.Listed([1.0, 0.5]),
        wane.TotalTime(0.5, 0.9, "representation"),
    ):
        assert again(depletion) == depletion
    with pytest.raises(AttributeError, match="Local"):
        pickle.dumps(Local())  # A class inside of a function has no name that another process could look up.


@pytest.mark.parametrize("name", [name for name in names() if name != "sac"])  # sac acts in control tasks
def test_agents_and_their_policies_act_the_same(name):
    """They are not trained for it: what they would do is compared, at the start of an episode."""
    agent = untrained(name)
    policy = agent.policy()
    seen = (
        Seen(jnp.int32(3), jnp.array([5.0, 2.0, 1.0])) if f"{policy.observation}" == "index+remaining" else jnp.int32(3)
    )
    draws = policy.draw(KEY, 1)
    draw = None if draws is None else draws[0]
    action = policy.act(policy.params, policy.carry, seen, draw)[0]
    for twin in (AGAIN["pickle"](policy), AGAIN["pickle"](agent).policy(), copy.deepcopy(policy)):
        assert twin.act(twin.params, twin.carry, seen, draw)[0] == action


def test_other_policies_and_their_draws(again):
    imagined = imagining(np.ones((1, ROOMS.n_states, 5, 3)), 0.5, ROOMS)
    twin = again(imagined)
    assert twin.act(twin.params, twin.carry, jnp.int32(0), None)[1].time == 1
    np.testing.assert_array_equal(again(uniforms(2))(KEY, 3), uniforms(2)(KEY, 3))
    pickle.dumps(partial(_choose_equivalent, config_of("forward_backward"), 0.5, True))


def test_episodes_and_films(again):
    episode = Episode(np.array([0, 1]), np.array([1]), np.ones(1), np.ones((2, 3)), np.ones(1), np.ones(()))
    film = again(ROOMS).film(again(episode), title="twice")
    assert again(film).to_bytes() == film.to_bytes()
