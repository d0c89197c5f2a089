import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from wane.worlds import catalog

RNG = np.random.default_rng(0)


def random_mdp(seed, n=4, actions=2):
    return wane.MDP(np.random.default_rng(seed).dirichlet(np.ones(n), (n, actions)))


def by_recursion(mdp, rewards, depletion, discount, sites, horizon, timing):
    """The optimum straight from its definition: try every action, count every visit."""
    where = {int(s): i for i, s in enumerate(sites)}

    def arrive(s, counts, remaining):
        i = where.get(s)
        pay = 0.0 if i is None else rewards[i] * float(depletion.worth(counts[i]))
        counts = tuple(c + (j == i) for j, c in enumerate(counts))
        return pay + (discount * act(s, counts, remaining - 1) if remaining > 1 else 0.0)

    def act(s, counts, remaining):
        return max(
            sum(p * arrive(t, counts, remaining) for t, p in enumerate(np.asarray(mdp.action(a))[s]))
            for a in range(mdp.n_actions)
        )

    fresh = (0,) * len(sites)
    if timing == "departure":
        return np.array([arrive(s, fresh, horizon) for s in range(mdp.n_states)])
    return np.array([discount * act(s, fresh, horizon) for s in range(mdp.n_states)])


@pytest.mark.parametrize("timing", ["departure", "arrival"])
@pytest.mark.parametrize(
    "depletion", [wane.Geometric(0.5), wane.Hyperbolic(1.0), wane.Listed([1.0, -0.5], tail=0.3)], ids=repr
)
def test_against_trying_everything(depletion, timing):
    mdp = random_mdp(1, n=3)
    rewards, sites = np.array([1.0, 2.0]), [0, 2]
    best = wane.optimum(mdp, rewards, depletion, discount=0.9, sites=sites, horizon=5, timing=timing, tolerance=1e-9)
    np.testing.assert_allclose(best.values, by_recursion(mdp, rewards, depletion, 0.9, sites, 5, timing), rtol=1e-9)


@given(seed=st.integers(0, 200), lam=st.sampled_from([0.0, 0.3, 0.8, 1.0]))
def test_no_policy_does_better(seed, lam):
    mdp = random_mdp(seed)
    rewards = np.random.default_rng(seed).random(4)
    best = wane.optimum(mdp, rewards[:2], wane.Geometric(lam), discount=0.8, sites=[0, 1])
    assert best.error <= 1e-6
    for policy in itertools.product(range(2), repeat=4):
        phi = wane.lambda_representation(mdp.under(np.array(policy)), lam, discount=0.8, sites=[0, 1])
        assert np.all(best.values >= phi.values(rewards[:2]) - 1e-6)
    if lam == 1.0:
        stationary = max(
            wane.successor_representation(mdp.under(np.array(p)), discount=0.8, sites=[0, 1]).values(rewards[:2]).sum()
            for p in itertools.product(range(2), repeat=4)
        )
        np.testing.assert_allclose(best.values.sum(), stationary, rtol=1e-6)


@pytest.mark.parametrize("horizon", [None, 12])
@pytest.mark.parametrize("timing", ["departure", "arrival"])
def test_the_policy_earns_the_value(horizon, timing):
    """Following the returned policy on a deterministic world adds up to the returned value."""
    table = np.array([[1, 0], [2, 0], [3, 1], [3, 2], [0, 4]])
    mdp, rewards, sites = wane.MDP(table), np.array([2.0, 3.0]), [1, 3]
    lam, discount = np.array([0.3, 0.6]), 0.9
    best = wane.optimum(
        mdp, rewards, wane.Geometric(lam), discount=discount, sites=sites, horizon=horizon, timing=timing
    )
    for start in range(5):
        state, remaining, counts, total = start, rewards.copy(), np.zeros(2, int), 0.0
        for t in range(horizon or 200):
            if t > 0 or timing == "departure":
                visited = np.array(sites) == state
                total += discount**t * (remaining * visited).sum()
                counts, remaining = counts + visited, np.where(visited, lam * remaining, remaining)
            state = table[state, best.action(state, counts, t)] if t < len(best.policy) or horizon is None else state
        if timing == "arrival":
            visited = np.array(sites) == state
            total += discount ** (horizon or 200) * (remaining * visited).sum()
        np.testing.assert_allclose(total, best.values[start], atol=1e-5)


def test_four_rooms_and_two_rooms_optima():
    """The reference numbers; and caps that are too small, paying nothing beyond, do not leak value upwards."""
    rooms = catalog.four_rooms()
    settings = dict(
        discount=0.97,
        sites=rooms.sites,
        horizon=40,
        timing="arrival",
        action_rewards=-1.0 * rooms.map.bumps(),
    )
    best = wane.optimum(rooms.map.mdp(), rooms.rewards, wane.Geometric(0.5), **settings)
    assert round(best.values.mean(), 3) == 26.178
    assert round(best.values[rooms.map.state(6, 3)], 2) == 27.10
    assert best.error < 1e-6
    for cap in (3, 7, 12):
        capped = wane.optimum(rooms.map.mdp(), rooms.rewards, wane.Geometric(0.5), caps=cap, **settings)
        assert capped.caps == (cap,) * 3
        assert 0 <= best.values.mean() - capped.values.mean() <= capped.error
    two = catalog.two_rooms()
    for discount, value in [(0.99, 30.357), (0.95, 11.362)]:
        best = wane.optimum(
            two.map.mdp(),
            two.rewards,
            wane.Geometric(0.5),
            discount=discount,
            sites=two.sites,
            horizon=100,
            timing="arrival",
        )
        assert round(best.values[two.map.find("S")], 3) == value


def test_toy_of_the_paper():
    """Three states, λ = 0 on the left, 1 on the right: believing in the SR earns 10 in two steps, the right λ 11.94."""
    left, right = 1, 2
    mdp = wane.MDP(np.array([[left, right, 0], [left, 0, left], [0, right, right]]))
    rewards, discount = np.array([10.0, 6.0]), 0.99
    # Each belief evaluates "go left and stay" and "go right and stay" from the middle, and takes the better one.
    policies = {left: np.array([0, 0, 0]), right: np.array([1, 1, 1])}
    sites = [left, right]

    def two_steps(lam_hat):
        state, paid, remaining = 0, 0.0, rewards.copy()
        for t in range(2):
            q = np.max(
                [
                    wane.lambda_representation(mdp.under(p), lam_hat, discount=discount, sites=sites).q_values(
                        mdp, remaining
                    )
                    for p in policies.values()
                ],
                axis=0,
            )
            state = int(np.asarray(mdp.action(int(q[state].argmax())).toarray())[state].argmax())
            visited = np.array(sites) == state
            paid += discount**t * (remaining * visited).sum()
            remaining = np.where(visited, np.array([0.0, 1.0]) * remaining, remaining)
        return paid

    assert two_steps(1.0) == pytest.approx(10.0)
    assert two_steps(np.array([0.0, 1.0])) == pytest.approx(11.94)
    best = wane.optimum(
        mdp, rewards, wane.Geometric([0.0, 1.0]), discount=discount, sites=sites, horizon=2, timing="arrival"
    )
    assert best.values[0] / discount == pytest.approx(11.94), "and no policy does better in two steps"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(horizon=0), ValueError, "horizon must be a whole number from 1 to 10000000, got 0"),
        (dict(horizon=3.0), ValueError, "horizon must be a whole number .*, got 3.0"),
        (dict(horizon=np.inf), ValueError, "horizon must be a whole number .*, got inf"),
        (dict(horizon=np.nan), ValueError, "horizon must be a whole number .*, got nan"),
        (dict(horizon="3"), ValueError, "horizon must be a whole number .*, got '3'"),
        (dict(horizon=10**9, caps=10**10), ValueError, "horizon must be a whole number .*, got 1000000000"),
        (dict(tolerance=np.inf), ValueError, "tolerance must be a finite number above 0, got inf"),
        (dict(tolerance=np.nan), ValueError, "tolerance must be a finite number above 0, got nan"),
        (dict(tolerance=0.0), ValueError, "tolerance must be a finite number above 0, got 0.0"),
        (dict(discount=1.0), ValueError, "without a horizon the discount must be below 1"),
        (dict(timing="later"), ValueError, "timing is"),
        (dict(rewards=[1.0]), ValueError, "one finite r̄ for each of the 2 sites"),
        (dict(depletion=0.5), TypeError, "0.5 is not a Depletion"),
        (dict(action_rewards=np.zeros((4, 2))), ValueError, "are paid on arrival"),
        (dict(caps=0), ValueError, "caps are whole numbers"),
        (dict(grid=8), ValueError, "grid is for rewards that grow back"),
        (dict(depletion=wane.TimeElapsed(0.5), caps=8), ValueError, "caps are largest visit counts"),
        (dict(depletion=wane.TimeElapsed(0.5), grid=2.5), ValueError, "grid must be a whole number from 4 on, got 2.5"),
        (
            dict(caps=30_000, horizon=30_000, discount=1.0),
            ValueError,
            r"the optimal policy needs about 3.4 GiB of memory \(4 states × 30001 levels × 29999 steps × 1 byte\), and "
            "the limit is 1.0 GiB: raise `tolerance`",
        ),
        (
            dict(discount=1 - 1e-9),
            ValueError,
            r"looks .* visits ahead, and 1e\+07 are the most: give a \(shorter\) horizon",
        ),
        (
            dict(sites=list(range(4)), rewards=[1.0] * 4, depletion=wane.Hyperbolic(1.0), discount=0.99),
            ValueError,
            "the optimum needs about .* and the limit is 1.0 GiB",
        ),
        (
            dict(sites=list(range(4)), rewards=[1.0] * 4, depletion=wane.TimeElapsed(0.5), grid=200),
            ValueError,
            r"\(4 states × \(200 levels\)\^4 × 8 bytes × 2 arrays\), and the limit is 1.0 GiB: .* a smaller `grid`",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_refusals(change, error, message, monkeypatch):
    monkeypatch.setenv("WANE_MEMORY_GIB", "1")
    settings = dict(rewards=[1.0, 2.0], depletion=wane.Geometric(0.5), discount=0.9, sites=[0, 1])
    settings.update(change)
    rewards, depletion = settings.pop("rewards"), settings.pop("depletion")
    with pytest.raises(error, match=message):
        wane.optimum(random_mdp(0), rewards, depletion, **settings)


def ring(n):
    states = np.arange(n)
    return wane.MDP(np.stack([(states + 1) % n, (states - 1) % n], axis=1))


def test_many_sites_that_need_no_counts():
    """NumPy's arrays have at most 64 axes, but any number of sites may pay for ever, or nothing."""
    best = wane.optimum(ring(70), np.ones(70), wane.Geometric(1.0), discount=0.9)
    np.testing.assert_allclose(best.values, 10.0, atol=1e-5)
    assert best.caps == (0,) * 70
    rewards = np.zeros(70)
    rewards[[3, 40]] = 1.0, 2.0
    few = wane.optimum(ring(70), rewards[[3, 40]], wane.Geometric(0.5), discount=0.9, sites=[3, 40])
    many = wane.optimum(ring(70), rewards, wane.Geometric(0.5), discount=0.9)
    np.testing.assert_allclose(many.values, few.values, atol=2e-6)
    visits = np.zeros(70, int)
    visits[3] = 2
    assert many.action(5, visits) == few.action(5, [2, 0])


def test_what_is_too_large_is_refused_before_it_is_computed(monkeypatch):
    """The curve of a site is made once for all sites, and not as a table (visits, sites)."""
    monkeypatch.setenv("WANE_MEMORY_GIB", "0.1")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="needs about .* of memory .*, and the limit is 0.1 GiB"):
            wane.optimum(ring(100), np.ones(100), wane.Geometric(0.5), discount=1.0, horizon=200_000)
        with pytest.raises(ValueError, match="needs about .* of memory .*, and the limit is 0.1 GiB"):
            wane.optimum(ring(100), np.ones(100), wane.Geometric(np.full(100, 0.5)), discount=0.9999)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ((-1, [0]), "state must be a whole number from 0 to 3, got -1"),
        ((4, [0]), "state must be a whole number from 0 to 3, got 4"),
        ((1.5, [0]), "state must be a whole number from 0 to 3, got 1.5"),
        ((0, [-1]), "no visits lead to a memory of"),
        ((0, [0.5]), "no visits lead to a memory of"),
        ((0, [np.nan]), "a finite number for each of the 1 sites"),
        ((0, [0, 0]), "a finite number for each of the 1 sites"),
        ((0, [0], -1), "time must be a whole number from 0 to 2, got -1"),
        ((0, [0], 3), "time must be a whole number from 0 to 2, got 3"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_queries_out_of_range(query, message):
    settings = dict(discount=0.9, sites=[0])
    best = wane.optimum(random_mdp(0), [1.0], wane.Geometric(0.5), horizon=4, **settings)
    assert best.action(3, [1000], 2) in (0, 1)
    with pytest.raises(ValueError, match=message):
        best.action(*query)
    endless = wane.optimum(random_mdp(0), [1.0], wane.Geometric(0.5), **settings)
    assert endless.action(0, [0], 10**9) == endless.action(0, [0])
