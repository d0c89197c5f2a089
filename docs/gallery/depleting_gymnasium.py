"""A Gymnasium environment made depleting.

Any environment of Gymnasium can be made to wear off. Say where a reward comes from, and how it wears off. Here CartPole
pays for holding the pole on each of its two sides, and each side gets boring by itself.
"""

import gymnasium
from matplotlib.figure import Figure

import wane
from wane.worlds import Depleting


def side(observation, action, info):
    """Returns the place of a reward: the side to which the pole leans."""
    return int(observation[2] > 0)


def balance(observation):
    """Returns the action that pushes the cart under the pole."""
    return int(observation[2] + 0.5 * observation[3] > 0)


depletions = {"geometric, λ = 0.95": wane.Geometric(0.95), "hyperbolic": wane.Hyperbolic(0.05)}
figure = Figure(figsize=(6.5, 3.2), layout="constrained")
axes = figure.subplots()
for name, depletion in depletions.items():
    pole = Depleting(gymnasium.make("CartPole-v1"), depletion, site=side)
    observation, _ = pole.reset(seed=0)
    rewards = []
    for _ in range(120):
        observation, reward, terminated, truncated, _ = pole.step(balance(observation))
        rewards.append(reward)
        if terminated or truncated:
            break
    print(f"{name}: {sum(rewards):.1f} in {len(rewards)} steps")
    axes.plot(rewards, label=name)
axes.axhline(1, color="grey", lw=1, label="CartPole itself")
axes.set(xlabel="step", ylabel="reward", ylim=(0, 1.05))
axes.legend()
figure.savefig("pole.png", dpi=120)
