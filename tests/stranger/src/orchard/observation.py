"""An observation: the state number on a clock with a few hours, so that some states look alike."""

from dataclasses import dataclass

import jax.numpy as jnp


@dataclass(frozen=True)
class Clock:
    """The state number modulo the number of hours, as a hand of two numbers."""

    hours: int = 12
    remaining: bool = False
    flat: bool = False

    def see(self, world, cell, facing, worth):
        angle = 2 * jnp.pi * (cell % self.hours) / self.hours
        return jnp.stack([jnp.sin(angle), jnp.cos(angle)])
