"""Chains and depletions to test on, and two slow, independent ways to evaluate a depletion on them."""

import jax
import numpy as np
from hypothesis import strategies as st

import wane

CHAINS = {
    "one state": np.ones((1, 1)),
    "deterministic": np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0.0]]),
    "periodic": np.roll(np.eye(4), 1, axis=1),
    "absorbing": np.array([[0.2, 0.5, 0.3], [0, 1, 0], [0.4, 0, 0.6]]),
    "reducible": np.kron(np.eye(2), np.array([[0.3, 0.7], [0.6, 0.4]])),
    "never reached": np.array([[0.5, 0.5, 0], [0.9, 0.1, 0], [0.3, 0.3, 0.4]]),
    "ends": np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0, 0, 0.0]]),
    "mixing": np.random.default_rng(1).dirichlet(np.ones(5), 5),
}


class Meadow(wane.Depletion):
    """Grass that grows back logistically: the documented example of a user's own depletion."""

    bite: float
    growth: float

    def initial(self, shape=()):
        return np.ones(shape)

    def worth(self, memory):
        return memory

    def visit(self, memory):
        return (1 - self.bite) * memory

    def wait(self, memory):
        return memory + self.growth * memory * (1 - memory)


class Tank(Meadow):
    """Refills by a fixed amount: a kink where it is full."""

    def wait(self, memory):
        return np.minimum(memory + self.growth, 1.0)


@st.composite
def kernels(draw, most=6):
    """Stochastic matrices of all kinds: dense, sparse, deterministic, with absorbing, ending and unreachable states."""
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([0.05, 0.5, 5.0]))
    kernel = rng.dirichlet(np.full(n, spread), n)
    kernel[kernel < 1e-4] = 0
    kernel /= kernel.sum(1, keepdims=True)
    for s in range(n):
        match draw(st.sampled_from(["mix", "mix", "jump", "absorb", "end"])):
            case "jump":
                kernel[s] = np.eye(n)[rng.integers(n)]
            case "absorb":
                kernel[s] = np.eye(n)[s]
            case "end":
                kernel[s] = 0
    return kernel


discounts = st.sampled_from([0.0, 0.3, 0.9, 0.97])
lambdas = st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])


def monte_carlo(kernel, depletion, discount, site, start, *, episodes=20_000, steps=60, seed=0):
    """Mean and standard error of the discounted return of one site, by playing the chain."""
    rng = np.random.default_rng(seed)
    ends = kernel.sum(1) == 0
    cumulative = np.cumsum(kernel, axis=1)
    state, alive = np.full(episodes, start), np.ones(episodes, bool)
    memory, total = depletion.initial((episodes,)), np.zeros(episodes)
    for t in range(steps):
        visited = alive & (state == site)
        total += np.where(visited, discount**t * depletion.worth(memory), 0.0)
        after_visit, after_wait = depletion.visit(memory), depletion.wait(memory)
        memory = jax.tree_util.tree_map(lambda v, w, visited=visited: np.where(visited, v, w), after_visit, after_wait)
        alive = alive & ~ends[state]
        draws = (rng.random(episodes)[:, None] > cumulative[state]).sum(1)
        state = np.where(alive, np.minimum(draws, len(kernel) - 1), state)
    return total.mean(), total.std() / np.sqrt(episodes)


def forward_sum(kernel, depletion, discount, site, *, steps):
    """Σₖ γᵏ E[worth] by following the distribution over (state, memory) from every state, step by step."""

    def key(memory):
        return tuple(float(leaf) for leaf in jax.tree_util.tree_leaves(memory))

    totals = np.zeros(len(kernel))
    for start in range(len(kernel)):
        fresh = depletion.initial(())
        table = {(start, key(fresh)): (1.0, fresh)}
        for t in range(steps):
            after = {}
            for (s, _), (p, memory) in table.items():
                if s == site:
                    totals[start] += discount**t * p * float(depletion.worth(memory))
                moved = depletion.visit(memory) if s == site else depletion.wait(memory)
                for s_next in np.flatnonzero(kernel[s]):
                    place = (s_next, key(moved))
                    before = after[place][0] if place in after else 0.0
                    after[place] = (before + p * kernel[s, s_next], moved)
            table = after
    return totals
