"""SAC of Stable-Baselines3 or of SBX on Pendulum-v1, in a process that waits between timings: a peer of sac.py.

Both have the settings of our agent: two critics, two hidden layers of 256, batches of 256, and one update a step.

    python -m benchmarks.sb3_sac stable_baselines3 STEPS        # prints "ready", then seconds for each line "go"
    python -m benchmarks.sb3_sac sbx STEPS
"""

import importlib
import sys
import time

SETTINGS = dict(
    learning_rate=3e-4,
    buffer_size=100_000,
    learning_starts=300,
    batch_size=256,
    tau=5e-3,
    gamma=0.99,
    train_freq=1,
    gradient_steps=1,
    ent_coef="auto",
    seed=0,
)


def main(library: str, steps: int) -> None:
    if library == "stable_baselines3":
        import torch

        torch.set_num_threads(2)
    model = importlib.import_module(library).SAC(
        "MlpPolicy", "Pendulum-v1", policy_kwargs=dict(net_arch=[256, 256]), **SETTINGS
    )
    model.learn(600)
    print("ready", flush=True)
    for _ in iter(input, "stop"):
        start = time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
