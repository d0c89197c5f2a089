"""Checks inside `jit`: errors in all tests (conftest.py), and NaN for users unless they ask for errors."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane

KERNEL = np.array([[0.3, 0.7], [0.6, 0.4]])
REWARDS = np.array([1.0, 2.0])


def value(kernel, lam, discount, rewards):
    return wane.lambda_representation(kernel, lam, discount=discount).values(rewards)


def wrong(**changes):
    """The arguments of `value`, some of them wrong."""
    return {"kernel": KERNEL, "lam": 0.5, "discount": 0.9, "rewards": REWARDS} | changes


BAD = [
    (wrong(kernel=1.3 * KERNEL), "a row of the kernel does not sum to 1"),
    (wrong(kernel=0.5 * KERNEL), "a row of the kernel does not sum to 1"),
    (wrong(kernel=np.array([[1.5, -0.5], [0.6, 0.4]])), "the kernel has an entry that is negative or NaN"),
    (wrong(kernel=np.array([[np.nan, 1.0], [0.6, 0.4]])), "the kernel has an entry that is negative or NaN"),
    (wrong(lam=1.5), r"Geometric\(lam\) must lie in \[0, 1\]"),
    (wrong(lam=np.nan), r"Geometric\(lam\) must lie in \[0, 1\]"),
    (wrong(discount=5.0), r"discount must lie in \[0, 1\]"),
    (wrong(discount=-0.1), r"discount must lie in \[0, 1\]"),
    (wrong(discount=np.nan), r"discount must lie in \[0, 1\]"),
    (wrong(rewards=np.array([1.0, np.nan])), "rewards must be finite numbers"),
]
compiled = eqx.filter_jit(value)


def arrays(arguments):
    return {name: jnp.asarray(value) for name, value in arguments.items()}


def test_good_arguments_pass():
    np.testing.assert_allclose(compiled(**arrays(wrong())), value(**wrong()), rtol=1e-12)
    ends = np.array([[0.5, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(compiled(**arrays(wrong(kernel=ends))), value(**wrong(kernel=ends)), rtol=1e-12)


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments_raise_inside_jit(arguments, message):
    with pytest.raises(Exception, match=message):
        compiled(**arrays(arguments))


def test_bad_arguments_give_nan_without_the_errors():
    with wane.jit_checks(False):
        silent, slope = jax.jit(lambda *given: value(*given)), jax.jit(jax.grad(lambda *given: value(*given)[0], 1))
        for arguments, _ in BAD:
            assert np.isnan(silent(*arrays(arguments).values())).all(), arguments
            assert np.isnan(slope(*arrays(arguments).values())), arguments
        np.testing.assert_allclose(silent(*arrays(wrong()).values()), value(**wrong()), rtol=1e-12)
        under = jax.jit(lambda policy: wane.MDP(jnp.asarray(np.stack([KERNEL, KERNEL[::-1]], axis=1))).under(policy))
        np.testing.assert_array_equal(under(jnp.array([0, 1])), KERNEL[[0, 0]])
        assert all(np.isnan(under(jnp.array(policy))).all() for policy in ([0, -1], [2, 0]))
        assert np.isnan(jax.jit(lambda lam: wane.equivalent_rewards(1.0, wane.Geometric(lam), 2.0))(1.5))


def test_the_optimum_says_that_it_cannot_be_traced():
    mdp = wane.MDP(np.array([[0, 1], [1, 0]]))
    with pytest.raises(TypeError, match="the optimum is found outside of JAX: call this without jit, grad or vmap"):
        jax.grad(lambda r: wane.optimum(mdp, r, wane.Geometric(0.5), discount=0.9).values.sum())(jnp.ones(2))


def test_policies_and_transitions_are_checked_too():
    transitions = np.stack([KERNEL, KERNEL[::-1]], axis=1)

    @eqx.filter_jit
    def under(transitions, policy):
        return wane.MDP(transitions).under(policy)

    good = np.array([[0.5, 0.5], [0.1, 0.9]])
    np.testing.assert_allclose(under(jnp.asarray(transitions), jnp.asarray(good)).sum(1), 1, rtol=1e-12)
    with pytest.raises(Exception, match="a row of the policy does not sum to 1: "):
        under(jnp.asarray(transitions), jnp.asarray(2 * good))
    with pytest.raises(Exception, match="a row of the table of transitions does not sum to 1"):
        under(jnp.asarray(1.3 * transitions), jnp.asarray(good))


def test_vmap_and_grad_go_through_the_checks():
    many = jax.vmap(lambda lam: value(jnp.asarray(KERNEL), lam, 0.9, REWARDS)[0])(jnp.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(many[1], value(**wrong())[0], rtol=1e-12)
    slope = jax.jit(jax.grad(lambda lam: value(jnp.asarray(KERNEL), lam, 0.9, REWARDS)[0]))(0.5)
    numeric = (value(**wrong(lam=0.5 + 1e-6)) - value(**wrong(lam=0.5 - 1e-6)))[0] / 2e-6
    np.testing.assert_allclose(slope, numeric, rtol=1e-6)


def test_without_the_checks_nothing_is_added_to_the_program():
    def program():
        # A new function, because JAX remembers what it has traced.
        made = jax.make_jaxpr(lambda *given: value(*given))(*arrays(wrong()).values())
        return str(made)

    with wane.jit_checks(False):
        assert "callback" not in program()
    assert "callback" in program()


def test_the_switch():
    """Off by default; WANE_JIT_CHECKS=1 turns the checks on for a whole program."""
    program = "import wane.checks; print(wane.checks._enabled)"
    bare = {name: text for name, text in os.environ.items() if name != "WANE_JIT_CHECKS"}
    for changes, expected in (({}, "False"), ({"WANE_JIT_CHECKS": "1"}, "True"), ({"WANE_JIT_CHECKS": "0"}, "False")):
        run = subprocess.run([sys.executable, "-c", program], env=bare | changes, capture_output=True, text=True)
        assert run.stdout.strip() == expected, run.stderr
