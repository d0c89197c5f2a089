"""Whether a depletion keeps the contract of `wane.depletion`.

    >>> import wane
    >>> from wane.testing import check_depletion
    >>> check_depletion(wane.Geometric(0.5))

A few sites are visited at random times, in NumPy and in JAX, and what they pay is compared. A curve over visit counts
must also have the generating function that its own power series has.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wane.depletion import Depletion, Diminishing
from wane.types import Tree
from wane.worlds.describe import depletion_from_description, describe_depletion, kind_of

SITES, STEPS = 3, 8
"""How many sites are visited, and for how many steps, unless parameters say how many sites there are."""
TERMS = 600
"""Terms of the power series; with x ≤ 0.9 the others add up to less than 1e-26 of the bound."""


def check_depletion(depletion: Depletion) -> None:
    """Raises AssertionError, with the rule that was broken and the cure, unless a depletion keeps the contract."""
    if not isinstance(depletion, Depletion):
        raise AssertionError(f"{depletion!r} is no wane.Depletion: subclass it, or wane.Diminishing for a curve")
    sites = {np.shape(value)[-1] for value in depletion.per_site().values()} - {1}
    _require(len(sites) <= 1, depletion, f"its parameters are for {sorted(sites)} sites: give as many for each")
    visits = np.random.default_rng(0).random((STEPS, max(sites, default=SITES))) < 0.5
    worths = _check_history(depletion, visits)
    _check_bound(depletion, worths)
    _check_sites(depletion, visits, worths)
    if isinstance(depletion, Diminishing):
        _check_curve(depletion, visits.shape[1])
    if kind_of(type(depletion)) is not None:
        _check_description(depletion)


def _require(fine: Any, depletion: Depletion, message: str) -> None:
    if not fine:
        raise AssertionError(f"{type(depletion).__name__} does not keep the contract of a depletion: {message}")


def _history(depletion: Depletion, visits: Any, xp: Any) -> Any:
    """What a visit to each site would pay at every step, given the steps at which each is visited."""
    memory = jax.tree_util.tree_map(xp.asarray, depletion.initial(visits.shape[1:]))
    worths = []
    for row in visits:
        worths.append(depletion.worth(memory))
        memory = _chosen(row, depletion.visit(memory), depletion.wait(memory), xp)
    return xp.stack(worths)


def _chosen(visited: Any, after: Tree, else_: Tree, xp: Any) -> Tree:
    return jax.tree_util.tree_map(lambda a, b: xp.where(visited, a, b), after, else_)


def _check_history(depletion: Depletion, visits: np.ndarray) -> np.ndarray:
    """Returns what is paid. Memories keep their structure and shapes, and JAX, while it traces, computes the same."""
    shape, initial = visits.shape[1:], depletion.initial(visits.shape[1:])
    for name in ("visit", "wait"):
        after = getattr(depletion, name)(initial)
        same = _shapes(after) == _shapes(initial)
        _require(same, depletion, f"{name} returns {_shapes(after)}, where the memory has {_shapes(initial)}")
    worth = np.asarray(depletion.worth(initial))
    _require(worth.shape in (shape, ()), depletion, f"worth returns the shape {worth.shape} for {shape} sites")
    worths = np.broadcast_to(_history(depletion, visits, np), visits.shape)
    _require(np.isfinite(worths).all(), depletion, "worth returns what is no finite number")
    try:
        traced = jax.jit(lambda visits: _history(depletion, visits, jnp))(jnp.asarray(visits))
    except jax.errors.JAXTypeError as error:
        cure = "take where, exp and the like from wane.depletion.namespace(memory)"
        raise AssertionError(f"{type(depletion).__name__} cannot be traced by JAX: {cure} ({error})") from error
    close = np.allclose(traced, worths, rtol=_within(), atol=_within())
    _require(close, depletion, f"JAX pays {np.asarray(traced)[-1]} where NumPy pays {worths[-1]}")
    return worths


def _check_bound(depletion: Depletion, worths: np.ndarray) -> None:
    largest = float(np.max(np.abs(worths)))
    fine = largest <= depletion.bound * (1 + 1e-12)
    _require(fine, depletion, f"worth reaches {largest:g}, above its bound {depletion.bound:g}: override `bound`")


def _check_sites(depletion: Depletion, visits: np.ndarray, worths: np.ndarray) -> None:
    """`at_sites` takes the parameters of some sites, so those pay the same alone as beside the others."""
    chosen = [visits.shape[1] - 1, 0]
    alone = _history(depletion.at_sites(chosen), visits[:, chosen], np)
    fine = np.allclose(alone, worths[:, chosen], rtol=1e-12)
    cure = "declare parameters that may differ between sites with wane.depletion.parameter()"
    _require(fine, depletion, f"some of the sites pay something else alone than beside the others: {cure}")


def _check_curve(depletion: Diminishing, sites: int) -> None:
    """The memory counts visits, and the generating function is the sum of the curve's power series."""
    visits = np.arange(4)[:, None] * np.ones(sites, int)
    counted = np.array_equal(depletion.visit(visits), visits + 1) and np.array_equal(depletion.wait(visits), visits)
    _require(counted, depletion, "its memory is not the number of visits: subclass wane.Depletion instead")
    _require(np.array_equal(depletion.initial((2,)), [0, 0]), depletion, "its memory does not begin with 0 visits")
    x = np.array([0.0, 1e-9, 0.1, 0.5, 0.9])[:, None, None] * np.ones(visits.shape)
    series = np.sum([depletion.worth(visits + n) * x**n for n in range(TERMS)], axis=0)
    traced = jax.jit(depletion.generating_function)(jnp.asarray(x), jnp.asarray(visits))
    for found in (depletion.generating_function(x, visits), traced):
        wrong = np.argwhere(~np.isclose(found, series, rtol=10 * _within(), atol=_within()))
        for at in map(tuple, wrong[:1]):
            value = f"{np.asarray(found)[at]:.12g} at x = {x[at]:g} after {visits[at[1:]]} visits"
            _require(False, depletion, f"its generating function is {value}, and its power series {series[at]:.12g}")


def _check_description(depletion: Depletion) -> None:
    """A depletion that can be saved comes back as it was."""
    again = depletion_from_description(describe_depletion(depletion))
    for field in dataclasses.fields(depletion):
        before, after = (getattr(each, field.name) for each in (depletion, again))
        same = np.array_equal(np.asarray(before), np.asarray(after))
        _require(same, depletion, f"its {field.name!r} comes back from a file as {after!r}, and was {before!r}")


def _shapes(tree: Tree) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in jax.tree_util.tree_leaves(tree)]


def _within() -> float:
    """By how much two numbers may differ in the precision of JAX."""
    return 1e-4 if jnp.result_type(float) == jnp.float32 else 1e-12
