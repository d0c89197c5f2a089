"""A model of an animal: it leaves a patch when it is bored, whatever the patch still holds."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from wane.foraging import Model, Parameter


@dataclass(frozen=True)
class Boredom(Model):
    """Log-odds of leaving that rise with the root of the number of harvests."""

    def parameters(self, task):
        return [Parameter("half", 0, np.inf, typical=5), Parameter("slope", 0, np.inf, typical=1)]

    def leaving(self, params, decisions, task):
        return params["slope"] * (jnp.sqrt(decisions.harvests) - jnp.sqrt(params["half"]))
