"""Networks that several agents use, as Equinox modules whose leaves are all arrays.

`eqx.nn.MLP` keeps its activation function as a leaf, which `jax.jit`, `jax.vmap` and a file of arrays refuse. This
`MLP` has a fixed activation, so a network is a plain tree of arrays: it can be batched over seeds and saved by name.
Layers take any number of axes before the last one, so a batch is one matrix product that needs no transposition.
`eqx.nn.Linear` under `vmap` transposes, which takes 7 % of the time of λO-FB on a GPU.
"""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from wane.limits import require_memory


class Linear(eqx.Module):
    """x ↦ x W + b over the last axis."""

    weight: Float[Array, "*runs inputs outputs"]
    bias: Float[Array, "*runs outputs"]

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Linear layers with ReLUs between them."""

    layers: tuple[Linear, ...]

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


def require_layer(n_in: int, n_out: int) -> None:
    """Raises ValueError if a layer needs too much memory: its weights, their gradient, and the two moments of Adam."""
    sizes, itemsize = ((n_in, "inputs"), (n_out, "outputs")), jnp.zeros(()).dtype.itemsize
    require_memory("a layer of a network", *sizes, itemsize=itemsize, copies=4, cure="make the layers smaller")


def make_linear(key: jax.Array, n_in: int, n_out: int) -> Linear:
    """A random layer: weights and biases are uniform in ±1/√(number of inputs)."""
    require_layer(n_in, n_out)
    draws = jax.random.uniform(key, (n_in + 1, n_out), minval=-1, maxval=1)
    return Linear(draws[:-1] / np.sqrt(n_in), draws[-1] / np.sqrt(n_in))


def make_mlp(key: jax.Array, sizes: Sequence[int], first: int = 0) -> MLP:
    """An MLP with random layers between the given sizes. Layer i uses fold_in(key, first + i)."""
    keys = (jax.random.fold_in(key, first + i) for i in range(len(sizes) - 1))
    return MLP(tuple(make_linear(key, *pair) for key, pair in zip(keys, pairwise(sizes), strict=True)))
