"""What would take too much memory is refused before it is allocated, in words that name the sizes and the cure."""

import re
import tracemalloc
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import wane
from chains import CHAINS
from wane import limits
from wane.agents import Trained, learned_operator, q_learning, sac
from wane.agents.common.driving import drive
from wane.agents.common.policy import Policy
from wane.exact import DenseLU, SparseLU, bounds, occupancy, renewal_representation
from wane.lab.runs.evaluation import evaluate
from wane.worlds import make
from wane.worlds.control import ControlTask
from wane.worlds.grid import Map


def ring(n):
    states = np.arange(n)
    ends = np.concatenate([(states + 1) % n, (states - 1) % n])
    return sparse.csr_array((np.full(2 * n, 0.5), (np.tile(states, 2), ends)), shape=(n, n))


def two_ways(n):
    states = np.arange(n)
    return wane.MDP(np.stack([(states + 1) % n, (states - 1) % n], axis=1))


def scattered(n):
    """A chain without a narrow separator, whose factors fill up."""
    rng = np.random.default_rng(0)
    return sparse.csr_array(
        (np.full(4 * n, 0.25), (np.repeat(np.arange(n), 4), rng.integers(0, n, 4 * n))), shape=(n, n)
    )


def uniform(n):
    return jnp.full((n, n), 1 / n)


def agent_in(world):
    config = q_learning.Config(episodes=1)
    return Trained("q_learning", world, config, q_learning.init(KEY, world, config))


KEY = jax.random.key(0)
HALF = wane.Geometric(0.5)
ALL = np.arange(3000)
ZEROS = np.broadcast_to(np.float64(0), (3000, 3000))
CASES = {
    "representation": (lambda: wane.representation(ring(3000), HALF, discount=0.9), "name fewer `sites`, or call"),
    "λR": (lambda: wane.lambda_representation(ring(3000), 0.5, discount=1.0), "name fewer `sites`"),
    "SR": (lambda: wane.successor_representation(ring(3000), discount=0.9), "wane.evaluate"),
    "grows back": (lambda: wane.representation(ring(3000), wane.TimeElapsed(0.5), discount=0.9), "name fewer `sites`"),
    "trace": (lambda: wane.representation(ring(3000), wane.EligibilityTrace(0.5, 0.5), discount=0.9), "`sites`"),
    "renewal": (lambda: renewal_representation(ring(3000), HALF, discount=0.9), "name fewer `sites`"),
    "iterate": (lambda: wane.iterate(ring(3000), 0.5, discount=0.9), "the iteration needs .* name fewer `sites`"),
    "state–action": (lambda: two_ways(3000).backup(ZEROS), "the state–action table needs .*q_values"),
    "patch": (
        lambda: wane.patch_representation(ring(3000), [ALL[:1500]], wane.FirstVisits(3), discount=0.9),
        "3000 states × 1500 states that count × 8 bytes .* use Geometric",
    ),
    "subadditivity": (
        lambda: bounds.subadditivity(ring(3000), ALL[:999], ALL[999:], wane.Hyperbolic(1.0), discount=0.9),
        "a patch needs",
    ),
    "growing patch": (
        lambda: wane.patch_representation(ring(300), [[0]], wane.TimeElapsed(0.5), discount=0.9, grid=10**6),
        r"600 transitions × 1000000 memories × 8 bytes × 6 arrays.*a smaller `grid`",
    ),
    "rooms": (lambda: make("four-rooms", size=10**6 + 1), "a map needs .* make a smaller map"),
    "corridor": (lambda: make("corridor", length=10**9), "a map needs .* make a smaller map"),
    "open field": (lambda: make("open-field", rows=10**5, columns=10**6), "a map needs .* make a smaller map"),
    "map": (lambda: Map(".....\n" * 10**5), "a map needs .* make a smaller map"),
    "optimum": (lambda: wane.optimum(two_ways(3000), np.ones(3000), HALF, discount=0.9), "fewer sites"),
    "its policy": (
        lambda: wane.optimum(two_ways(300), [1.0], HALF, discount=0.9, sites=[0], horizon=10**6),
        "the optimal policy needs .* a shorter `horizon`",
    ),
    "a curve": (
        lambda: wane.optimum(two_ways(2), [1.0], wane.Hyperbolic(1.0), discount=1.0, sites=[0], horizon=9_000_000),
        "needs about .* a shorter `horizon`",
    ),
    "episodes": (lambda: evaluate(agent_in(make("toy", horizon=10**9))), "100 episodes × 1000000000 steps.* shorter"),
    "an episode": (lambda: agent_in(make("toy", horizon=10**7)).play(KEY), "playing needs .* a shorter horizon"),
    "a task": (
        lambda: drive(KEY, ControlTask("Pendulum-v1", 10**9), Policy(max), 1, 0.9),
        "playing needs .* shorter horizon",
    ),
    "networks": (
        lambda: sac.init(KEY, ControlTask("Pendulum-v1"), sac.Config(hidden=(10**6, 10**6), replay=9, batch=1)),
        "a layer of a network needs .* 1000000 outputs .* make the layers smaller",
    ),
    "a learned operator": (
        lambda: learned_operator.init(KEY, make("toy"), learned_operator.Config(width=10_000)),
        "10000 inputs × 10000 outputs .* make the layers smaller",
    ),
    "dense LU": (
        lambda: wane.representation(ring(3000), HALF, discount=0.9, sites=[0], method="dense"),
        "dense LU needs .* pass a sparse kernel",
    ),
    "dense kernel": (lambda: DenseLU().solve(wane.exact.system.System(ring(3000), 0.9, None), None), "dense LU needs"),
    "sparse LU": (
        lambda: wane.representation(scattered(3000), HALF, discount=0.9, sites=[0], method=SparseLU()),
        "sparse LU needs .* entries of the factors × 12 bytes.*krylov",
    ),
    "trace in JAX": (
        lambda: wane.representation(uniform(200), wane.EligibilityTrace(0.5, np.linspace(0.1, 0.9, 200)), discount=0.9),
        "a dense system for each site needs .* pass a NumPy or sparse kernel",
    ),
    "total time in JAX": (
        lambda: wane.representation(uniform(200), wane.TotalTime(0.5, 0.9), discount=0.5),
        "a dense system for each site needs .* pass a NumPy or sparse kernel",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_too_large(name, monkeypatch):
    monkeypatch.setenv("WANE_MEMORY_GIB", "0.05")
    call, message = CASES[name]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message) as caught:
            call()
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
    assert re.search(
        r"needs about .* GiB of memory \(.* bytes?.*\), and the limit is 0.05 GiB: .*WANE_MEMORY_GIB", str(caught.value)
    )


def test_a_hundred_thousand_cells():
    """A world with a start takes no more memory than a few tables of its cells."""
    tracemalloc.start()
    world = make("corridor", length=100_000)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert world.start.sum() == world.start[50_000] == 1


def test_a_hundred_thousand_sites():
    with pytest.raises(ValueError, match="100000 states × 100000 sites × 8 bytes × 4 arrays"):
        wane.representation(ring(100_000), HALF, discount=0.9)


def test_evaluate_works_in_blocks(monkeypatch):
    """It is the cure that the refusal names."""
    rewards, build, solved = np.random.default_rng(0).random(600), wane.exact.representations.build, []

    def noted(depletion, kernel, discount, sites, method):
        solved.append(len(sites))
        return build(depletion, kernel, discount, sites, method)

    for depletion in (HALF, wane.Hyperbolic(np.linspace(0.1, 2, 600))):
        whole = wane.evaluate(ring(600), rewards, depletion, discount=0.9)
        monkeypatch.setenv("WANE_MEMORY_GIB", "0.004")
        monkeypatch.setattr(wane.exact.representations, "build", noted)
        np.testing.assert_allclose(wane.evaluate(ring(600), rewards, depletion, discount=0.9), whole, rtol=1e-12)
        assert sum(solved) == 600
        assert len(solved) > 2
        solved.clear()
        monkeypatch.undo()


def test_curves_of_many_sites_are_summed_in_parts(monkeypatch):
    d = np.linspace(1, 5, 11)
    for curve in (wane.Hyperbolic(np.linspace(0.1, 3, 11)), wane.PowerLaw(2.0), wane.Listed([1.0, 0.5], tail=0.1)):
        whole = wane.equivalent_rewards(np.ones(11), curve, d, np.arange(11))
        monkeypatch.setattr(occupancy, "_SITES_AT_ONCE", 4)
        monkeypatch.setattr(wane.depletion, "_TERMS_AT_ONCE", 5)
        np.testing.assert_allclose(wane.equivalent_rewards(np.ones(11), curve, d, np.arange(11)), whole, rtol=1e-13)
        monkeypatch.undo()


def test_long_lists_are_quick():
    """A list with as many entries as there are visits in a long life."""
    curve = wane.Listed([1.0] * 100_000)
    assert curve.bound == 1.0
    phi = wane.representation(CHAINS["mixing"], curve, discount=0.9)
    sr = wane.successor_representation(CHAINS["mixing"], discount=0.9)
    np.testing.assert_allclose(phi.matrix, sr.matrix, rtol=1e-12)
    with pytest.raises(ValueError, match=r"Listed\(values\)\[1\] must lie in"):
        wane.Listed([1.0, np.nan])


@pytest.mark.parametrize("text", ["nothing", "-1", "0", "nan"])
def test_limits_that_are_none(text, monkeypatch):
    monkeypatch.setenv("WANE_MEMORY_GIB", text)
    with pytest.raises(ValueError, match=f"WANE_MEMORY_GIB must be a number of GiB above 0, got '{text}'"):
        limits.memory_limit()


def test_the_limit_is_half_of_what_is_available(monkeypatch):
    monkeypatch.delenv("WANE_MEMORY_GIB", raising=False)
    monkeypatch.setattr(limits, "available_memory", lambda: 3e9)
    assert limits.memory_limit() == 1.5e9
    limits.require_memory("this", (1e9, "numbers"), itemsize=1, cure="none")
    with pytest.raises(
        ValueError, match=r"this needs about 1.9 GiB of memory \(2 numbers × \(1000 things\)\^3 × 1 byte\)"
    ):
        limits.require_memory("this", (2, "numbers"), *[(1000, "things")] * 3, itemsize=1, cure="none")
    monkeypatch.undo()
    assert limits.available_memory() > 2**20


@pytest.mark.skipif(not Path("/proc/self/cgroup").exists(), reason="only Linux has control groups")
def test_the_memory_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_GROUPS", tmp_path)
    assert limits._of_the_container() == np.inf
    for name, text in [("max", "3000000\n"), ("current", "2500000\n"), ("stat", "anon 5\ninactive_file 1500000\n")]:
        (tmp_path / f"memory.{name}").write_text(text)
    assert limits._of_the_container() == 2_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert limits._of_the_container() == np.inf
