"""One evaluation of a policy by QuantEcon and by pymdptoolbox."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.chains import CHAINS


def problem(chain: str, shape: tuple) -> tuple[Any, np.ndarray]:
    kernel = CHAINS[chain](*shape)
    return kernel, np.random.default_rng(1).normal(size=kernel.shape[0])


def evaluate_with(peer: str, chain: str, shape: tuple) -> dict:
    make = quantecon_evaluation if peer == "quantecon" else mdptoolbox_evaluation
    call = make(*problem(chain, shape))
    start = time.perf_counter()
    call()
    return {"seconds": time.perf_counter() - start}


def quantecon_evaluation(kernel: Any, rewards: np.ndarray) -> Callable[[], np.ndarray]:
    from quantecon.markov import DiscreteDP

    n = len(rewards)
    only = np.zeros(n, int)
    if sparse.issparse(kernel):
        problem = DiscreteDP(rewards, sparse.csr_matrix(kernel), 0.99, np.arange(n), only)
    else:
        problem = DiscreteDP(rewards[:, None], kernel[:, None], 0.99)
    return lambda: problem.evaluate_policy(only)


def mdptoolbox_evaluation(kernel: Any, rewards: np.ndarray) -> Callable[[], None]:
    """Returns the matrix evaluation of pymdptoolbox.

    Its checks refuse rows whose sums differ from 1 by rounding errors, so the solver is built on another kernel.
    """
    from mdptoolbox.mdp import PolicyIteration

    n = len(rewards)
    stay = [sparse.eye(n, format="csr")] if sparse.issparse(kernel) else np.eye(n)[None]
    with warnings.catch_warnings(action="ignore"):
        problem = PolicyIteration(stay, rewards[:, None], 0.99, policy0=np.zeros(n, int))
    problem.P = (sparse.csr_matrix(kernel),) if sparse.issparse(kernel) else (kernel,)
    return problem._evalPolicyMatrix
