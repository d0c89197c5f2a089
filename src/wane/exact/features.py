"""λ-features: the λ representation of features in place of states (the paper's definition of the λF).

A base feature φ_d(s) ∈ [0, 1] is a soft site. The λF of a kernel P is defined by

    φ_λ(s) = φ(s) ⊙ (1 + γλ E φ_λ(s')) + γ (1 − φ(s)) ⊙ E φ_λ(s'),        s' ~ P(·|s),

which is one linear system for each feature:

    (I − γ · diag(1 − (1 − λ) φ_d) · P) x = φ_d.

One-hot features give the λR, and the indicator of a set of states gives the patch of `wane.patch_representation`. The
paper does not say what a φ_d between 0 and 1 means. This is its meaning: at every step a coin is tossed, and with
probability φ_d(s) the step counts as a visit to feature d. After n counted visits the next one pays λⁿ, and φ_λ is the
expected discounted sum,

    φ_f(s) = E[ Σₖ γᵏ c_k f(c_0 + … + c_{k−1}) | s₀ = s ],        c_k ~ Bernoulli(φ_d(s_k)).

This sum is defined for every curve f over visit counts, so all of `wane.depletion` is accepted. It is not defined for
rewards that grow back with time (`wane.regrowth`), because a feature has a count but no clock.

A reward that lies in the span of the features, r̄ = φ w, has V = φ_λ w only for λ = 1. With λ < 1 the features wear off
instead of the rewarded states, so φ_λ w is the value of r̄ only if the features are one-hot.

    >>> ring = np.roll(np.eye(4), 1, axis=1)
    >>> lambda_features(ring, np.eye(4)[:, :1], 0.5, discount=0.9).matrix.ravel().round(3).tolist()
    [1.488, 1.085, 1.205, 1.339]
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import linalg, sparse

from wane.checks import check_range, is_traced
from wane.depletion import Diminishing, Geometric
from wane.exact.bellman import bellman_target
from wane.exact.dense_jax import solve_each_jax
from wane.exact.graph import recurrent_classes
from wane.exact.methods import Method
from wane.exact.patches import solve_column
from wane.exact.representations import check_parameters
from wane.kernels import KernelLike, check_kernel, check_operator, require_matrix
from wane.mdp import MDP, check_discount
from wane.sums import namespace
from wane.texts import brief
from wane.types import AnyArray, ArrayLike, Scalar


class LambdaFeatures(NamedTuple):
    """The λF of a kernel."""

    matrix: Float[AnyArray, "states features"]
    """φ_λ(s)"""
    features: Float[AnyArray, "states features"]
    """the base features φ(s)"""
    depletion: Diminishing
    discount: Scalar
    residual: Scalar
    """the largest relative residual of the linear systems behind it"""
    method: str
    """how these were solved"""

    __repr__ = brief

    def values(self, weights: ArrayLike) -> Float[AnyArray, " states"]:
        """Return φ_λ(s) · w."""
        return self.matrix @ self._check_weights(weights)

    def action_matrix(self, mdp: MDP) -> Float[AnyArray, "states actions features"]:
        """Return φ_λ(s, a): `a` is taken once and the kernel's policy afterwards. Only a geometric depletion has it."""
        lam = self.depletion.common_ratio
        if lam is None:
            raise TypeError(f"φ_λ(s, a) needs a Geometric depletion, this one is {self.depletion!r}")
        return bellman_target(mdp.backup(self.matrix), self.features[:, None], lam, self.discount)

    def q_values(self, mdp: MDP, weights: ArrayLike) -> Float[AnyArray, "states actions"]:
        """Return φ_λ(s, a) · w."""
        return self.action_matrix(mdp) @ self._check_weights(weights)

    def _check_weights(self, weights: ArrayLike) -> Float[AnyArray, " features"]:
        array = namespace(weights, self.matrix).asarray(weights, dtype=float)
        if array.shape != self.matrix.shape[1:]:
            raise ValueError(f"weights has shape {array.shape}: give one for each of {self.matrix.shape[1]} features")
        return array


def check_features(features: ArrayLike, n_states: int) -> Float[AnyArray, "states features"]:
    """Return features as an array (states, features). Raises a ValueError unless all of them lie in [0, 1]."""
    array: Any = namespace(features).asarray(features, dtype=float)
    if array.ndim != 2 or array.shape[0] != n_states or array.shape[1] == 0:
        raise ValueError(
            f"features has shape {array.shape}: give a row for each of {n_states} states, (states, features)"
        )
    return check_range(
        "features", array, 0, 1, "the λF is defined for φ in [0, 1], so scale each feature to that range"
    )


def lambda_features(
    kernel: KernelLike,
    features: ArrayLike,
    lam: ArrayLike | Diminishing,
    *,
    discount: Scalar,
    method: str | Method = "auto",
) -> LambdaFeatures:
    """Return the exact λF of any kernel and any base features (states, features) in [0, 1].

    `lam` is λ, one number or one for each feature, or any depletion that counts visits. A λ and a discount below 1 need
    only products with the kernel, so it may be a SciPy `LinearOperator`. JAX arrays give JAX arrays, and
    `jit`, `vmap` and `grad` work for a λ and a discount below 1.
    """
    checked, discount = check_operator(kernel), check_discount(discount)
    phi = check_features(features, checked.shape[0])
    depletion: Any = lam if isinstance(lam, Diminishing) else _geometric(lam)
    depletion = check_parameters(depletion, phi.shape[1])
    if isinstance(checked, jax.Array) or is_traced(phi, discount) or isinstance(phi, jax.Array):
        return _with_jax(checked, phi, depletion, discount)
    columns = [
        solve_column(checked, phi[:, d], depletion.at_sites(d), float(discount), method) for d in range(phi.shape[1])
    ]
    matrix = np.stack([column for column, _, _ in columns], axis=1)
    residual = max(residual for _, residual, _ in columns)
    return LambdaFeatures(matrix, phi, depletion, discount, residual, columns[0][2])


def _geometric(lam: Any) -> Geometric:
    """Return the depletion λⁿ. Raises a TypeError for depletions that do not count visits."""
    if hasattr(lam, "worth"):
        raise TypeError(
            f"the λF has no meaning for {lam!r}: a feature remembers how often it was counted and not when; take a λ, "
            "or a depletion that counts visits"
        )
    return Geometric(lam)


def _with_jax(kernel: Any, phi: Any, depletion: Any, discount: Any) -> LambdaFeatures:
    """Solve all systems at once with JAX. Raises InaccurateSolve for a bad solution, which is NaN while JAX traces."""
    lam = depletion.common_ratio
    if lam is None:
        raise TypeError(f"JAX arrays need a λ, not {depletion!r}: give NumPy arrays for other curves over visit counts")
    kernel = require_matrix(kernel, "a λF in JAX")
    kernel = jnp.asarray(kernel.toarray() if sparse.issparse(kernel) else kernel)
    phi = jnp.asarray(phi, kernel.dtype)
    # A known λ has 64 bits, so 1 − λ keeps its digits in 32 bits too. 1 − weight is a sum in which nothing cancels.
    weights, leaks = discount * ((1 - phi) + lam * phi), (1 - discount) + discount * (1 - lam) * phi
    matrix, residuals = solve_each_jax(kernel, phi, weights, leaks, "the λF")
    return LambdaFeatures(matrix, phi, depletion, discount, residuals.max(), "dense (JAX)")


class Eigenfunctions(NamedTuple):
    """The smoothest functions on a chain."""

    functions: Float[np.ndarray, "states count"]
    """the functions, orthonormal under `weights`; the first one is constant where the chain is connected"""
    eigenvalues: Float[np.ndarray, " count"]
    """½ E (f(s) − f(s'))² of each function, in increasing order"""
    weights: Float[np.ndarray, " states"]
    """how often each state occurs"""

    __repr__ = brief

    def unit_range(self) -> Float[np.ndarray, "states count"]:
        """Return the functions shifted and scaled to [0, 1], as the λF needs them; a constant one becomes 1."""
        low, high = self.functions.min(0), self.functions.max(0)
        return np.where(high - low > 1e-9, (self.functions - low) / np.maximum(high - low, 1e-9), 1.0)


def eigenfunctions(kernel: KernelLike, count: int, weights: ArrayLike | None = None) -> Eigenfunctions:
    """Return the first eigenfunctions of the Laplacian of a chain, which learned Laplacian features approximate.

    They minimise ½ E (f(s) − f(s'))² over functions that are orthonormal, E f_i f_j = 1(i = j), where s has the
    distribution `weights` (by default the stationary one) and s' ~ P(·|s). Raises a ValueError if some states have no
    weight or the chain has no single stationary distribution.
    """
    dense = check_kernel(kernel)
    dense = np.asarray(dense.toarray() if sparse.issparse(dense) else dense, float)
    n = len(dense)
    if not 1 <= count <= n:
        raise ValueError(f"count is a number of functions, 1 to {n} (the number of states), got {count}")
    rho = _stationary(dense) if weights is None else np.asarray(weights, float)
    if rho.shape != (n,) or not np.all(rho > 0):
        raise ValueError(f"weights must be above 0, one for each of {n} states: leave out states that never occur")
    rho = rho / rho.sum()
    flow = rho[:, None] * dense
    laplacian = np.diag((flow.sum(1) + flow.sum(0)) / 2) - (flow + flow.T) / 2
    values, functions = linalg.eigh(laplacian, np.diag(rho), subset_by_index=(0, count - 1))
    return Eigenfunctions(functions, np.maximum(values, 0.0), rho)


def _stationary(kernel: Float[np.ndarray, "states states"]) -> Float[np.ndarray, " states"]:
    """Return the stationary distribution. Raises a ValueError unless all states form one recurrent class."""
    classes = recurrent_classes(kernel)
    if len(np.unique(classes)) > 1 or classes[0] < 0:
        raise ValueError("the chain does not visit all states for ever: give `weights`, how often each state occurs")
    system = np.eye(len(kernel)) - kernel.T
    system[0] = 1
    return np.linalg.solve(system, np.eye(len(kernel))[0])


def principal_angles(
    ours: ArrayLike, theirs: ArrayLike, weights: ArrayLike | None = None
) -> Float[np.ndarray, " dimensions"]:
    """Return the angles between the spans of two sets of functions (states, functions), in degrees, smallest first.

    All angles are 0 if one span contains the other. `weights` says how often each state occurs.
    """
    one, other = (np.asarray(functions, float) for functions in (ours, theirs))
    if one.ndim != 2 or other.ndim != 2 or len(one) != len(other):
        raise ValueError(f"give two arrays (states, functions) of the same states, got {one.shape} and {other.shape}")
    root = np.ones(len(one)) if weights is None else np.sqrt(np.asarray(weights, float))
    angles = linalg.subspace_angles(*(linalg.orth(root[:, None] * functions) for functions in (one, other)))
    return np.degrees(angles)[::-1]
