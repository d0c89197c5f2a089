"""λ-SAC, tiny.

λ-SAC is soft actor–critic with one critic, whose target is that of a reward that wears off; a bandit chooses λ. Here
three kinds of agents swing up a pendulum with networks of 32 units for 400 steps, which is far too short to learn, but
shows how many agents are trained by one program. The real comparison is the experiment `sac`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from wane.agents import sac
from wane.worlds.control import ControlTask

task = ControlTask("Pendulum-v1", horizon=100)
config = sac.Config(
    hidden=(32,), batch=32, replay=2_000, random_steps=100, collection_steps=100, steps=100, learning_rate=3e-3
)
kinds = {
    "two critics": sac.Variant(critics=2),
    "one critic": sac.Variant(),
    "λ-SAC": sac.Variant(adaptive=True, lambda_features=True),
}
variants = sac.Variant(*(jnp.asarray(column) for column in zip(*kinds.values(), strict=True)))
learners = sac.Learners(jax.random.split(jax.random.key(0), 3), task, config, variants)
states, greedy = learners.init(), []
for epoch in range(4):
    states, info = learners.epoch(states, epoch)
    greedy.append(info.greedy)
print("probabilities of the bandit's arms:", np.round(info.probabilities[2], 2))

# %%
figure = Figure(figsize=(6, 3), layout="constrained")
axes = figure.subplots()
for number, name in enumerate(kinds):
    axes.plot(100 * np.arange(1, 5), np.array(greedy)[:, number], "o-", label=name)
axes.set(xlabel="steps", ylabel="return of an evaluation")
axes.legend()
figure.savefig("sac.png", dpi=120)
