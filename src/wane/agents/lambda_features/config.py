"""The settings of λ-features."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from wane.agents import laplacian
from wane.settings import Checked, Count, Discount, Positive, Probability, Range, check_setting
from wane.types import Scalar

Target = Literal["product", "vector"]
Features = Literal["laplacian", "one-hot"]
Method = Literal["fitted", "online"]
Choice = Literal["actions", "policies"]


@dataclass(frozen=True)
class Config(Checked):
    """The paper's settings for pixels, and what it leaves out."""

    lam: Annotated[Scalar, Range(0, 1, "a λ")] = 0.5
    """λ as the agent believes: one number"""
    features: Features = "laplacian"
    """the base features φ: Laplacian ones, or one-hot states, whose λF is the λR"""
    base: laplacian.Config = field(default_factory=laplacian.Config)
    """what the agent sees and where its data come from, and the Laplacian features"""
    hidden: tuple[Annotated[int, Range(1, 100_000)], ...] = (128, 128)
    """units of the fully connected layers before the last one; the convolutions are those of the base features"""
    method: Method = "fitted"
    """fitted iteration on data (the paper's for pixels), or online TD along episodes (the paper's for the grid)"""
    target: Target = "product"
    """what fitted iteration regresses: wᵀφ_λ (the paper's Algorithm 2), or the vector φ_λ, which serves every w"""
    discount: Discount | None = None
    """γ; None takes the world's"""
    learning_rate: Positive = 3e-4
    batch: Count = 64
    """B: transitions of a gradient step of fitted iteration"""
    iterations: Count = 20
    """K: networks that are fitted one after the other"""
    epochs: Count = 100
    """L: passes through the data for each of them"""
    fresh: bool = True
    """whether each of them begins anew (the paper), or where the last one ended, which needs fewer epochs"""
    episodes: Count = 2000
    """episodes of TD, from every state in turn"""
    epsilon: Probability = 0.2
    """ε of TD: probability of a uniformly random action in place of the policy's"""
    refresh: bool = True
    """whether w is computed again at every step of an episode, from what remains of the rewards"""
    choose: Choice = "actions"
    """what is compared: all actions (the paper), or only the policies' own actions, about which the data say most"""

    def rules(self) -> None:
        """Raises SettingError for one-hot features of pictures."""
        fine = self.features == "laplacian" or not self.base.vision.is_picture
        check_setting(fine, self, "features", "laplacian is needed for pictures, because their states are unknown")
