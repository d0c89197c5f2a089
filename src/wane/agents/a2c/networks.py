"""The network: an LSTM, and three linear heads for the policy, the value and the λF.

    gates = W_x x_t + W_h h_{t−1} + b
    c_t = σ(f + 1) c_{t−1} + σ(i) tanh(g),        h_t = σ(o) tanh(c_t)

The recurrent state (h, c) is multiplied by `keep_t` before it is used: by 0 at the first step of an episode, and at
every step of an agent that is not `recurrent`. When a sequence is unrolled, W_x x_t of all steps is one product, and so
is the gradient of W_h. JAX would sum that gradient step by step, which moves the whole matrix at every step. `unroll`
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


class LSTMState(NamedTuple):
    """The recurrent state of the LSTM."""

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


def fresh_state(params: Params) -> LSTMState:
    """The recurrent state at the beginning of an episode."""
    zeros = jnp.zeros(params.lstm.recurrent.shape[-2], params.lstm.recurrent.dtype)
    return LSTMState(zeros, zeros)


def scale_state(state: LSTMState, keep: Scalar | Float[Array, "*batch"]) -> LSTMState:
    """The recurrent state times `keep`, which is one number, or has one number for each entry of the batch."""
    keep = jnp.asarray(keep)[..., None]
    return LSTMState(keep * state.h, keep * state.c)


def advance(gates_x: Gates, state: LSTMState, recurrent: Float[Array, "hidden gates"]) -> LSTMState:
    """One step of the LSTM, given W_x x + b."""
    i, g, f, o = jnp.split(gates_x + state.h @ recurrent, 4, axis=-1)
    c = jax.nn.sigmoid(f + 1) * state.c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return LSTMState(jax.nn.sigmoid(o) * jnp.tanh(c), c)


def see(params: Params, x: Float[Array, "*batch inputs"], state: LSTMState, keep: Any) -> LSTMState:
    """The recurrent state after an observation. It holds the LSTM's output, h."""
    return advance(params.lstm.inputs(x), scale_state(state, keep), params.lstm.recurrent)


def heads(params: Params, h: Float[Array, "*batch hidden"]) -> Output:
    """The outputs of all heads."""
    return Output(params.actor(h), params.critic(h)[..., 0], params.features(h))


def _scan(
    recurrent: Float[Array, "hidden gates"],
    gates_x: Float[Array, "steps batch gates"],
    keep: Float[Array, "steps batch"],
    state: LSTMState,
) -> LSTMState:
    """The recurrent state after each step of some sequences (steps, batch, hidden), given W_x x + b of all steps.

    The derivative of `unroll` treats `keep` as a constant.
    """

    def step(state: LSTMState, now: tuple[Array, Array]) -> tuple[LSTMState, LSTMState]:
        state = advance(now[0], scale_state(state, now[1]), recurrent)
        return state, state

    return jax.lax.scan(step, state, (gates_x, keep), unroll=steps_per_turn())[1]


unroll = jax.custom_vjp(_scan)


def _unroll_forward(
    recurrent: Array, gates_x: Array, keep: Array, state: LSTMState
) -> tuple[LSTMState, tuple[Any, ...]]:
    out, pull = jax.vjp(lambda gates_x, state: _scan(recurrent, gates_x, keep, state), gates_x, state)
    return out, (pull, out.h, keep, state.h)


def _unroll_backward(kept: tuple[Any, ...], slope: LSTMState) -> tuple[Array, Array, Array, LSTMState]:
    pull, h, keep, h_begin = kept
    # W_x x + b is added to W_h h, so its gradient is the gradient of the gates.
    gates_slope, state_slope = pull(slope)
    h_before = keep[..., None] * jnp.concatenate([h_begin[None], h[:-1]])
    recurrent_slope = jnp.einsum("tbh,tbg->hg", h_before, gates_slope)
    return recurrent_slope, gates_slope, jnp.zeros_like(keep), state_slope


unroll.defvjp(_unroll_forward, _unroll_backward)
