"""Lines of memories: p₀, p₁ = visit(p₀), p₂ = visit(p₁), …, if a visit forgets how long the wait before it was.

`wane.exact.renewal` sums what a site pays along such a line. Waiting is simulated step by step for the whole line
together, so the table of memories × return times, which can be large, is never stored as a whole.
"""

import jax
import numpy as np
from jaxtyping import Float

from wane.depletion import Depletion, Memory
from wane.exact.memories import count, keys, pick
from wane.sums import check_bound

AT_ONCE = 2**21
"""The largest number of memories that are stored at the same time."""


def line_of_memories(depletion: Depletion, memory: Memory, length: int) -> Memory:
    """Return the memories p, visit(p), visit(visit(p)), …"""
    line = [memory]
    while len(line) < length:
        line.append(depletion.visit(line[-1]))
    return jax.tree_util.tree_map(lambda *leaves: np.concatenate(leaves), *line)


def forgets(depletion: Depletion, line: Memory, waited: Memory) -> bool:
    """Return whether a visit leads from each memory of the line (but the last) to the next one, also after waiting.

    `waited` are the memories of the line after some waits.
    """
    following = pick(line, slice(1, None))
    after = keys(depletion.visit(waited)).reshape(count(following), -1)
    return bool(np.all(after == keys(following)[:, None]))


def pays_along(
    depletion: Depletion, line: Memory, weights: Float[np.ndarray, "times sites"]
) -> Float[np.ndarray, "memories sites"] | None:
    """Return Σ_τ g(τ) worth(w_τ(p)) for each memory of the line (but the last), or None if a wait leaves the line."""
    waited = pick(line, slice(-1))
    n, pays = count(waited), np.zeros((count(waited), weights.shape[1]))
    width = max(AT_ONCE // n, 1)
    for first in range(0, len(weights), width):
        columns = []
        for _ in range(min(width, len(weights) - first)):
            if not forgets(depletion, line, waited):
                return None
            columns.append(np.asarray(depletion.worth(waited), float) + np.zeros(n))
            waited = depletion.wait(waited)
        worths = np.stack(columns, axis=1)
        check_bound(depletion, worths)
        pays += worths @ weights[first : first + len(columns)]
    return pays
