"""Gradients through λ.

With a JAX kernel the representation is differentiable in λ, in the discount, in the kernel and in the rewards. So λ can
be fitted to behaviour. Here the returns of a forager are known, and its λ is found by gradient descent.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import wane

walk = jnp.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
rewards = jnp.array([1.0, 0.0, 2.0])


def values(lam):
    """Returns the values of a forager whose rewards wear off by λ."""
    return wane.representation(walk, wane.Geometric(lam), discount=0.9).values(rewards)


observed = values(0.7)


@jax.jit
def step(logit):
    """Returns λ after one step of gradient descent on the squared error. The logit keeps λ between 0 and 1."""
    loss, slope = jax.value_and_grad(lambda z: ((values(jax.nn.sigmoid(z)) - observed) ** 2).mean())(logit)
    return logit - 0.3 * slope, loss


logit, lambdas, losses = jnp.array(-2.0), [], []
for _ in range(60):
    lambdas.append(float(jax.nn.sigmoid(logit)))
    logit, loss = step(logit)
    losses.append(float(loss))
print(f"found λ = {lambdas[-1]:.3f}")

# %%
figure = Figure(figsize=(8, 2.8), layout="constrained")
left, right = figure.subplots(1, 2)
left.plot(lambdas)
left.axhline(0.7, color="grey", lw=1)
left.set(xlabel="step", ylabel="λ", ylim=(0, 1))
right.semilogy(np.maximum(losses, 1e-12))
right.set(xlabel="step", ylabel="squared error")
figure.savefig("gradients.png", dpi=120)
