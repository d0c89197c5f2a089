"""The loss of λO-FB: four terms, each a function (the paper's Algorithm 3, lines 14 to 19).

With F_j = F(s_j, a_j, z_j) and F⁻_j = Σ_a π_z(a|s_{j+1}) F⁻(s_{j+1}, a, z_j), where ⁻ marks the target networks and
B̄ is B without a gradient, they are

    Bellman           ½ mean_jk (F_jᵀ B(s'_k) − γ F⁻_jᵀ B⁻(s'_k))²,                        s'_k ~ μ
    diagonal          −mean_j F_jᵀ B(s_j)
    correction        γ mean_j (1 − λ) μ(s_j) F_jᵀ B(s_j) F⁻_jᵀ B⁻(s_j)
    orthonormality    β mean_jk B(s_j)ᵀ B̄(s̃_k) B̄(s_j)ᵀ B̄(s̃_k) − β mean_j B(s_j)ᵀ B̄(s_j)

The correction vanishes for λ = 1, the successor measure. The gradient of the orthonormality term is a quarter of the
gradient of ‖E B Bᵀ − I‖², which is the paper's regulariser.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.agents.forward_backward.config import Config
from wane.agents.forward_backward.networks import Params, rows, softmax_policy
from wane.types import Scalar

Features = Float[Array, "batch dimension"]


class Step(NamedTuple):
    """One step of a collected episode, or many with further axes."""

    cell: Int[Array, "*steps"]
    """s_t"""
    next_cell: Int[Array, "*steps"]
    """s_{t+1}"""
    reward: Float[Array, "*steps"]
    """r_t(s_t): what a visit to s_t would pay at time t."""
    next_reward: Float[Array, "*steps"]
    """r_{t+1}(s_{t+1})"""
    action: Int[Array, "*steps"] | None = None


class Batch(NamedTuple):
    """The samples of one gradient step, or of many with a further axis."""

    step: Step
    other: Int[Array, "*batch"]
    """s̃_k"""
    column: Int[Array, "*batch"]
    """s'_k"""
    z: Float[Array, "*batch dimension"]
    lam: Float[Array, "*batch lams"] | None
    """The λ inputs of F."""
    rewards: Step
    """The steps from which λ is learned."""
    target: Float[Array, "*batch columns"] | None = None
    """F⁻_jᵀ B⁻(s'_k), with j along the last axis but one."""
    target_own: Float[Array, "*batch"] | None = None
    """F⁻_jᵀ B⁻(s_j)"""


class Terms(NamedTuple):
    """The four terms of the loss."""

    bellman: Float[Array, "*steps"]
    diagonal: Float[Array, "*steps"]
    correction: Float[Array, "*steps"]
    orthonormality: Float[Array, "*steps"]


def bellman_term(
    f: Features, b_column: Float[Array, "columns dimension"], target: Float[Array, "batch columns"], discount: Scalar
) -> Float[Array, ""]:
    """½ mean_jk (F_jᵀ B(s'_k) − γ F⁻_jᵀ B⁻(s'_k))², where `target` is F⁻_jᵀ B⁻(s'_k)."""
    return 0.5 * jnp.mean((f @ b_column.T - discount * target) ** 2)


def diagonal_term(own: Float[Array, " batch"]) -> Float[Array, ""]:
    """−mean_j F_jᵀ B(s_j), where `own` is F_jᵀ B(s_j)."""
    return -jnp.mean(own)


def correction_term(
    own: Float[Array, " batch"],
    target_own: Float[Array, " batch"],
    lam: Scalar | Float[Array, " batch"],
    mu: Scalar,
    discount: Scalar,
) -> Float[Array, ""]:
    """γ mean_j (1 − λ(s_j)) μ(s_j) F_jᵀ B(s_j) F⁻_jᵀ B⁻(s_j): later visits to a visited state count for less."""
    return jnp.asarray(discount * jnp.mean((1 - lam) * mu * own * target_own))


def orthonormality_term(b: Features, b_other: Features) -> Float[Array, ""]:
    """mean_jk B_jᵀ B̄(s̃_k) B̄_jᵀ B̄(s̃_k) − mean_j B_jᵀ B̄_j."""
    fixed, b_other = jax.lax.stop_gradient(b), jax.lax.stop_gradient(b_other)
    second_moment = b_other.T @ b_other / len(b_other)
    return jnp.mean(jnp.sum((b @ second_moment - b) * fixed, -1))


def with_targets(batch: Batch, target: Params, config: Config) -> Batch:
    """Adds F⁻_jᵀ B⁻(s'_k) and F⁻_jᵀ B⁻(s_j) to a batch. They are constant between two updates of the targets."""
    features = target.forward(batch.step.next_cell, batch.z, batch.lam)
    chances = softmax_policy(features, batch.z, config.temperature)
    f_next = jnp.einsum("...a,...ad->...d", chances, features)
    table = target.backward()
    own = jnp.einsum("...d,...d->...", f_next, table[batch.step.cell])
    columns = jnp.einsum("...jd,...kd->...jk", f_next, table[batch.column])
    return batch._replace(target=columns, target_own=own)


def loss(
    params: Params, batch: Batch, lam: Scalar | Float[Array, " batch"], config: Config
) -> tuple[Float[Array, ""], Terms]:
    """The loss of Algorithm 3 and its terms, for a batch with its targets and λ(s_j)."""
    features = params.forward(batch.step.cell, batch.z, batch.lam)
    taken = jax.nn.one_hot(batch.step.action, features.shape[1], dtype=features.dtype)
    f = jnp.einsum("ja,jad->jd", taken, features)
    table = params.backward()
    b, b_column, b_other = rows(table, jnp.stack([batch.step.cell, batch.column, batch.other]))
    own = jnp.sum(f * b, -1)
    assert batch.target is not None
    assert batch.target_own is not None
    terms = Terms(
        bellman_term(f, b_column, batch.target, config.discount),
        diagonal_term(own),
        correction_term(own, batch.target_own, lam, 1 / len(table), config.discount),
        config.regulariser * orthonormality_term(b, b_other),
    )
    return terms.bellman + terms.diagonal + terms.correction + terms.orthonormality, terms


def lam_of_batch(lam: Any, batch: Batch) -> Any:
    """λ(s_j): the λ that was drawn if F is conditioned on λ, else the agent's."""
    cell = batch.step.cell
    if batch.lam is None:
        lam = jnp.asarray(lam)
        return lam if lam.ndim == 0 else lam[cell]
    return batch.lam[:, 0] if batch.lam.shape[-1] == 1 else batch.lam[jnp.arange(len(cell)), cell]
