"""RecurrentPPO of sb3-contrib on TwoRooms, in a process that waits between timings: the peer of a2c.py.

It takes as many gradient steps as our agent: one on each sequence of 32 steps, with one LSTM of 128 units that
the policy and the value share, and linear heads.

    python -m benchmarks.sb3_recurrent STEPS        # prints "ready", then seconds for each line "go"
"""

import sys
import time

import gymnasium
import torch
from sb3_contrib import RecurrentPPO

import wane.worlds.gym  # noqa: F401  (registers the worlds)


def main(steps: int) -> None:
    env = gymnasium.make("wane/TwoRooms-v0", observation="index+flat", discount=0.99)
    network = dict(net_arch=[], lstm_hidden_size=128, shared_lstm=True, enable_critic_lstm=False)
    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        learning_rate=3e-4,
        n_steps=32,
        batch_size=32,
        n_epochs=1,
        gamma=0.99,
        gae_lambda=0.9,
        ent_coef=0.01,
        policy_kwargs=network,
        device="auto",
        seed=0,
    )
    torch.set_num_threads(1)  # The matrices are small: a second thread only waits, on a busy machine for seconds.
    model.learn(128)
    print("ready", flush=True)
    for _ in iter(input, "stop"):
        start = time.perf_counter()
        model.learn(steps)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
