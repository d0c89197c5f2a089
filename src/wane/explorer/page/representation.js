// The representation of a policy, by one factorisation for every λ and every curve. With M = (I − γP)⁻¹ and d its
// diagonal, the first visit to s' and every return to it have the discount factors
//
//   F(s, s') = M(s, s') / d(s'),    R(s') = 1 − 1/d(s'),    and    Φ(s, s') = F(s, s') · G(R(s')).
//
// Only G depends on how rewards wear off. Rewards that grow back also need when a site is visited again.

import { factor, solve } from "./linear.js";

const NEGLIGIBLE = 1e-15;

/** The chain of one policy, with F and 1 − R of some states, the `sites`. */
export class Chain {
  constructor(grid, policy, discount, sites = null) {
    const chosen = sites ?? Array.from({ length: grid.size }, (_, s) => s);
    const kernel = grid.under(policy),
      x = solve(factor(kernel, discount), chosen);
    Object.assign(this, { grid, policy, kernel, discount, sites: chosen, ...divide(x, chosen), laws: new Map() });
  }

  /** Returns G of every site: what its visits pay from the first one on. `numbers` are the sites' own numbers. */
  paid(depletion, numbers = this.sites) {
    return Float64Array.from(this.sites, (_, i) => {
      const law = depletion.growsBack ? this.law(i) : null;
      return depletion.total(numbers[i], this.escape[i], law);
    });
  }

  /** Returns g(τ) = γ^τ P(first return to the i-th site after τ steps), until what is left out is negligible. */
  law(i) {
    if (!this.laws.has(i)) this.laws.set(i, returnLaw(this.kernel, this.discount, this.sites[i], 1 - this.escape[i]));
    return this.laws.get(i);
  }
}

/** Returns F and 1 − R from columns of M. */
function divide(x, sites) {
  const count = sites.length,
    diagonal = sites.map((state, i) => x[state * count + i]);
  for (let e = 0; e < x.length; e++) x[e] /= diagonal[e % count];
  return { firstVisit: x, escape: Float64Array.from(diagonal, (d) => 1 / d) };
}

/** Follows the chain until it comes back to a site. The last entry also holds what is left out, as if it came then. */
function returnLaw(kernel, discount, site, returns) {
  const law = [];
  let hits = new Float64Array(kernel.size),
    rest = returns,
    factorNow = 1;
  hits[site] = 1;
  while (rest > NEGLIGIBLE * returns && law.length < 200_000) {
    hits = kernel.times(hits);
    factorNow *= discount;
    law.push(factorNow * hits[site]);
    rest -= factorNow * hits[site];
    hits[site] = 0;
    if (factorNow < NEGLIGIBLE) break;
  }
  if (law.length && rest > 0) law[law.length - 1] += rest;
  return law;
}

/** Returns Φ(s, ·) of one state over the sites of a chain. */
export function row({ firstVisit, sites }, paid, state) {
  const count = sites.length;
  return Float64Array.from(paid, (total, i) => firstVisit[state * count + i] * total);
}

/**
 * Returns the expected return of a policy from every state, where rewards are paid on arrival: γ P Φ r̄, less what
 * bumping into walls costs. `chain` must hold the sites of the world, with the totals `paid`.
 */
export function values(chain, paid, rewards, wallPenalty) {
  const { grid, kernel, discount, firstVisit } = chain,
    count = rewards.length,
    worth = new Float64Array(grid.size);
  for (let s = 0; s < grid.size; s++) {
    for (let i = 0; i < count; i++) worth[s] += firstVisit[s * count + i] * paid[i] * rewards[i];
  }
  const next = kernel.times(worth).map((value) => discount * value);
  if (!wallPenalty) return next;
  const costs = solveVector(factor(kernel, discount), expectedBumps(grid, chain.policy));
  return next.map((value, s) => value - discount * wallPenalty * (1 - grid.slip) * costs[s]);
}

/** Returns the probability that a policy's action aims at a wall, for every state. */
function expectedBumps({ size, nActions, bumps }, policy) {
  return Float64Array.from({ length: size }, (_, s) => {
    if (policy) return bumps[s * nActions + policy[s]];
    return bumps.subarray(s * nActions, (s + 1) * nActions).reduce((sum, bump) => sum + bump, 0) / nActions;
  });
}

/** Solves (I − γP) x = b for one vector, which it overwrites. */
function solveVector({ size: n, half, band }, x) {
  const width = 2 * half + 1;
  for (let i = 0; i < n; i++) {
    for (let k = Math.max(0, i - half); k < i; k++) x[i] -= band[i * width + k - i + half] * x[k];
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = Math.min(n - 1, i + half); k > i; k--) x[i] -= band[i * width + k - i + half] * x[k];
    x[i] /= band[i * width + half];
  }
  return x;
}
