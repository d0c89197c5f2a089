"""Stable-Baselines3 on a world of this package.

`wane.worlds.sb3.VecWorld` is a batch of copies of a world as Stable-Baselines3 wants it. The picture shows what PPO
earns beside GPI and the optimum. Where Stable-Baselines3 is not installed, PPO is left out, and a sentence says so.
"""

import jax
import numpy as np
from matplotlib.figure import Figure

from wane.agents import gpi
from wane.worlds import make

try:
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
except ImportError:
    PPO = None

rooms = make("four-rooms-7")
starts = np.arange(rooms.n_states)
uniform = np.full((rooms.n_states, rooms.n_actions), 1 / rooms.n_actions)
phi = gpi.representations(rooms)
earned = {
    "random walk": rooms.values(uniform).mean(),
    "GPI": float(gpi.discounted_returns(jax.random.key(0), rooms, phi, starts).mean()),
    "optimum": rooms.optimum().values.mean(),
}

# %%
if PPO is None:
    print("Stable-Baselines3 is not installed, so PPO is left out: pip install 'wane[sb3]'")
else:
    from stable_baselines3.common.vec_env import VecMonitor

    from wane.worlds.sb3 import VecWorld

    copies = VecMonitor(VecWorld("four-rooms-7", num_envs=32, observation="index+remaining+flat"))
    agent = PPO("MlpPolicy", copies, n_steps=64, batch_size=512, n_epochs=4, learning_rate=1e-3, seed=0)
    agent.learn(16_384)
    print("PPO, undiscounted:", round(float(evaluate_policy(agent, copies, n_eval_episodes=64)[0]), 2))

# %%
figure = Figure(figsize=(6, 2.4), layout="constrained")
axes = figure.subplots()
axes.barh(list(earned), list(earned.values()))
axes.set(xlabel="discounted return, mean over all starts")
figure.savefig("bars.png", dpi=120)
