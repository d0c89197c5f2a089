"""The network: an LSTM, and three linear heads for the policy, the value and the λF.

    gates = W_x x_t + W_h h_{t−1} + b
    c_t = σ(f + 1) c_{t−1} + σ(i) tanh(g),        h_t = σ(o) tanh(c_t)

The memory (h, c) is multiplied by `keep_t` before it is used: by 0 at the first step of an episode, else by the agent's
setting `memory` (1 by default). When a sequence is unrolled, W_x x_t of all steps is one product, and so is the
gradient of W_h. JAX would sum that gradient step by step, which moves the whole matrix at every step. `unroll`
therefore defines its own derivative, which a test compares with JAX's.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.agents.common.networks import Linear, make_linear
from wane.agents.common.rollout import steps_per_turn
from wane.types import Scalar

Gates = Float[Array, "*batch gates"]


class Memory(NamedTuple):
    """What the LSTM remembers."""

    h: Float[Array, "*batch hidden"]
    c: Float[Array, "*batch hidden"]


class LSTM(eqx.Module):
    """An LSTM cell."""

    inputs: Linear
    """W_x and b"""
    recurrent: Float[Array, "*runs hidden gates"]
    """W_h"""


class Params(NamedTuple):
    """The whole network."""

    lstm: LSTM
    actor: Linear
    critic: Linear
    features: Linear


class Output(NamedTuple):
    """The outputs of the three heads."""

    logits: Float[Array, "*batch actions"]
    value: Float[Array, "*batch"]
    features: Float[Array, "*batch features"]
    """φ_λ"""


def make_network(key: jax.Array, n_inputs: int, hidden: int, n_actions: int, n_features: int) -> Params:
    """A random network."""
    keys = jax.random.split(key, 5)
    inputs, recurrent = make_linear(keys[0], n_inputs, 4 * hidden), make_linear(keys[1], hidden, 4 * hidden)
    heads = (make_linear(key, hidden, size) for key, size in zip(keys[2:], (n_actions, 1, n_features), strict=True))
    return Params(LSTM(inputs, recurrent.weight), *heads)


def empty_memory(params: Params) -> Memory:
    """The memory at the beginning of an episode."""
    zeros = jnp.zeros(params.lstm.recurrent.shape[-2], params.lstm.recurrent.dtype)
    return Memory(zeros, zeros)


def scale_memory(memory: Memory, keep: Scalar | Float[Array, "*batch"]) -> Memory:
    """The memory times `keep`, which is one number, or has one number for each entry of the batch."""
    keep = jnp.asarray(keep)[..., None]
    return Memory(keep * memory.h, keep * memory.c)


def advance(gates_x: Gates, memory: Memory, recurrent: Float[Array, "hidden gates"]) -> Memory:
    """One step of the LSTM, given W_x x + b."""
    i, g, f, o = jnp.split(gates_x + memory.h @ recurrent, 4, axis=-1)
    c = jax.nn.sigmoid(f + 1) * memory.c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return Memory(jax.nn.sigmoid(o) * jnp.tanh(c), c)


def see(params: Params, x: Float[Array, "*batch inputs"], memory: Memory, keep: Any) -> Memory:
    """The memory after an observation. It holds the LSTM's output, h."""
    return advance(params.lstm.inputs(x), scale_memory(memory, keep), params.lstm.recurrent)


def heads(params: Params, h: Float[Array, "*batch hidden"]) -> Output:
    """The outputs of all heads."""
    return Output(params.actor(h), params.critic(h)[..., 0], params.features(h))


def _scan(
    recurrent: Float[Array, "hidden gates"],
    gates_x: Float[Array, "steps batch gates"],
    keep: Float[Array, "steps batch"],
    memory: Memory,
) -> Memory:
    def step(memory: Memory, now: tuple[Array, Array]) -> tuple[Memory, Memory]:
        memory = advance(now[0], scale_memory(memory, now[1]), recurrent)
        return memory, memory

    return jax.lax.scan(step, memory, (gates_x, keep), unroll=steps_per_turn())[1]


@jax.custom_vjp
def unroll(
    recurrent: Float[Array, "hidden gates"],
    gates_x: Float[Array, "steps batch gates"],
    keep: Float[Array, "steps batch"],
    memory: Memory,
) -> Memory:
    """The memory after each step of some sequences (steps, batch, hidden), given W_x x + b of all steps.

    Its derivative treats `keep` as a constant.
    """
    return _scan(recurrent, gates_x, keep, memory)


def _unroll_forward(recurrent: Array, gates_x: Array, keep: Array, memory: Memory) -> tuple[Memory, tuple[Any, ...]]:
    out, pull = jax.vjp(lambda gates_x, memory: _scan(recurrent, gates_x, keep, memory), gates_x, memory)
    return out, (pull, out.h, keep, memory.h)


def _unroll_backward(kept: tuple[Any, ...], slope: Memory) -> tuple[Array, Array, Array, Memory]:
    pull, h, keep, h_begin = kept
    # W_x x + b is added to W_h h, so its gradient is the gradient of the gates.
    gates_slope, memory_slope = pull(slope)
    h_before = keep[..., None] * jnp.concatenate([h_begin[None], h[:-1]])
    recurrent_slope = jnp.einsum("tbh,tbg->hg", h_before, gates_slope)
    return recurrent_slope, gates_slope, jnp.zeros_like(keep), memory_slope


unroll.defvjp(_unroll_forward, _unroll_backward)
