"""The equations of the actor–critic with a λF critic, each as one function of one trajectory.

A step t leads from s_t to s_{t+1} and pays r_t. γ_t is γ, or 0 if the step terminated the episode: a terminated episode
has no future, and a truncated one has a future that is not observed. `cut_t` is 1 if step t + 1 of the trajectory does
not continue the episode: at both kinds of ends, and at the last step. There the returns are bootstrapped.

The paper's target of the value is

    T_λ V(s_t) = r_t + γ (V(s_{t+1}) + (λ − 1) wᵀ(φ(s_t) ⊙ φ_λ(s_{t+1})))

For one-hot φ the sum wᵀ(φ(s_t) ⊙ φ_λ(s_{t+1})) is the entry s_t of φ_λ(s_{t+1}), times what s_t pays. The target is the
definition of the λF,

    φ_λ(s_t) = φ(s_t) ⊙ (1 + γλ φ_λ(s_{t+1})) + γ (1 − φ(s_t)) ⊙ φ_λ(s_{t+1}),

times w, if r_t = wᵀφ(s_t) and if V(s) stands for wᵀφ_λ(s) **with the same w** on both sides. So V(s_{t+1}) here is what
s_{t+1} would be worth if the visit to s_t had not reduced any reward, and the correction subtracts what it did take
away. A critic that knows what remains, from its recurrent state or from its observation, has already subtracted that:
then r_t + γ V_{t+1}(s_{t+1}) is exact without a correction (λ = 1), and λ < 1 subtracts it twice. Tests work out both.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from wane.exact.bellman import bellman_target
from wane.types import Scalar

Steps = Float[Array, " steps"]
Phi = Float[Array, "*steps features"]


def correction(
    phi_t: Phi, phi_lam_next: Phi, weights: Phi, lam: Scalar, discount_t: Float[Array, "*steps"]
) -> Float[Array, "*steps"]:
    """γ_t (λ − 1) wᵀ(φ(s_t) ⊙ φ_λ(s_{t+1})), of one step or of many."""
    return discount_t * (lam - 1) * (weights * phi_t * phi_lam_next).sum(-1)


def mixed_returns(reward: Steps, discount_t: Steps, value_next: Steps, cut: Steps, mixing: float) -> Steps:
    """TD(λ) with μ as its λ: G_t = r_t + γ_t ((1 − μ_t) V(s_{t+1}) + μ_t G_{t+1}), where μ_t is 0 at a cut, else μ."""

    def step(after: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, discount, value, mix = now
        target = reward + discount * ((1 - mix) * value + mix * after)
        return target, target

    mix = mixing * (1 - cut)
    return jax.lax.scan(step, jnp.zeros_like(reward[0]), (reward, discount_t, value_next, mix), reverse=True)[1]


def feature_returns(
    phi_t: Float[Array, "steps features"],
    phi_lam_next: Float[Array, "steps features"],
    lam: Scalar,
    discount_t: Steps,
    cut: Steps,
    mixing: Scalar,
) -> Float[Array, "steps features"]:
    """The λF's targets F_t: its definition, with (1 − μ_t) φ_λ(s_{t+1}) + μ_t F_{t+1} in the place of φ_λ(s_{t+1}).

    With μ = 0 they look one step ahead.
    """

    def step(after: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        phi, phi_next, discount, mix = now
        target = bellman_target((1 - mix) * phi_next + mix * after, phi, lam, discount)
        return target, target

    mix = jnp.asarray(mixing * (1 - cut))
    return jax.lax.scan(step, jnp.zeros_like(phi_t[0]), (phi_t, phi_lam_next, discount_t, mix), reverse=True)[1]


def policy_loss(
    logits: Float[Array, "steps actions"], action: Int[Array, " steps"], advantage: Steps
) -> Float[Array, ""]:
    """−mean A_t log π(a_t|s_t). The advantages A_t are constants."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
    return -jnp.mean(jax.lax.stop_gradient(advantage) * chosen)


def mean_entropy(logits: Float[Array, "steps actions"]) -> Float[Array, ""]:
    """mean_t −Σ_a π(a|s_t) log π(a|s_t)."""
    log_chances = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.sum(jnp.exp(log_chances) * log_chances, -1))


def squared_error(target: Float[Array, "..."], found: Float[Array, "..."]) -> Float[Array, ""]:
    """mean (target − found)², over steps and over features. The targets are constants."""
    return jnp.mean((jax.lax.stop_gradient(target) - found) ** 2)


def finished_returns(
    paid: Steps, done: Float[Array, " steps"], earned: Scalar
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The sum of the returns of all episodes that end in a sequence, and what the open episode has earned at its end.

    `paid` are discounted rewards, and `earned` is what the open episode had earned before the sequence.
    """
    # A step belongs to the episode that stays open if no end comes at it or after it.
    still_open = jnp.cumsum(done[::-1])[::-1] == 0
    before = jnp.where(still_open[0], 0.0, earned)
    after = jnp.sum(jnp.where(still_open, paid, 0.0)) + jnp.where(still_open[0], earned, 0.0)
    return before + jnp.sum(jnp.where(still_open, 0.0, paid)), after
