"""The settings of soft actor–critic and of λ-SAC."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from jaxtyping import ArrayLike

from wane.agents.bandit import Config as Bandit
from wane.checks import is_traced
from wane.settings import DISTINCT, Checked, Count, Finite, Lambda, Positive, Range, Share, check_setting, renamed
from wane.types import Flag, Integer, Scalar

BANDIT = Bandit()
Ranges = Literal["dimension", "global", "running"]
Spread = Literal["variance", "deviation"]


@renamed(feature_weight="lambda_features", memory="replay")
@dataclass(frozen=True)
class Config(Checked):
    """The paper's settings, and what it leaves out.

    JAX may trace `critics`, `lam`, `adaptive`, `lambda_features` and `bandit.averaging`, so agents that differ in them
    are trained by one program.
    """

    critics: Annotated[Integer, Range(1, 2)] = 1
    """how many critics there are: of two, the lower value counts"""
    lam: Annotated[Scalar, Range(0, 1, "a λ")] = 1.0
    """λ of the values' target; 1 is the target of plain SAC"""
    adaptive: Flag = True
    """whether the bandit draws λ out of `lambdas` for each episode, in place of `lam`"""
    lambda_features: Flag = True
    """whether there is a λF; without it λ must be 1"""
    lambdas: Annotated[tuple[Lambda, ...], DISTINCT] = (0.0, 0.5, 1.0)
    """the arms of the bandit"""
    bandit: Bandit = BANDIT
    ranges: Ranges = "dimension"
    """what features are scaled to [0, 1] by: the range of each of them in the batch (the paper), the range of all of
    them together in the batch (the authors' code), or the range of each in all batches so far"""
    ridge: Positive = 1e-6
    """what is added to the diagonal of XᵀX / B in the regression of rewards, so that collinear features can be solved
    for; it is a fraction of the mean of that diagonal, and at least 2e-4 in 32 bits"""
    discount: Annotated[float, Range(0, 1, "a discount", below=True)] = 0.99
    """γ"""
    hidden: tuple[Count, ...] = (256, 256)
    """units of the hidden layers of all networks; there is at least one"""
    networks: Annotated[int, Range(2, 3)] = 2
    """networks beside the policy: a critic, and a second critic or the λF; 3 for agents with two critics and a λF"""
    learning_rate: Positive = 3e-4
    batch: Count = 256
    """transitions of a gradient step"""
    replay: Annotated[int, Range(1, 1_000_000_000)] = 1_000_000
    """transitions that are kept"""
    polyak: Share = 5e-3
    """how far target networks move towards the networks at each update"""
    random_steps: Annotated[int, Range(0, 1_000_000_000)] = 10_000
    """steps with uniformly random actions"""
    collection_steps: Annotated[int, Range(1, 1_000_000_000)] = 1_000
    """steps before the first update"""
    entropy: Finite | None = None
    """target of the policy's entropy; None takes −(numbers of an action)"""
    temperature: Positive = 1.0
    """α before the first update"""
    limits: tuple[Finite, Finite] = (-20.0, 2.0)
    """limits of the policy's log-variance"""
    spread: Spread = "variance"
    """what the limits are of: the log-variance (the paper's words), or the log of the standard deviation (as in
    Stable-Baselines3 and the first implementations of SAC, which have the same numbers)"""
    epochs: Count = 1_000
    """parts of the training, with an evaluation after each"""
    steps: Count = 1_000
    """steps of an epoch; each comes with one update of the critics, the λF, the policy and α"""
    block: Count = 1
    """steps that are taken with one policy, followed by as many updates in one program; more are faster on a GPU"""
    evaluation_episodes: Count = 1
    """episodes of an evaluation, with the mean action; nothing is learned from them"""

    def rules(self) -> None:
        """Raises SettingError for settings that contradict each other, such as a λ < 1 without a λF."""
        needed = "a lower limit and then a higher one are needed, because what is outside of them is cut off"
        check_setting(self.limits[0] < self.limits[1], self, "limits", needed)
        for name in ("steps", "collection_steps"):
            whole = f"a multiple of block = {self.block:,} is needed, because steps are taken in blocks"
            check_setting(getattr(self, name) % self.block == 0, self, name, whole)
        check_setting(len(self.hidden) > 0, self, "hidden", "at least one layer is needed")
        needed = f"at least {self.batch:,} is needed, because that is a batch"
        check_setting(self.replay >= self.batch, self, "replay", needed)
        if not is_traced(self.lambda_features, self.adaptive, self.lam):
            fine = bool(self.lambda_features or (not self.adaptive and self.lam == 1))
            needed = "True is needed, because the target of λ < 1 is made of the λF"
            check_setting(fine, self, "lambda_features", needed)

    @property
    def has_features(self) -> bool:
        """Whether a program must compute the λF: it must, unless the agent is known to have none."""
        return is_traced(self.lambda_features) or bool(self.lambda_features)

    @property
    def n_critics(self) -> int:
        """How many critics a program must compute: two, unless the agent is known to have one."""
        return 2 if is_traced(self.critics) or self.critics > 1 else 1

    @property
    def n_networks(self) -> int:
        """How many networks a program must compute, critics and λF together."""
        known = not is_traced(self.critics, self.lambda_features)
        # With two networks, an agent's networks are always the first ones.
        return self.n_critics + self.has_features if known and self.networks == 2 else self.networks

    def require_networks(self, critics: ArrayLike, lambda_features: ArrayLike) -> None:
        """Raises SettingError if some agent has two critics and a λF, but the settings have only two networks."""
        needed = int(np.max(np.asarray(critics) + np.asarray(lambda_features)))
        reason = f"{needed} are needed, because an agent has two critics and a λF"
        check_setting(needed <= self.networks, self, "networks", reason)
