"""The paper's Bellman operator (its definition 4.2), and dynamic programming with it.

    (G_λ Φ)(s, s') = 1(s = s') (1 + γ λ(s') (PΦ)(s, s')) + 1(s ≠ s') γ (PΦ)(s, s')

Started at Φ⁰ = (1 − λ) I it converges to the λR. The paper bounds the error after k steps by γ^(k+1) / (1 − λγ); on
the diagonal that is too small, and γ^k / (1 − λγ) is right (`wane.exact.bounds.convergence`). Iteration is here to be
watched: to have the λR, `wane.lambda_representation` is exact and far faster.

The state–action form replaces PΦ by E[Φ(s₁, a₁) | s, a] with a₁ drawn from the policy in s₁. All functions act on
NumPy, SciPy sparse and JAX alike, and on any selection of columns (sites).
"""

from typing import Any, NamedTuple

import numpy as np

from wane.depletion import Geometric, namespace
from wane.exact.bounds import convergence
from wane.exact.representation import check_parameters
from wane.mdp import MDP, check_discount, check_kernel, check_policy, check_sites


def operator(ahead: Any, here: Any, lam: Any, discount: Any) -> Any:
    """G_λ, given what is ahead, E Φ(s₁, ·), and `here`, which is 1 where the state is the site of the column."""
    return here + discount * (1 - (1 - lam) * here) * ahead


def step(phi: Any, kernel: Any, lam: Any, discount: Any, sites: Any = None) -> Any:
    """One application of G_λ to Φ of shape (states, sites)."""
    return operator(kernel @ phi, _here(phi, sites), lam, discount)


def action_step(phi: Any, mdp: MDP, policy: Any, lam: Any, discount: Any, sites: Any = None) -> Any:
    """One application of the state–action form to Φ of shape (states, actions, sites)."""
    xp = namespace(phi, policy)
    next_action = xp.einsum("sa,sak->sk", _probabilities(policy, mdp), phi)
    return operator(mdp.backup(next_action), _here(phi[:, 0], sites)[:, None], lam, discount)


class Iteration(NamedTuple):
    matrix: Any
    """the last Φ"""
    errors: np.ndarray
    """max |Φᵏ⁺¹ − Φᵏ|, the Bellman error, for k = 0, 1, …"""
    bound: float
    """how far from the λR the last Φ can be"""


def iterate(
    kernel: Any,
    lam: Any,
    *,
    discount: float,
    sites: Any = None,
    mdp: MDP | None = None,
    tolerance: float = 1e-10,
    stop: str = "error",
    max_steps: int = 100_000,
) -> Iteration:
    """Applies G_λ from (1 − λ) I until the Bellman error is below `tolerance`.

    With stop="bound" it instead takes as many steps as the corrected bound asks for, so that the answer is known to
    be within `tolerance`. With `mdp`, `kernel` is a policy and the state–action form is iterated.
    """
    lam, discount = Geometric(lam).lam, check_discount(discount)
    if stop not in ("error", "bound"):
        raise ValueError(f'stop is "error" or "bound", got {stop!r}')
    n = mdp.n_states if mdp else check_kernel(kernel).shape[0]
    sites = check_sites(sites, n)
    check_parameters(Geometric(lam), len(sites))
    if stop == "bound" and discount == 1:
        raise ValueError("with discount 1 the bound does not shrink: use stop='error', or wane.lambda_representation")
    here = (np.arange(n)[:, None] == sites).astype(float)
    phi = (1 - lam) * here
    policy = check_policy(kernel, n, mdp.n_actions) if mdp else None
    if mdp:
        phi = np.repeat(phi[:, None], mdp.n_actions, axis=1)
    else:
        kernel = check_kernel(kernel)
    errors: list[float] = []
    while not _done(errors, lam, discount, tolerance, stop):
        if len(errors) >= max_steps:
            raise ValueError(
                f"after {max_steps} steps the Bellman error is {errors[-1] if errors else np.inf:.1e}, above "
                f"{tolerance:.1e}: raise "
                "max_steps or the "
                "tolerance, or use wane.lambda_representation, which needs no iteration"
            )
        ahead = action_step(phi, mdp, policy, lam, discount, sites) if mdp else step(phi, kernel, lam, discount, sites)
        errors.append(float(abs(ahead - phi).max()))
        phi = ahead
    return Iteration(phi, np.array(errors), float(np.max(convergence(len(errors), lam, discount))))


def _done(errors: list[float], lam: Any, discount: float, tolerance: float, stop: str) -> bool:
    if stop == "bound":
        return bool(np.max(convergence(len(errors), lam, discount)) <= tolerance)
    return bool(errors) and errors[-1] <= tolerance


def _here(phi: Any, sites: Any) -> Any:
    sites = np.arange(phi.shape[1]) if sites is None else sites
    return (np.arange(phi.shape[0])[:, None] == sites).astype(float)


def _probabilities(policy: Any, mdp: MDP) -> Any:
    return policy if policy.ndim == 2 else np.eye(mdp.n_actions)[policy]
