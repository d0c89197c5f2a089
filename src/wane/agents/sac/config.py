"""The settings of soft actor–critic and of λ-SAC."""

from dataclasses import dataclass
from typing import Annotated, Literal

from wane.agents.bandit import Config as Bandit
from wane.checks import is_traced
from wane.settings import DISTINCT, Checked, Count, Finite, Lambda, Positive, Range, Share, check_setting
from wane.types import Scalar

BANDIT = Bandit()
Ranges = Literal["dimension", "global", "running"]
Spread = Literal["variance", "deviation"]


@dataclass(frozen=True)
class Config(Checked):
    """The paper's settings, and what it leaves out.

    Settings that are a `Scalar` may be traced, so agents that differ in them are trained by one program.
    """

    critics: Annotated[Scalar, Range(1, 2)] = 1
    """how many critics there are: of two, the lower value counts"""
    lam: Annotated[Scalar, Range(0, 1, "a λ")] = 1.0
    """λ of the values' target; 1 is the target of plain SAC"""
    adaptive: Annotated[Scalar, Range(0, 1)] = 1
    """1: the bandit draws λ out of `lambdas` for each episode; 0: λ is `lam`"""
    feature_weight: Annotated[Scalar, Range(0, 1)] = 1
    """weight of the λF's loss; with 0 there is no λF, and λ must be 1"""
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
    memory: Annotated[int, Range(1, 1_000_000_000)] = 1_000_000
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
        """Raises SettingError for limits in the wrong order, a memory smaller than a batch, a λ < 1 without a λF.

        It also raises SettingError for steps that are not whole blocks, for networks without hidden layers, and for a
        number of critics that is not 1 or 2.
        """
        needed = "a lower limit and then a higher one are needed, because what is outside of them is cut off"
        check_setting(self.limits[0] < self.limits[1], self, "limits", needed)
        for name in ("steps", "collection_steps"):
            whole = f"a multiple of block = {self.block:,} is needed, because steps are taken in blocks"
            check_setting(getattr(self, name) % self.block == 0, self, name, whole)
        if not is_traced(self.critics):
            check_setting(bool(self.critics in (1, 2)), self, "critics", "1 or 2 is needed")
        check_setting(len(self.hidden) > 0, self, "hidden", "at least one layer is needed")
        check_setting(
            self.memory >= self.batch, self, "memory", f"at least {self.batch:,} is needed, because that is a batch"
        )
        if not any(map(is_traced, (self.feature_weight, self.adaptive, self.lam))):
            plain = self.adaptive == 0 and self.lam == 1
            needed = "a weight above 0 is needed, because the target of λ < 1 is made of the λF"
            check_setting(bool(self.feature_weight > 0 or plain), self, "feature_weight", needed)
