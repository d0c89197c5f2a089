import itertools

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
        (dict(horizon=0), ValueError, "horizon is a number of rewards"),
        (dict(discount=1.0), ValueError, "without a horizon the discount must be below 1"),
        (dict(timing="later"), ValueError, "timing is"),
        (dict(rewards=[1.0]), ValueError, "one finite r̄ for each of the 2 sites"),
        (dict(depletion=wane.TimeElapsed(0.5)), TypeError, "TimeElapsed remembers more"),
        (dict(action_rewards=np.zeros((4, 2))), ValueError, "come with the arrival"),
        (dict(caps=0), ValueError, "caps are whole numbers"),
        (dict(caps=10**10, horizon=10**9), ValueError, "4 states are 4 pairs, too many for 999999999 steps"),
        (
            dict(caps=30_000, horizon=30_000),
            ValueError,
            "4 states × 30001 counts × 30001 counts are 3.6e.09 pairs, too many",
        ),
        (dict(discount=1 - 1e-9), ValueError, "visits ahead: give a horizon"),
        (
            dict(sites=list(range(4)), rewards=[1.0] * 4, depletion=wane.Hyperbolic(1.0), discount=0.99),
            ValueError,
            "too many",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_refusals(change, error, message):
    settings = dict(rewards=[1.0, 2.0], depletion=wane.Geometric(0.5), discount=0.9, sites=[0, 1])
    settings.update(change)
    rewards, depletion = settings.pop("rewards"), settings.pop("depletion")
    with pytest.raises(error, match=message):
        wane.optimum(random_mdp(0), rewards, depletion, **settings)
