"""The page computes what the package computes, to 1e-9, on random worlds, curves and parameters."""

import jax
import numpy as np
import pytest

from explorer import cases
from wane.agents import gpi, planner
from wane.regrowth import TimeElapsed

COUNT = 200
ALL = """worlds => worlds.map(({ description, policy, kind, belief, seed }) => {
  const { world } = wane.state.readState(description), problem = wane.engine.makeProblem(world);
  const { grid, sites, rewards, depletion, discount } = problem, actions = wane.engine.viewedPolicy(problem, policy);
  const { Chain } = wane.representation, every = new Chain(grid, actions, discount);
  const few = new Chain(grid, actions, discount, sites);
  const numbers = sites.map((_, i) => i), paid = every.paid(depletion, every.sites.map(() => 0));
  const phi = every.sites.map((s) => [...wane.representation.row(every, paid, s)]);
  const values = [...wane.representation.values(few, few.paid(depletion, numbers), rewards, world.wallPenalty)];
  const [agent] = wane.engine.TASKS.agents({ world, agents: [{ kind, belief }], seed });
  const best = wane.engine.TASKS.best({ world, seed });
  return { phi, values, agent, best: best && { ...best, values: [...best.values] } };
})"""


def close(found, expected) -> bool:
    """Whether all numbers agree to 1e-9, relative to the largest of them."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-300)
    return found.shape == expected.shape and bool(np.abs(found - expected).max(initial=0.0) <= 1e-9 * scale)


@pytest.fixture(scope="module")
def answers(calculator):
    """(question, answer) of the page for random worlds, all in one call."""
    rng = np.random.default_rng(0)
    asked = []
    for _ in range(COUNT):
        description = cases.random_world(rng)
        policies = ["walk", *range(len(description["sites"]))]
        asked.append(
            {
                "description": description,
                "policy": policies[int(rng.integers(len(policies)))],
                "kind": ["paths", "walk"][int(rng.integers(2))],
                "belief": cases.BELIEFS[int(rng.integers(4))],
                "seed": int(rng.integers(1, 1000)),
            }
        )
    found = calculator.evaluate(ALL, asked)
    worlds = [cases.read(question["description"]) for question in asked]
    return list(zip(asked, worlds, found, strict=True))


def test_representations_and_values(answers):
    for question, world, answer in answers:
        policy, depletion = cases.policy_of(world, question["policy"]), world.depletion.at_sites(0)
        # The package has entries of 1e-16 in place of 0. Rewards that grow back take it long, so that only the columns
        # of the sites are compared.
        states = world.sites if isinstance(depletion, TimeElapsed) else np.arange(world.n_states)
        expected = cases.phi_of(world, policy, depletion, states)
        assert np.allclose(np.array(answer["phi"])[:, states], expected, rtol=1e-9, atol=1e-15), question
        assert close(answer["values"], cases.values_of(world, policy)), question


def test_actions_and_returns_of_agents(answers):
    slips = 0
    for question, world, answer in answers:
        act = cases.composing(world, question["kind"], question["belief"])
        expected, episode = cases.play(world, act, question["seed"]), answer["agent"]["episode"]
        assert episode["actions"] == expected["actions"], question
        assert episode["cells"] == expected["cells"], question
        assert close(episode["rewards"], expected["rewards"]), question
        assert close(episode["returns"][-1:], [expected["return"]]), question
        slips += world.slip > 0
    assert slips > 50


def test_the_optimum(answers):
    planned = 0
    for question, world, answer in answers:
        best = answer["best"]
        if isinstance(world.depletion, TimeElapsed):
            assert best is None
            continue
        expected = world.optimum(tolerance=best["tolerance"])
        assert close(best["values"], expected.values), question
        assert best["error"] == pytest.approx(expected.error, rel=1e-6, abs=1e-15), question
        played = cases.play(world, lambda t, cell, _, visits: expected.action(cell, visits, t), question["seed"])  # noqa: B023
        assert best["episode"]["actions"] == played["actions"], question
        assert close(best["episode"]["returns"][-1:], [played["return"]]), question
        planned += 1
    assert planned > 100


def test_leaving_times(answers):
    found = 0
    for question, world, answer in answers[:100]:
        if isinstance(world.depletion, TimeElapsed):
            assert all(stay["rule"] is None for stay in answer["agent"]["stays"])
            continue
        shown = [
            [*(stay[name] for name in ("site", "arrival", "steps", "censored")), *stay["rule"].values()]
            for stay in answer["agent"]["stays"]
        ]
        for stay, expected in zip(shown, cases.stays_of(world, answer["agent"]["episode"]), strict=True):
            assert expected is None or stay == expected, question
            found += expected is not None
    assert found > 50


def test_the_package_plays_the_same_episodes_by_its_own_roll_out(answers):
    certain = [each for each in answers if each[1].slip == 0 and each[0]["kind"] == "paths" and each[2]["best"]]
    for question, world, answer in certain[:1]:
        policies = [cases.policy_of(world, i) for i in range(world.n_sites)]
        belief = None if question["belief"] is None else cases.Geometric(question["belief"])
        phi = gpi.representations(world, policies, belief, timing="arrival")
        value = gpi.play_composed(jax.random.key(0), world, phi).value
        assert float(value) == pytest.approx(answer["agent"]["episode"]["returns"][-1], rel=1e-9)
    _, world, answer = next(each for each in certain if each[1].threshold is None)
    plan = planner.plan(world, tolerance=answer["best"]["tolerance"])
    played = planner.follow(jax.random.key(0)[None], world, plan)
    assert float(played.value[0]) == pytest.approx(answer["best"]["episode"]["returns"][-1], rel=1e-9)
