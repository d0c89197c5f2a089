"""Continuous control: tasks that are simulated on the host, many copies at once.

| task | stepped by |
| --- | --- |
| Pendulum-v1 | NumPy; it needs no extra package |
| HalfCheetah-v5, Hopper-v5 | MuJoCo's threaded roll-outs (`wane[control]`) |
| wane/PointMass-v0 | the same: a mass that collects from sites, whose rewards may wear off |
| any other id of Gymnasium with vectors of floats | Gymnasium's vector API |
"""

from typing import TYPE_CHECKING

from wane.lazy import attach

if TYPE_CHECKING:
    from wane.worlds.control.task import (
        OWN,
        ControlTask,
        Copies,
        Outcome,
        describe,
        episode_seed,
        from_description,
    )

__all__ = ["OWN", "ControlTask", "Copies", "Outcome", "describe", "episode_seed", "from_description"]

RENAMED = {"Task": "wane.worlds.control.ControlTask", "Batch": "wane.worlds.control.Copies"}
__getattr__, __dir__ = attach(__name__, RENAMED)
