"""What SAC learns, compared with Stable-Baselines3's SAC: returns with the same settings and number of seeds.

The settings are two critics, two hidden layers of 256, Adam 3e-4, batches of 256, τ 5e-3, γ 0.99, random actions for
the first steps, one update a step, α learned towards an entropy of −dim A, and limits of the log standard deviation, as
in Stable-Baselines3. Both are evaluated with their mean action, every 1,000 steps, on separate episodes. The script
prints the mean of the last evaluations with its 95 % interval for both, keeps the curves in results/sac_returns.json,
and exits with 1 if the intervals do not overlap.

    python -m benchmarks.sac_returns [TASK] [STEPS] [SEEDS]       # Pendulum-v1, 10,000 steps, 5 seeds
    python -m benchmarks.sac_returns theirs TASK STEPS SEED       # one seed of Stable-Baselines3
    python -m benchmarks.sac_returns --quick                      # our side for a moment; prints, keeps nothing
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EVERY, EPISODES, LAST = 1000, 10, 3
"""Steps between evaluations, episodes of an evaluation, and how many last evaluations are averaged."""
WARM = 1000
"""The number of steps with random actions before the first update."""


def theirs(task: str, steps: int, seed: int) -> list[float]:
    """Returns the mean return of each evaluation of Stable-Baselines3's SAC."""
    import gymnasium
    import numpy as np
    import torch
    from stable_baselines3 import SAC
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    torch.set_num_threads(1)
    settings = dict(learning_rate=3e-4, buffer_size=1_000_000, learning_starts=WARM, batch_size=256, tau=5e-3)
    model = SAC("MlpPolicy", task, policy_kwargs=dict(net_arch=[256, 256]), gamma=0.99, seed=seed, **settings)
    tests, found = Monitor(gymnasium.make(task)), []
    tests.reset(seed=1000 + seed)
    for _ in range(steps // EVERY):
        model.learn(EVERY, reset_num_timesteps=False)
        returns, _ = evaluate_policy(model, tests, EPISODES, return_episode_rewards=True)
        found.append(float(np.mean(returns)))
    return found


def ours(task: str, steps: int, seeds: int) -> list[list[float]]:
    """Returns the mean return of each evaluation of our SAC for each seed. All seeds are one program."""
    import jax
    import numpy as np

    from wane.agents.sac import Config, Learners
    from wane.lab.contract import seed_keys
    from wane.worlds.control import ControlTask

    config = Config(
        critics=2,
        adaptive=False,
        lambda_features=False,
        spread="deviation",
        random_steps=WARM,
        collection_steps=WARM,
        steps=EVERY,
        evaluation_episodes=EPISODES,
        replay=max(steps, 256),
    )
    learners = Learners(seed_keys(range(seeds)), ControlTask(task), config)
    states, found = learners.init(), []
    for number in range(steps // EVERY):
        states, info = learners.epoch(states, number)
        jax.block_until_ready(states)
        found.append(info.greedy)
    return np.stack(found, 1).tolist()


def main(task: str = "Pendulum-v1", steps: str = "10000", seeds: str = "5") -> int:
    from benchmarks.beside import peer_python
    from wane.lab.statistics import bootstrap

    command = [peer_python("stable_baselines3"), "-P", __file__, "theirs", task, steps]

    def run_theirs(seed: int) -> list[float]:
        told = subprocess.run([*command, str(seed)], check=True, stdout=subprocess.PIPE, text=True).stdout
        return json.loads(told.splitlines()[-1])

    curves = {"wane": ours(task, int(steps), int(seeds))}
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        curves["Stable-Baselines3"] = list(threads.map(run_theirs, range(int(seeds))))
    ends = {name: bootstrap([sum(run[-LAST:]) / LAST for run in runs]) for name, runs in curves.items()}
    for name, end in ends.items():
        print(f"{name}, {task}, {steps} steps, {seeds} seeds: {end}")
    path = Path(__file__).parent / "results" / "sac_returns.json"
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    kept[task] = {"steps": int(steps), "every": EVERY, "curves": curves, "ends": {n: list(e) for n, e in ends.items()}}
    path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    ours_end, theirs_end = ends.values()
    return int(ours_end.high < theirs_end.low or theirs_end.high < ours_end.low)


if __name__ == "__main__":
    if sys.argv[1:2] == ["theirs"]:
        print(json.dumps(theirs(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    elif sys.argv[1:2] == ["--quick"]:
        print(f"after {EVERY} random steps: {ours('Pendulum-v1', EVERY, 1)}; Stable-Baselines3's SAC is left out")
    else:
        sys.exit(main(*sys.argv[1:]))
