"""The equations of soft actor–critic and of λ-SAC, each as one function.

A step leads from (s_t, a_t) to s_{t+1} and pays r_t; a_{t+1} is drawn from the policy. γ_t is γ, or 0 if the step
terminated the episode: a terminated episode has no future, a truncated one has. Features φ(s, a) are in [0, 1]. The
paper's target of the value is

    T Q(s_t, a_t) = r_t + γ_t (Q̄(s_{t+1}, a_{t+1}) + C_t − α log π(a_{t+1}|s_{t+1}))
    C_t = (λ − 1) wᵀ(φ(s_t, a_t) ⊙ φ_λ(s_{t+1}, a_{t+1}))

With λ = 1 it is SAC's. With λ < 1 the correction C_t takes value away where wᵀ(φ ⊙ φ_λ) is positive: a critic of a task
with positive rewards becomes pessimistic. Where rewards are negative it adds value, and the critic becomes optimistic.

If r = wᵀφ and α = 0, the value and the λF that agree with their own targets satisfy Q = wᵀφ_λ (tested). So

    Q = E Σ_t γᵗ Σ_i w_i φ_i,t Π_{k<t} (1 − (1 − λ) φ_i,k)

and λ < 1 is a second discount: the reward of feature i is discounted by γ (1 − (1 − λ) φ_i) at every step. Features
near ½ leave a horizon of 2 steps with λ = 0 and of 4 steps with λ = ½, where γ = 0.99 alone has a horizon of 100 steps.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wane.exact.bellman import bellman_target
from wane.types import Integer, Scalar

Phi = Float[Array, "*batch features"]
Each = Float[Array, "*batch"]
Ends = Float[Array, " features"] | Scalar
"""One end of the range: an entry for each feature, or one number for all features together."""

ROUNDING = 2000
"""The least ridge in units of the rounding error. With less, rounding would decide how collinear features share w."""


def scale(features: Phi, low: Ends, high: Ends) -> Phi:
    """(x − low) / (high − low); 0 where both are equal, as for a feature that is constant."""
    constant = jnp.asarray(high <= low)
    return jnp.where(constant, 0.0, (features - low) / jnp.where(constant, 1.0, high - low))


def reward_weights(phi: Float[Array, "batch features"], reward: Float[Array, " batch"], ridge: float) -> Array:
    """The w that minimises |X w − r|² with a small ridge: w = (XᵀX/B + ε I)⁻¹ Xᵀr/B.

    ε is a fraction of the mean of the diagonal of XᵀX/B. The fraction is `ridge`, or the least that rounding allows if
    `ridge` is smaller (2e-4 in 32 bits). So collinear features share their weight equally, and features that are 0
    everywhere get the weight 0. The paper's (XᵀX)⁻¹ Xᵀr does not exist in these cases.
    """
    size, features = phi.shape
    # A GPU would round the products to 10 bits, and the matrix could then not be factored.
    product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
    limits = jnp.finfo(phi.dtype)
    gram, share = product(phi.T, phi) / size, max(ridge, ROUNDING * float(limits.eps))
    # A batch in which all features are constant is all zeros, and still needs a matrix that can be inverted.
    shift = jnp.maximum(share * jnp.trace(gram) / features, limits.tiny)
    factor = jax.scipy.linalg.cho_factor(gram + shift * jnp.eye(features, dtype=phi.dtype), lower=True)
    return jax.scipy.linalg.cho_solve(factor, product(phi.T, reward) / size)


def correction(phi_t: Phi, phi_lam_next: Phi, weights: Float[Array, " features"], lam: Scalar) -> Each:
    """(λ − 1) wᵀ(φ(s_t, a_t) ⊙ φ_λ(s_{t+1}, a_{t+1}))."""
    return jnp.asarray((lam - 1) * (phi_t * phi_lam_next * weights).sum(-1))


def soft_target(
    reward: Each, discount_t: Each, q_next: Each, log_prob_next: Each, temperature: Scalar, correction: Each
) -> Each:
    """r_t + γ_t (Q̄ + correction − α log π)."""
    return reward + discount_t * (q_next + correction - temperature * log_prob_next)


def feature_target(phi_t: Phi, phi_lam_next: Phi, lam: Scalar, discount_t: Each) -> Phi:
    """The definition of the λF: φ_t ⊙ (1 + γ_t λ φ_λ,t+1) + γ_t (1 − φ_t) ⊙ φ_λ,t+1."""
    return bellman_target(phi_lam_next, phi_t, lam, discount_t[..., None])


def lower(q: Float[Array, "critics *batch"], critics: Integer) -> Each:
    """The lower of the two values if there are two critics, else the value of the first critic."""
    return jnp.where(critics > 1, jnp.minimum(q[0], q[-1]), q[0])


def squash(
    mean: Float[Array, "*batch actions"], log_deviation: Float[Array, "*batch actions"], noise: Array
) -> tuple[Float[Array, "*batch actions"], Each]:
    """a = tanh(u) with u = mean + deviation · noise, and log π(a) = log N(u) − Σ log(1 − a²).

    log(1 − tanh² u) is written as 2 (log 2 − u − softplus(−2u)), which does not overflow.
    """
    u = mean + jnp.exp(log_deviation) * noise
    normal = -0.5 * noise**2 - log_deviation - 0.5 * jnp.log(2 * jnp.pi)
    slope = 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u))
    return jnp.tanh(u), jnp.sum(normal - slope, -1)


def critic_loss(target: Each, q: Float[Array, "critics *batch"], critics: Integer) -> Float[Array, ""]:
    """Σ_i ½ mean (target − Q_i)², over as many critics i as `critics` says. The target is a constant."""
    errors = 0.5 * jnp.mean((jax.lax.stop_gradient(target) - q) ** 2, axis=tuple(range(1, q.ndim)))
    return errors[0] + jnp.asarray(critics - 1, q.dtype) * errors[-1] if len(errors) > 1 else errors[0]


def feature_loss(target: Phi, phi_lam: Phi) -> Float[Array, ""]:
    """mean |target − φ_λ|² over the batch and the features. The target is a constant."""
    return jnp.mean((jax.lax.stop_gradient(target) - phi_lam) ** 2)


def actor_loss(log_prob: Each, q: Each, temperature: Scalar) -> Float[Array, ""]:
    """mean (α log π(a|s) − Q(s, a)), where a is a function of the policy and of noise."""
    return jnp.mean(temperature * log_prob - q)


def temperature_loss(log_temperature: Scalar, log_prob: Each, entropy: Scalar) -> Float[Array, ""]:
    """−log α · mean (log π(a|s) + target entropy): α grows while the policy's entropy is below its target."""
    return -jnp.asarray(log_temperature) * jax.lax.stop_gradient(jnp.mean(log_prob) + entropy)
