"""The parts that agents share: replay memory, networks, and rules for choosing actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.agents.common import replay
from wane.agents.common.networks import MLP, Linear, make_linear, make_mlp
from wane.agents.common.policy import Policy, dot, no_draws, sample_action, uniforms

KEY = jax.random.key(0)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(4, 7))
def test_the_ring_holds_the_newest_items(counts, size):
    """Items are numbered in the order in which they come; any tree of arrays will do."""
    memory, number = replay.empty({"number": jnp.zeros((), int), "view": jnp.zeros((2, 2))}, size), 0
    for count in counts:
        numbers = jnp.arange(number, number + count)
        views = jnp.broadcast_to(numbers[:, None, None], (count, 2, 2)).astype(float)
        memory = replay.add(memory, {"number": numbers, "view": views})
        number += count
    kept = replay.sample(memory, jnp.linspace(0, 0.9999, 200))
    expected = set(range(max(0, number - size), number))
    assert set(kept["number"].tolist()) == expected
    np.testing.assert_array_equal(kept["view"][:, 1, 0], kept["number"])
    assert int(memory.added) == number


def test_many_episodes_are_added_at_once():
    memory = replay.empty(jnp.zeros(3), 20)
    memory = replay.add(memory, jnp.arange(24.0).reshape(4, 2, 3))
    np.testing.assert_array_equal(memory.items[:8], jnp.arange(24.0).reshape(8, 3))
    assert int(memory.added) == 8


def test_samples_are_uniform():
    memory = replay.add(replay.empty(jnp.zeros(()), 8), jnp.arange(5.0))
    drawn = np.asarray(replay.sample(memory, jax.random.uniform(KEY, (5000,))))
    np.testing.assert_allclose(np.bincount(drawn.astype(int)) / 5000, 0.2, atol=0.03)


def test_a_network_by_hand():
    """Two inputs, two hidden units of which one is off, one output."""
    hidden = Linear(jnp.array([[1.0, -1.0], [2.0, 0.0]]), jnp.array([0.5, 0.0]))
    out = Linear(jnp.array([[3.0], [7.0]]), jnp.array([-1.0]))
    assert MLP((hidden, out))(jnp.array([1.0, 1.0])).tolist() == [3 * 3.5 - 1]


def test_networks_are_trees_of_arrays():
    """So they can be made for many seeds at once, and saved."""
    networks = jax.jit(jax.vmap(lambda key: make_mlp(key, [3, 5, 2])))(jax.random.split(KEY, 4))
    assert [leaf.shape for leaf in jax.tree_util.tree_leaves(networks)] == [(4, 3, 5), (4, 5), (4, 5, 2), (4, 2)]
    outputs = jax.vmap(lambda network: network(jnp.ones(3)))(networks)
    assert outputs.shape == (4, 2)
    assert len(np.unique(np.asarray(outputs).round(9))) == 8


@pytest.mark.parametrize("n_in", [1, 16, 400])
def test_weights_are_uniform_within_their_bounds(n_in):
    layer = make_linear(KEY, n_in, 2000)
    weight, bias = layer.weight, layer.bias
    reach = 1 / np.sqrt(n_in)
    assert float(abs(weight).max()) <= reach
    assert float(weight.std()) == pytest.approx(reach / np.sqrt(3), rel=0.05)
    assert float(abs(bias).max()) <= reach
    assert float(abs(bias).max()) > 0.9 * reach


def test_layers_do_not_depend_on_each_other():
    """Layer i uses fold_in(key, first + i)."""
    whole, rest = make_mlp(KEY, [4, 3, 2]), make_mlp(KEY, [3, 2], first=1)
    np.testing.assert_array_equal(whole.layers[1].weight, rest.layers[0].weight)


def test_what_act_receives():
    keys = Policy(lambda *_: None).draw(KEY, 3)
    assert jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    assert uniforms(2)(KEY, 5).shape == (5, 2)
    assert no_draws(KEY, 5) is None


def test_a_policy_is_a_tree_of_its_params_and_carry():
    policy = Policy(lambda *_: None, {"phi": jnp.ones(2)}, jnp.zeros(3), observation="index")
    assert sorted(leaf.shape for leaf in jax.tree_util.tree_leaves(policy)) == [(2,), (3,)]
    doubled = jax.tree_util.tree_map(lambda leaf: 2 * leaf, policy)
    assert doubled.params["phi"].tolist() == [2.0, 2.0]
    assert doubled.observation == "index"


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5), st.floats(0, 0.999))
def test_sampled_actions_are_those_of_the_cumulated_chances(weights, draw):
    chances = np.array(weights) / np.sum(weights)
    action = int(sample_action(jnp.cumsum(jnp.asarray(chances)), draw))
    edges = np.concatenate([[0.0], np.cumsum(chances)])
    assert edges[action] - 1e-9 <= draw
    assert draw <= edges[action + 1] + 1e-9


def test_dot_is_the_product_over_the_last_axis():
    phi, rewards = jax.random.normal(KEY, (4, 3, 2)), jnp.array([1.0, -2.0])
    np.testing.assert_allclose(dot(phi, rewards), phi @ rewards, rtol=1e-12)
