from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wane
from wane import foraging
from wane.foraging.rule import RuleName

# Two patches of 8 that halve, two steps apart, in ten steps: R = 8 + 4 + 2 + 8 + 4 = 26, T = 10.
TABLE = pd.DataFrame(
    {
        "episode": 0,
        "time": np.arange(10),
        "site": [-1, 0, 0, 0, -1, -1, 1, 1, -1, -1],
        "reward": [0.0, 8.0, 4.0, 2.0, 0.0, 0.0, 8.0, 4.0, 0.0, 0.0],
    }
)


def mvt(table=TABLE, lam=0.5, **settings):
    found = foraging.mvt_leaving_times(table, lam, **({"rule": "paper"} | settings))
    return found[["mvt_steps", "mvt_censored"]].to_numpy().tolist()


def test_the_papers_rule_by_hand():
    """First patch: next 4, 2, 1 against (26 − 8)/10 = 1.8, (26 − 12)/10 = 1.4, (26 − 14)/10 = 1.2: leave after 3.

    Second: next 4, 2 against (26 − 22)/10 = 0.4, 0; beyond, R_t exceeds R, and the threshold is negative: never.
    """
    assert mvt() == [[3, False], [4, True]]
    values = foraging.marginal_values(TABLE, 0.5, beyond=0, rule="paper")
    assert values["next_reward"].tolist() == [4, 2, 1, 4, 2, 1, 0.5]
    np.testing.assert_allclose(values["threshold"], [1.8, 1.4, 1.2, 0.4, 0.0, -0.2, -0.3], atol=1e-12)
    assert values["observed"].tolist() == [True] * 5 + [False] * 2
    assert values["time"].tolist() == [1, 2, 3, 6, 7, 8, 9]


def test_the_old_name_of_the_rule_warns():
    for old, settings in ((foraging.marginal_values, {}), (foraging.leaving_difference, {"handling": 1})):
        with pytest.warns(DeprecationWarning, match=r"\(form=…\) is deprecated: use rule=…"):
            found = old(TABLE, 0.5, form="paper", **settings)
        pd.testing.assert_frame_equal(found, old(TABLE, 0.5, rule="paper", **settings))
    with pytest.warns(DeprecationWarning, match="wane.foraging.NAMED is now wane.foraging.MODELS"):
        assert foraging.NAMED is foraging.MODELS
    with pytest.warns(DeprecationWarning, match="wane.foraging.draw is now wane.foraging.figures"):
        assert foraging.draw is foraging.figures


def test_the_corrected_rule_by_hand():
    """Steps left after t = 1, 2, 3 are 8, 7, 6: thresholds 18/8 = 2.25, 14/7 = 2, 12/6 = 2; a tie does not leave."""
    assert mvt(rule="corrected") == [[3, False], [4, True]]
    values = foraging.marginal_values(TABLE, 0.5, beyond=0, rule="corrected")
    np.testing.assert_allclose(values["threshold"][:5], [2.25, 2.0, 2.0, 4 / 3, 0.0], atol=1e-12)
    assert values["threshold"].iloc[-1] == -np.inf, "nothing is to come after the last step"


def test_the_discounted_rule_by_hand():
    """γ = ½: R = 8/2 + 4/4 + 2/8 + 8/64 + 4/128 = 5.40625; at t = 1 it is 4 against (R − 4)/10 · 4 = 0.5625."""
    average = 5.40625
    values = foraging.marginal_values(TABLE, 0.5, discount=0.5, beyond=0, rule="paper")
    first = [(average - 4) * 4 / 10, (average - 5) * 8 / 10, (average - 5.25) * 16 / 10]
    np.testing.assert_allclose(values["threshold"][:3], first)
    literal = foraging.marginal_values(TABLE, 0.5, discount=0.5, beyond=0, rule="literal")
    np.testing.assert_allclose(
        literal["threshold"][:3], [(average - 4) / 10, (average - 5) / 10, (average - 5.25) / 10]
    )
    corrected = foraging.marginal_values(TABLE, 0.5, discount=0.5, beyond=0, rule="corrected")
    left = sum(0.5**u for u in range(2, 10))
    assert corrected["threshold"][0] == pytest.approx((average - 4) / left)


def test_average_and_horizon_can_be_given():
    assert mvt(average=100.0) == [[1, False], [1, False]], "8.8 is more than either patch ever pays"
    assert mvt(average=52.0, horizon=20) == [[3, False], [3, False]]
    assert mvt(average=0.0) == [[9, True], [4, True]]
    with pytest.raises(ValueError, match="horizon is 9, and the longest episode has 10 steps: give"):
        mvt(horizon=9)
    with pytest.raises(ValueError, match="average is nan: give R"):
        mvt(average=np.nan)
    with pytest.raises(ValueError, match='rule = new: "charnov", "paper", "literal" or "corrected" is needed'):
        mvt(rule="new")
    with pytest.raises(ValueError, match="discount"):
        mvt(discount=1.5)


def test_groups_have_averages_of_their_own():
    """Episodes with the same number, one rich and one poor, and the mean of several."""
    poor = TABLE.assign(reward=0.1 * TABLE["reward"])
    both = pd.concat([TABLE.assign(animal="a"), poor.assign(animal="b")])
    assert mvt(both, by="animal") == mvt() * 2
    pooled = pd.concat([TABLE, poor.assign(episode=1)])
    assert mvt(pooled) == mvt(average=(26 + 2.6) / 2) + mvt(poor, average=(26 + 2.6) / 2)


def test_time_may_be_seconds():
    seconds = TABLE.assign(time=np.round(100 + TABLE["time"] / 30, 3))
    found = foraging.leaving_difference(seconds, 0.5, rule="paper")
    assert found["mvt_steps"].tolist() == [3, 4]
    assert found["mvt"].tolist() == pytest.approx([100.1, 100.3], abs=0.01)
    assert found["difference"].iloc[0] == 0.0


def test_curves_and_sites():
    assert mvt(lam={0: 0.5, 1: 0.0}) == [[3, False], [1, False]], "4 are to come, and nothing more is here"
    assert mvt(lam=wane.Geometric([0.5, 0.0])) == mvt(lam=[0.5, 0.0]) == mvt(lam={0: 0.5, 1: 0.0})
    assert mvt(lam=wane.FirstVisits(2)) == [[2, False], [4, True]], "in the second patch nothing is to come elsewhere"
    noisy = TABLE.assign(reward=[0.0, 8.0, 0.0, 6.0, 0.0, 0.0, 8.0, 4.0, 0.0, 0.0])
    assert mvt(noisy)[0] == [2, False], "judged from the last reward, one bad step is enough"
    assert mvt(noisy, rewards=8.0)[0] == [3, False]


def reference(table, lam, discount, rule):
    """The rule step by step, straight from its definition."""
    total = (discount ** table["time"] * table["reward"]).groupby(table["episode"]).sum().mean()
    length = table.groupby("episode").size().mean()
    out = []
    for bout in foraging.bouts(table).itertuples():
        rows = table[table["episode"] == bout.episode].reset_index(drop=True)
        t, got = int(bout.arrival), float((discount ** rows["time"] * rows["reward"])[: int(bout.arrival) + 1].sum())
        pay = rows["reward"][t]
        while True:
            remaining = sum(discount**u for u in range(t + 1, int(length)))
            whole = sum(discount**u for u in range(int(length)))
            weights = {
                "paper": discount ** (t + 1) * length,
                "literal": length,
                "corrected": remaining,
                "charnov": whole,
            }
            weight, so_far = weights[rule], 0.0 if rule == "charnov" else got
            goes = weight > 0 and lam * pay < (total - so_far) / weight - 1e-11
            if goes or t + 1 == len(rows):
                out.append([t - int(bout.arrival) + 1, not goes])
                break
            t += 1
            pay = rows["reward"][t] if t <= bout.leaving else lam * pay
            got += discount**t * pay
    return out


def random_table(seed):
    rng = np.random.default_rng(seed)
    site = np.repeat(rng.integers(-1, 2, (2, 6)), rng.integers(1, 4, 6), axis=1)
    reward = np.where(site >= 0, rng.random(site.shape) * 4.0 ** -np.arange(site.shape[1]).clip(max=2), 0.0)
    return pd.DataFrame(
        {
            "episode": np.repeat([0, 1], site.shape[1]),
            "time": np.tile(np.arange(site.shape[1]), 2),
            "site": site.ravel(),
            "reward": reward.ravel(),
        }
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the rule leaves at the first step")
@given(seed=st.integers(0, 10_000), lam=st.sampled_from([0.0, 0.3, 0.9, 1.0]), discount=st.sampled_from([1.0, 0.9]))
def test_against_the_definition(seed, lam, discount):
    table = random_table(seed)
    found = {rule: mvt(table, lam, discount=discount, rule=rule) for rule in get_args(RuleName)}
    for rule in get_args(RuleName):
        assert found[rule] == reference(table, lam, discount, rule), rule
    steps = {rule: [n for n, _ in found[rule]] for rule in get_args(RuleName)}
    assert np.all(np.array(steps["corrected"]) <= np.array(steps["paper"])), "fewer steps left, a higher rate"
    assert np.all(np.array(steps["paper"]) <= np.array(steps["literal"])), "the next reward weighs more undiscounted"
    if discount == 1:
        assert steps["paper"] == steps["literal"]


@pytest.mark.slow
@given(seed=st.integers(0, 10_000))
def test_slower_depletion_never_leaves_earlier(seed):
    steps = [[n for n, _ in mvt(random_table(seed), lam)] for lam in (0.0, 0.4, 0.9)]
    assert np.all(np.diff(steps, axis=0) >= 0)


def test_the_printed_rule_understates_the_rate():
    """By 1 − (t + 1)/T: half-way through the episode it is half of what the remaining steps bring."""
    step = np.arange(49)
    printed = foraging.threshold(6.0, 1.0, step, 50, rule="paper")
    np.testing.assert_allclose(
        printed, foraging.threshold(6.0, 1.0, step, 50, rule="corrected") * (1 - (step + 1) / 50)
    )


def test_charnovs_rule_by_hand():
    """26 in 10 steps are 2.6 a step, in every patch and at any time: 4 ≥ 2.6 > 2, so both stays end after two steps."""
    assert mvt(rule="charnov") == [[2, False], [2, False]]
    assert foraging.mvt_leaving_times(TABLE, 0.5)["mvt_steps"].tolist() == [2, 2], "it is the default"
    values = foraging.marginal_values(TABLE, 0.5, beyond=0)
    np.testing.assert_allclose(values["threshold"], 2.6)


def refilled(first=8.0, handling=0):
    """Twelve stays of four steps at one feeder that is full at every visit, two steps apart."""
    stay = [0.0] * handling + [first, first / 2, first / 4, first / 8]
    rewards, sites = [*stay, 0.0, 0.0] * 12, [*[1] * len(stay), -1, -1] * 12
    return pd.DataFrame({"episode": 0, "time": np.arange(len(sites)), "site": sites, "reward": rewards})


def test_whether_patches_are_fresh_must_be_said_where_it_matters():
    table = refilled()
    with pytest.raises(
        ValueError, match='site 1 is visited again: say whether every visit finds it full, patches="fresh"'
    ):
        mvt(table, rewards=8.0, rule="charnov")
    # 15 in 6 steps are 2.5 a step: after 8 and 4, 2 is less.
    assert mvt(table, rewards=8.0, patches="fresh", rule="charnov") == [[2, False]] * 12
    with pytest.warns(
        UserWarning, match="leaves at the first step in 11 of 12 stays: are patches fresh at every visit"
    ):
        worn = mvt(table, rewards=8.0, patches="session", rule="charnov")
    assert worn[1:] == [[1, False]] * 11, "counted over the session, later visits are thought to find nothing"
    with pytest.raises(ValueError, match='patches is \'full\': give "fresh" or "session"'):
        mvt(table, patches="full")


def test_handling_times_are_waited_for():
    table = refilled(first=16.0, handling=1)
    with pytest.warns(UserWarning, match="is nothing paid at first"):
        assert mvt(table, rule="charnov") == [[1, False]] * 12
    # 30 in 7 steps are 4.29 a step: after the handling, 16 and 8 are followed by 8 and 4.
    assert mvt(table, rule="charnov", handling=1) == [[3, False]] * 12
