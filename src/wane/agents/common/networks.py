"""Networks that several agents use, as Equinox modules whose leaves are all arrays.

`eqx.nn.MLP` keeps its activation function as a leaf, which `jax.jit`, `jax.vmap` and a file of arrays refuse. This
`MLP` has a fixed activation, so a network is a plain tree of arrays: it can be batched over seeds and saved by name.
Layers take any number of axes before the last one, so a batch is one matrix product that needs no transposition.
`eqx.nn.Linear` under `vmap` transposes, which takes 7 % of the time of λO-FB on a GPU.

The network of the paper's pixel experiments is

    bytes / 255 → convolutions (3 × 3, then ReLU) → flat → LayerNorm → tanh → fully connected layers (ReLU between)

Pictures have their channels last. A convolution is written as a product of its 9 shifted pictures with the weights, so
`vmap` over many networks gives a batched product. Twelve networks that see the same pictures take 0.33 ms a step each
on an H200. XLA's convolution takes 0.59 ms each for networks one after the other, and 1.1 ms each for three at once.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from wane.limits import require_memory
from wane.types import Tree

WIDTH = 3
"""The width of every filter of a convolution."""


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


def descend(optimiser: optax.GradientTransformation, slope: Tree, state: Tree, params: Any) -> tuple[Any, Tree]:
    """Takes one step of an optimiser. Returns the parameters and the optimiser's state after it."""
    change, state = optimiser.update(slope, state, params)
    return optax.apply_updates(params, change), state


class Convolution(eqx.Module):
    """A convolution with 3 × 3 filters, without padding."""

    weight: Float[Array, "*runs 3 3 inputs outputs"]
    bias: Float[Array, "*runs outputs"]
    stride: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "batch height width inputs"]) -> Float[Array, "batch rows columns outputs"]:
        rows, columns = (self.stride * (output_size(size, self.stride) - 1) + 1 for size in x.shape[1:3])
        shifted = [
            x[:, i : i + rows : self.stride, j : j + columns : self.stride] for i in range(WIDTH) for j in range(WIDTH)
        ]
        return jnp.concatenate(shifted, -1) @ self.weight.reshape(-1, self.weight.shape[-1]) + self.bias


class ConvolutionalNetwork(eqx.Module):
    """A network from stacked greyscale pictures (…, height, width, frames) of bytes to a vector of outputs."""

    convolutions: tuple[Convolution, ...]
    scale: Float[Array, "*runs flat"]
    offset: Float[Array, "*runs flat"]
    dense: MLP
    shape: tuple[int, int, int] = eqx.field(static=True)
    """The shape of a stack of pictures."""

    def __call__(self, pictures: Any) -> Float[Array, "*batch outputs"]:
        if pictures.shape[-3:] != self.shape or pictures.dtype != jnp.uint8:
            wanted, got = (" × ".join(map(str, shape)) for shape in (self.shape, pictures.shape[-3:]))
            raise ValueError(
                f"the network takes stacks of {wanted} bytes (height, width, frames; uint8), got {got} of "
                f"{pictures.dtype}: make the pictures with the same `Vision`"
            )
        batch = pictures.shape[:-3]
        x = pictures.reshape(-1, *pictures.shape[-3:]).astype(self.scale.dtype) / 255
        for layer in self.convolutions:
            x = jax.nn.relu(layer(x))
        x = x.reshape(len(x), -1)
        x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return self.dense(jnp.tanh(x * self.scale + self.offset)).reshape(*batch, -1)


def output_size(size: int, stride: int) -> int:
    """The height or width of a convolution's output."""
    return (size - WIDTH) // stride + 1


def make_convolutional_network(
    key: jax.Array, size: int, frames: int, channels: int, strides: Sequence[int], sizes: Sequence[int]
) -> ConvolutionalNetwork:
    """A random network for pictures of size × size pixels; `sizes` are those of the fully connected layers.

    Weights are uniform in ±1/√(inputs of a filter). Raises ValueError if the pictures are too small for the strides.
    """
    layers, inputs, side = [], frames, size
    for i, stride in enumerate(strides):
        side = output_size(side, stride)
        if side < 1:
            raise ValueError(
                f"pictures of {size} × {size} pixels are too small for convolutions with strides {strides}"
            )
        layer = make_linear(jax.random.fold_in(key, i), WIDTH * WIDTH * inputs, channels)
        weight = layer.weight.reshape(WIDTH, WIDTH, inputs, channels)
        layers.append(Convolution(weight, layer.bias, int(stride)))
        inputs = channels
    flat = side * side * inputs
    dense = make_mlp(key, [flat, *sizes], first=len(layers))
    return ConvolutionalNetwork(tuple(layers), jnp.ones(flat), jnp.zeros(flat), dense, (size, size, frames))
