"""Continuous control: tasks that are simulated on the host, in batches.

| task | stepped by |
| --- | --- |
| Pendulum-v1 | NumPy; it needs no extra package |
| HalfCheetah-v5, Hopper-v5 | MuJoCo's threaded roll-outs (`wane[control]`) |
| wane/PointMass-v0 | the same: a mass that collects from sites, whose rewards may wear off |
| any other id of Gymnasium with vectors of floats | Gymnasium's vector API |
"""

from wane.worlds.control.task import OWN, Batch, Outcome, Task, describe, episode_seed, from_description

__all__ = ["OWN", "Batch", "Outcome", "Task", "describe", "episode_seed", "from_description"]
