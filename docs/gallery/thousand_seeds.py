"""An agent in JAX, over 1,000 seeds.

Training is a pure function of a key. So 1,000 runs are one `vmap`, and one program learns all of them at once. The
agents learn in two rooms with three rewards that wear off, and differ in the λ that they believe in.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from wane.agents import q_lambda
from wane.worlds import make

world = make("two-rooms-7", horizon=40)


def learn(key, lam):
    """Returns the returns of greedy episodes, one after every 20 episodes of learning."""
    return q_lambda.train(key, world, q_lambda.Config(lam=lam, episodes=100))[1].greedy


seeds, beliefs = jax.random.split(jax.random.key(0), 1000), jnp.array([0.5, 1.0])
returns = np.asarray(jax.jit(jax.vmap(jax.vmap(learn, (None, 0)), (0, None)))(seeds, beliefs))
print(returns.shape, "(seeds, beliefs, evaluations)")

# %%
# With so many seeds the whole distribution can be seen, and not only its mean.
figure = Figure(figsize=(6.5, 3.4), layout="constrained")
axes = figure.subplots()
episodes = 20 * (1 + np.arange(returns.shape[-1]))
for i, (lam, colour) in enumerate(zip(beliefs, ("tab:blue", "tab:orange"), strict=True)):
    low, middle, high = np.quantile(returns[:, i], [0.1, 0.5, 0.9], axis=0)
    axes.fill_between(episodes, low, high, alpha=0.2, color=colour, lw=0)
    axes.plot(episodes, middle, color=colour, label=f"believes in λ = {float(lam):g}")
axes.set(xlabel="episodes of learning", ylabel="return, median and 80 % of the seeds")
axes.legend()
figure.savefig("seeds.png", dpi=120)
