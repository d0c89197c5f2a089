"""Names for the types that appear in many signatures.

Shapes are written with jaxtyping: `Float[Array, "states sites"]` is an array of floats with two axes. The tests check
them at run time (`conftest.py` switches beartype on for the whole package).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jaxtyping
import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

AnyArray = np.ndarray | jax.Array
"""A NumPy or JAX array."""
Integer = int | np.integer | jaxtyping.Integer[AnyArray, ""]
"""A whole number: Python's, NumPy's, or an array without axes (which JAX may be tracing)."""
Scalar = float | int | np.number | Float[AnyArray, ""] | jaxtyping.Integer[AnyArray, ""]
"""A number: Python's, NumPy's, or an array without axes (which JAX may be tracing)."""
Flag = bool | np.bool_ | Bool[AnyArray, ""]
"""True or False: Python's, NumPy's, or an array without axes (which JAX may be tracing)."""
ArrayLike = AnyArray | Scalar | bool | Sequence
"""Whatever NumPy can turn into an array of numbers: an array, a number, a list, a list of lists."""
Real = float | int | np.floating | np.integer
"""A number whose value is known: Python's or NumPy's."""
Numbers = Scalar | Float[AnyArray, "..."] | jaxtyping.Integer[AnyArray, "..."]
"""One number or an array of numbers."""
if TYPE_CHECKING:
    # SciPy's sparse arrays have no annotations, so a type checker cannot follow what is done with a kernel.
    Kernel = Any
else:
    Kernel = Float[np.ndarray, "states states"] | Float[jax.Array, "states states"] | sparse.csr_array | LinearOperator
"""A stochastic matrix (states, states) that has been checked: row s holds the probabilities of the next state.

It can multiply a block of vectors, and all but a LinearOperator can also show their rows (`wane.mdp.require_rows`).
"""
KernelLike = AnyArray | sparse.sparray | sparse.spmatrix | LinearOperator | Sequence
"""A stochastic matrix as a user gives it: NumPy, JAX, SciPy sparse, a LinearOperator, or a list of lists."""
PerSite = float | int | Sequence[float] | Float[AnyArray, "*sites"]
"""A number for all sites, or one for each site."""
Tree = Any
"""A pytree: nested tuples, dictionaries and modules whose leaves are arrays."""
