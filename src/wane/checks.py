"""Checks of numbers that users pass, outside and inside of `jit`.

Outside of `jit` the value of every argument is known, and a bad one raises a ValueError that names it. Inside `jit`,
`grad` and `vmap`, JAX traces the arguments: their values are unknown until the compiled program runs, and a program
cannot raise an error. A bad argument then becomes NaN, and so does every answer that depends on it. With `jit_checks`
the program raises an error that says what is wrong:

    >>> import jax
    >>> from wane import jit_checks, lambda_representation
    >>> with jit_checks():
    ...     phi = jax.jit(lambda kernel: lambda_representation(kernel, 0.5, discount=0.9).matrix)
    ...     try:
    ...         phi(jax.numpy.array([[0.6, 0.7], [0.5, 0.5]]))
    ...     except Exception as error:
    ...         print("a row of the kernel does not sum to 1" in str(error))
    True

The environment variable `WANE_JIT_CHECKS=1` switches these errors on for a whole program. They are off by default,
because they make programs slower to compile and to run. The switch is read while JAX traces a function: a function that
was compiled without the errors stays without them.
"""

import operator
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from wane.texts import shown
from wane.types import ArrayLike, Integer, Scalar

_enabled = os.environ.get("WANE_JIT_CHECKS", "0") not in ("", "0")


@contextmanager
def jit_checks(enabled: bool = True) -> Iterator[None]:
    """Switch errors inside `jit` on, or off with `enabled=False`, for functions that JAX traces within the block.

    A bad kernel, policy, discount, parameter or reward then raises an error when the compiled function runs, and gives
    NaN otherwise. Wrap the function with `equinox.filter_jit` in place of `jax.jit` to get the shortest message.
    """
    global _enabled
    before, _enabled = _enabled, enabled
    try:
        yield
    finally:
        _enabled = before


def is_traced(*arrays: Any) -> bool:
    """Return whether JAX is tracing an argument. The value of such an argument is unknown and cannot be checked."""
    return any(isinstance(a, Tracer) for a in arrays)


def ensure(value: Any, valid: Any, message: str) -> Any:
    """Return a traced value that becomes NaN at run time unless `valid`, a function of it, is true everywhere.

    With `jit_checks` an error with this message is raised instead. Integers become the largest integer, which is out of
    the range of every index. The check is lost if the caller does not use what this function returns.
    """
    if not is_traced(value):
        return value
    fine = jnp.all(valid(value))
    if _enabled:
        return eqx.error_if(value, ~fine, message)
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return jnp.where(fine, value, jnp.iinfo(value.dtype).max)
    # NaN is added and not chosen: the gradient through a choice would be zero, which looks like an answer.
    return value + jnp.where(fine, 0.0, jnp.nan).astype(value.dtype)


def as_floats(name: str, value: ArrayLike) -> np.ndarray:
    """Return numbers as an array of floats. Raises a ValueError for an integer that is too large for one."""
    try:
        return np.asarray(value, dtype=float)
    except OverflowError as error:
        given = shown(np.asarray(value, object).tolist())
        raise ValueError(f"{name} is beyond 1.8e308, the largest number that can be computed with: {given}") from error


def check_range(name: str, value: ArrayLike, low: Scalar, high: Scalar, why: str) -> Any:
    """Return the value. Raises a ValueError unless every entry is finite and lies in [low, high].

    A traced value is checked at run time (`ensure`).
    """
    if type(value) is float and low <= value <= high < np.inf:
        return value
    least = f"[{low:g}" if np.isfinite(low) else "(−∞"
    most = f"{high:g}]" if np.isfinite(high) else "∞)"
    if is_traced(value):
        message = f"{name} must lie in {least}, {most}: {why}"
        return ensure(value, lambda v: (v >= low) & (v <= high) & jnp.isfinite(v), message)
    array = as_floats(name, value)
    bad = ~((array >= low) & (array <= high) & np.isfinite(array))
    if np.any(bad):
        where = "" if array.ndim == 0 else f" at index {tuple(int(i) for i in np.argwhere(bad)[0])}"
        raise ValueError(f"{name} must lie in {least}, {most}, got {array[bad].flat[0]:g}{where}: {why}")
    return value


def check_tolerance(tolerance: Scalar) -> None:
    """Raise a ValueError unless the tolerance is a finite number above 0."""
    if not 0 < tolerance < np.inf:
        raise ValueError(f"tolerance must be a finite number above 0, got {tolerance!r}")


def check_whole(name: str, value: Integer, least: int, most: int | None = None) -> int:
    """Return a whole number as Python's int. Raises a ValueError unless it lies between `least` and `most`."""
    try:
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        end = "on" if most is None else f"to {most}"
        raise ValueError(f"{name} must be a whole number from {least} {end}, got {value!r}")
    return number
