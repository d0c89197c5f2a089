"""Compares the steps of `wane.worlds.simulate` with the compiled step of the same world, transition by transition."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

import wane
from wane.depletion import Depletion, Diminishing
from wane.worlds.observe import Seen
from wane.worlds.simulate import Copies, Single

DEPLETIONS = {
    "geometric": wane.Geometric(0.5),
    "first-visits": wane.FirstVisits(2),
    "hyperbolic": wane.Hyperbolic(0.7),
    "power-law": wane.PowerLaw(1.5),
    "listed": wane.Listed([1.0, 1.5, -0.25], tail=0.125),
    "time-elapsed": wane.TimeElapsed(0.5, rate=0.3),
    "eligibility": wane.EligibilityTrace(0.4, regrow=0.9),
    "eligibility-representation": wane.EligibilityTrace(0.4, regrow=0.9, equation="representation"),
    "total-time": wane.TotalTime(0.3, regrow=0.95),
    "total-time-representation": wane.TotalTime(0.3, regrow=0.95, equation="representation"),
}


class Exponential(Diminishing):
    """A curve that is written with JAX only."""

    def worth(self, visits):
        return jnp.exp(-0.3 * visits)


class SlowStart(Diminishing):
    """A curve whose visits count double, so that its visits are not those that a table would count."""

    def worth(self, visits):
        return 1 / (1 + visits) ** 2

    def visit(self, visits):
        return visits + 2


class Meadow(Depletion):
    """Grass that grows back towards 1, and what was ever eaten. It is written for JAX arrays only."""

    def initial(self, shape=()):
        return {"grass": np.ones(shape), "eaten": np.zeros(shape)}

    def worth(self, memory):
        return jnp.sqrt(memory["grass"]) / (1 + memory["eaten"])

    def visit(self, memory):
        bite = jax.lax.mul(0.5, memory["grass"])
        return {"grass": memory["grass"] - bite, "eaten": memory["eaten"] + bite}

    def wait(self, memory):
        return {"grass": memory["grass"].at[...].add(0.1 * (1 - memory["grass"])), "eaten": memory["eaten"]}


DEPLETIONS |= {
    "written-in-jax": Exponential(),
    "own-visits": SlowStart(),
    "only-jax-arrays": Meadow(),
    "jax-parameters": wane.EligibilityTrace(jnp.array(0.4), regrow=jnp.array(0.9)),
}
NUMPY_VIEWS = ["index", "one-hot", "cell", "symbolic"]
OBSERVATIONS = [view + end for view in NUMPY_VIEWS for end in ("", "+remaining", "+flat", "+remaining+flat")]


def as_numpy(seen):
    """An observation of a world as Gymnasium has it."""
    return {"view": seen.view, "remaining": seen.remaining} if isinstance(seen, Seen) else seen


def assert_close(actual, expected, what):
    """Trees of the same structure are equal up to rounding, and in 32 bits where one of them is in 32 bits."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected), what
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        single = np.float32 in (a.dtype, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-6 if single else 1e-12, atol=1e-7 if single else 1e-14, err_msg=what)


def stack(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def play(world, copies, steps, seed):
    """Random steps of a batch and of as many single worlds, which must agree. Returns all transitions of the batch."""
    rng, batch, singles = np.random.default_rng(seed), Copies(world, copies), [Single(world) for _ in range(copies)]
    starts, transitions = rng.random(copies), []
    batch.reset(starts)
    for single, draw in zip(singles, starts, strict=True):
        single.reset(draw)
    resets = [(starts, stack([single.state for single in singles]), batch.observe())]
    for _ in range(steps):
        before, actions, draws = batch.state, rng.integers(0, world.n_actions, copies), rng.random((copies, 2))
        outcome = *batch.step(actions, draws), batch.observe(), batch.remaining, batch.state
        alone = []
        for single, action, draw in zip(singles, actions.tolist(), draws, strict=True):
            alone.append((*single.step(action, draw), single.observe(), single.remaining, single.state))
        assert_close(stack(alone), outcome, "one world beside a batch")
        transitions.append((before, actions, draws, outcome))
        done = outcome[1] | outcome[2]
        if done.any():
            starts = rng.random(copies)
            batch.reset(starts[done], done)
            for i in np.flatnonzero(done):
                singles[i].reset(starts[i])
    return resets, transitions


def assert_steps_like_the_compiled_world(world, copies=4, steps=30, seed=0):
    """Every step of the simulation is the step of the compiled world for the same draws."""
    resets, transitions = play(world, copies, steps, seed)

    # A program that runs once is better compiled in a hurry.
    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def compiled(draws, state, action, uniforms):
        def step(state, action, uniforms):
            seen, after, reward, terminated, truncated, info = world._step(uniforms, state, action)
            return reward, terminated, truncated, info["site"], as_numpy(seen), info["remaining"], after

        seen, start = jax.vmap(world._reset)(draws)
        return as_numpy(seen), start, jax.vmap(jax.vmap(step))(state, action, uniforms)

    (starts, start, seen), before = resets[0], stack([each[:3] for each in transitions])
    expected_seen, expected_start, expected = compiled(starts, *before)
    assert_close(seen, expected_seen, "the first observation")
    assert_close(start, expected_start, "the start")
    names = "reward", "terminated", "truncated", "site", "observation", "remaining", "state"
    actual = stack([each[3] for each in transitions])
    for name, ours, theirs in zip(names, actual, expected, strict=True):
        assert_close(ours, theirs, f"{name} of {world}")
    return transitions


def variety(number, world):
    """The settings of one case: what they are in turn, so that a list of cases sees all of them."""
    sites = np.isin(np.arange(world.n_states), world.sites) / world.n_sites
    return dict(
        start=0.8 * sites + 0.2 / world.n_states,  # mostly at a site, so that there are visits
        slip=(0.0, 0.3, 1.0)[number % 3],
        observation=OBSERVATIONS[number % len(OBSERVATIONS)],
        timing=("arrival", "departure")[number // 2 % 2],
        threshold=(None, 0.6 * float(np.max(world.rewards)))[number % 4 == 1],
        horizon=(9, None)[number % 5 == 2],
        n_actions=(5, 4)[number % 7 == 3],
        wall_penalty=(0.0, 0.75)[number // 3 % 2],
        policies=(),
    )


def cases(worlds, depletions):
    """Each world with each depletion, numbered."""
    return list(enumerate(itertools.product(worlds, depletions)))
