import numpy as np
import pytest

import wane
from chains import CHAINS, Meadow, Tank, forward_sum, monte_carlo
from rambling import Rambling
from wane.exact.renewal import renewal_representation, return_laws

KERNEL = CHAINS["mixing"][:3, :3] / CHAINS["mixing"][:3, :3].sum(1, keepdims=True)


class Through(wane.Depletion):
    """Hides the closed form of another depletion, so that the chain has to do it."""

    inner: wane.Depletion
    most: float = 1.0

    @property
    def bound(self):
        return self.most

    def initial(self, shape=()):
        return self.inner.initial(shape)

    def worth(self, memory):
        return self.inner.worth(memory)

    def visit(self, memory):
        return self.inner.visit(memory)

    def wait(self, memory):
        return self.inner.wait(memory)


@pytest.mark.parametrize(
    "inner",
    [
        wane.Geometric(0.5),
        wane.Geometric(0.0),
        wane.FirstVisits(2),
        wane.Hyperbolic(1.0),
        wane.Listed([1.0, 0.3], tail=0.2),
        wane.EligibilityTrace(0.5, 0.6),
        wane.TotalTime(0.5, 0.8, equation="representation"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", CHAINS)
def test_the_chain_agrees_with_every_closed_form(inner, name):
    kernel = CHAINS[name]
    closed = wane.representation(kernel, inner, discount=0.8).matrix
    chain = wane.representation(kernel, Through(inner, 5.0), discount=0.8)
    assert 0 <= chain.truncation <= 1e-6
    assert np.abs(chain.matrix - closed).max() <= chain.truncation + 1e-9
    mdp = wane.MDP(np.stack([kernel, kernel], axis=1))
    q = wane.representation(kernel, inner, discount=0.8).action_matrix(mdp)
    np.testing.assert_allclose(chain.action_matrix(mdp), q, atol=3e-6)


@pytest.mark.parametrize(
    "depletion", [wane.TimeElapsed(0.5, 0.3), wane.TimeElapsed(0.0), wane.TimeElapsed(1.0)], ids=repr
)
def test_time_elapsed_against_the_sum_over_all_histories(depletion):
    exact = wane.representation(KERNEL, depletion, discount=0.5, sites=[1])
    np.testing.assert_allclose(exact.matrix[:, 0], forward_sum(KERNEL, depletion, 0.5, 1, steps=21), atol=2e-6)


@pytest.mark.parametrize("depletion", [Meadow(0.5, 0.3), Tank(0.6, 0.2)], ids=repr)
def test_user_written_memories(depletion):
    exact = wane.representation(KERNEL, depletion, discount=0.3, sites=[2])
    np.testing.assert_allclose(exact.matrix[:, 0], forward_sum(KERNEL, depletion, 0.3, 2, steps=13), atol=2e-6)
    longer = wane.representation(CHAINS["mixing"], depletion, discount=0.9, sites=[1, 3])
    for start, (j, site) in [(0, (0, 1)), (3, (1, 3))]:
        mean, error = monte_carlo(CHAINS["mixing"], depletion, 0.9, site, start, steps=150)
        assert abs(longer.matrix[start, j] - mean) <= 5 * error + 1e-5


def test_tolerance_is_kept_and_stated():
    loose = renewal_representation(KERNEL, wane.TimeElapsed(0.5), discount=0.9, sites=[0], tolerance=1e-3)
    tight = renewal_representation(KERNEL, wane.TimeElapsed(0.5), discount=0.9, sites=[0], tolerance=1e-9)
    assert tight.truncation <= 1e-9 < loose.truncation <= 1e-3
    assert 0 < np.abs(loose.matrix - tight.matrix).max() <= loose.truncation


def test_return_laws():
    """A cycle of four comes back after four steps; a coin flip after a geometric time."""
    cycle, coin = CHAINS["periodic"], np.full((2, 2), 0.5)
    (law,) = return_laws(cycle, 0.5, np.array([0]), np.array([1 - 0.5**4]), np.array([1e-12]))
    np.testing.assert_allclose(law.weights, [0, 0, 0, 0.0625])
    (law,) = return_laws(coin, 1.0, np.array([0]), np.array([0.0]), np.array([1e-3]))
    np.testing.assert_allclose(law.weights, 0.5 ** np.arange(1, len(law.weights) + 1))
    assert law.omitted <= 1e-3


def test_very_many_visits():
    """Near discount 1 more than 4,096 visits count. They are summed along a line of memories, without a table."""
    kernel, curve = CHAINS["mixing"], wane.Hyperbolic(1.0)
    closed = wane.representation(kernel, curve, discount=0.9992, sites=[0, 3])
    chain = wane.representation(kernel, Through(curve), discount=0.9992, sites=[0, 3])
    assert 0 < chain.truncation <= 1e-6
    assert np.abs(chain.matrix - closed.matrix).max() <= chain.truncation + 1e-9


class Slow(wane.Depletion):
    """Counts the steps since the last visit, up to twenty, and a visit undoes only half of them: 21 memories."""

    def initial(self, shape=()):
        return np.full(shape, 20)

    def worth(self, memory):
        return memory / 20

    def visit(self, memory):
        return memory // 2

    def wait(self, memory):
        return np.minimum(memory + 1, 20)


def test_tables_of_waits_are_made_in_parts(monkeypatch):
    """They have memories × return times entries, which can be more than the memory of the machine holds."""
    settings = dict(discount=0.9, sites=[0, 3])
    for depletion in (Slow(), Through(wane.TimeElapsed(0.5)), Through(wane.Geometric(0.5))):
        whole = wane.representation(CHAINS["mixing"], depletion, **settings)
        monkeypatch.setattr(wane.exact.memories, "AT_ONCE", 300)
        parts = wane.representation(CHAINS["mixing"], depletion, **settings)
        monkeypatch.undo()
        np.testing.assert_allclose(parts.matrix, whole.matrix, rtol=1e-12)
    exact = wane.patch_representation(CHAINS["mixing"], [[0], [3]], Slow(), discount=0.9)
    assert exact.truncation == 0
    slow = wane.representation(CHAINS["mixing"], Slow(), **settings)
    np.testing.assert_allclose(slow.matrix, exact.matrix, atol=1e-6)


def test_sites_share_a_line_or_have_their_own():
    """One parameter for all sites, one for each, and sites that were visited differently give the same numbers."""
    kernel, memory = CHAINS["mixing"], wane.TimeElapsed(0.5).initial((5,))._replace(visits=np.array([0, 2, 2, 1, 0]))
    shared = wane.representation(kernel, wane.TimeElapsed(0.5), discount=0.9)
    own = wane.representation(kernel, wane.TimeElapsed(np.full(5, 0.5)), discount=0.9)
    np.testing.assert_allclose(shared.matrix, own.matrix, atol=2e-6)
    np.testing.assert_allclose(shared.at(memory), own.at(memory), atol=2e-6)
    alone = wane.representation(kernel, wane.TimeElapsed(0.5), discount=0.9, sites=[1])
    here = wane.TimeElapsed(0.5).initial((1,))._replace(visits=np.array([2]))
    np.testing.assert_allclose(shared.at(memory)[:, 1], alone.at(here)[:, 0], atol=2e-6)


def test_work_that_would_take_too_long():
    with pytest.raises(ValueError, match=r"TimeElapsed would be summed over \d+ visits × \d+ return times"):
        wane.exact.renewal_representation(CHAINS["mixing"], wane.TimeElapsed(0.5), discount=1 - 1e-8, tolerance=10.0)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.inf, np.nan])
def test_tolerances_that_are_none(tolerance):
    with pytest.raises(ValueError, match="tolerance must be a finite number above 0"):
        renewal_representation(KERNEL, wane.TimeElapsed(0.5), discount=0.9, tolerance=tolerance)
    with pytest.raises(ValueError, match="tolerance must be a finite number above 0"):
        wane.iterate(KERNEL, 0.5, discount=0.9, tolerance=tolerance)


class Moody(Meadow):
    """A visit forgets the wait before it, but only if that was short."""

    def visit(self, memory):
        return np.where(memory < 0.9, 0.3, 0.5)


def test_a_visit_that_forgets_short_waits_only():
    depletion = Moody(0.5, 0.3)
    exact = wane.representation(KERNEL, depletion, discount=0.5, sites=[1])
    np.testing.assert_allclose(exact.matrix[:, 0], forward_sum(KERNEL, depletion, 0.5, 1, steps=21), atol=3e-6)


class Rising(Meadow):
    def worth(self, memory):
        return 3 * memory


class Exploding(Meadow):
    def visit(self, memory):
        return 1.01 * memory

    def wait(self, memory):
        return 1.5 * memory

    def worth(self, memory):
        return np.full_like(memory, 0.5)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize(
    ("depletion", "discount", "message"),
    [
        (Rambling(), 0.9, "Rambling reaches more than 4096 different memories: let it forget"),
        (Rising(0.5, 0.1), 0.9, r"Rising.worth reaches .*, above its bound 1: override the property `bound`"),
        (Exploding(0.5, 0.1), 0.9, "the memory of Exploding grows without bound"),
        (wane.TimeElapsed(0.5), 1.0, "site 0 is certain to be visited again.*infinite"),
        (Through(wane.TotalTime(0.5, 0.5), float("inf")), 0.3, "bound must be finite"),
    ],
)
def test_refusals(depletion, discount, message):
    with pytest.raises(ValueError, match=message):
        wane.representation(KERNEL, depletion, discount=discount)


def test_a_tolerance_that_cannot_be_kept():
    with pytest.raises(ValueError, match="error of .*, more than the tolerance 1.0e-12"):
        renewal_representation(KERNEL, Tank(0.6, 0.17), discount=0.9, sites=[0], tolerance=1e-12)
