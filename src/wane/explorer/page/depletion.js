// How the reward of a site wears off, and how it grows back: the curves of wane.depletion, and wane.TimeElapsed.
//
// A site pays r̄ · worth(memory). If x = 1 − escape is the discounted probability of coming back, the visits to a site
// that pays f(n) at its n-th visit are worth G(x) = Σₙ f(n) xⁿ in all, discounted to the first of them.

const number = (value, site) => (Array.isArray(value) ? value[value.length > 1 ? site : 0] : value);

// Nodes u = exp(w − e^(−w)) on (0, ∞), which approach both ends double-exponentially, as log u and log du.
const STEP = 1 / 64;
const NODES = Array.from({ length: Math.ceil((4.9 + 7) / STEP) }, (_, j) => {
  const w = -7 + j * STEP,
    logU = w - Math.exp(-w);
  return [logU, logU + Math.log1p(Math.exp(-w)) + Math.log(STEP)];
});

/** Returns rates and weights that sum to one, so that f(n) = Σⱼ weightⱼ e^(−n · rateⱼ): a curve as an average. */
function mixture(logDensity, scale) {
  const kept = NODES.map(([logU, logDu]) => [Math.exp(logU) * scale, Math.exp(logDensity(logU) + logDu)]).filter(
    ([, weight]) => weight > 0,
  );
  const total = kept.reduce((sum, [, weight]) => sum + weight, 0);
  return {
    // 1 − e^(−rate) keeps its digits where the rate is small.
    losses: Float64Array.from(kept, ([rate]) => -Math.expm1(-rate)),
    weights: Float64Array.from(kept, ([, weight]) => weight / total),
  };
}

/** Returns Σⱼ weightⱼ / (1 − x e^(−rateⱼ)), an average of geometric series. */
function averageOfSeries({ losses, weights }, escape) {
  let sum = 0;
  for (let j = 0; j < losses.length; j++) sum += weights[j] / (escape + (1 - escape) * losses[j]);
  return sum;
}

/** Returns (1 − xⁿ) / (1 − x), the sum of the first n powers of x = 1 − escape. */
function powers(n, escape) {
  if (escape >= 1) return Math.min(n, 1);
  return escape === 0 ? n : -Math.expm1(n * Math.log1p(-escape)) / escape;
}

/**
 * The kinds of depletions. `fields` are their parameters with the least and the largest value. `curve(parameters)`
 * returns worth(n), the n-th visit's share of r̄, and total(escape), which is G.
 */
export const KINDS = {
  Geometric: {
    fields: { lam: [0, 1] },
    curve: ({ lam }) => ({
      worth: (n) => lam ** n,
      total: (escape) => 1 / (1 - lam + lam * escape),
      // λⁿ underflows after many visits, but its ratio is λ for ever.
      shrink: () => lam,
    }),
  },
  FirstVisits: {
    fields: { n: [0, 1000] },
    whole: true,
    curve: ({ n: most }) => ({ worth: (n) => (n < most ? 1 : 0), total: (escape) => powers(most, escape) }),
  },
  Hyperbolic: {
    fields: { k: [0, 1000] },
    curve({ k }) {
      const average = mixture((logU) => -Math.exp(logU), Math.max(k, 1e-37));
      return { worth: (n) => 1 / (1 + k * n), total: (escape) => averageOfSeries(average, escape) };
    },
  },
  PowerLaw: {
    fields: { p: [0.05, 20] },
    curve({ p }) {
      const average = mixture((logU) => (p - 1) * logU - Math.exp(logU), 1);
      return { worth: (n) => (1 + n) ** -p, total: (escape) => averageOfSeries(average, escape) };
    },
  },
  TimeElapsed: {
    fields: { lam: [0, 1], rate: [0.001, 1000] },
    growsBack: true,
  },
};

/** Adds shrink(n) = f(n + 1) / f(n) to a curve. It is 0 once a site pays nothing. */
function withShrink(curve) {
  return { shrink: (n) => (curve.worth(n) === 0 ? 0 : curve.worth(n + 1) / curve.worth(n)), ...curve };
}

/** The depletion of all sites of a world, from its description: {kind, parameter: number or one for each site}. */
export class Depletion {
  constructor(description) {
    this.description = description;
    this.kind = KINDS[description.kind];
    this.growsBack = Boolean(this.kind.growsBack);
    this.curves = new Map();
  }

  parameters(site) {
    return Object.fromEntries(
      Object.keys(this.kind.fields).map((name) => [name, number(this.description[name], site)]),
    );
  }

  /** Returns worth(n) and total(escape) of a site that only wears off. */
  curve(site) {
    const parameters = this.parameters(site),
      key = Object.values(parameters).join();
    if (!this.curves.has(key)) this.curves.set(key, withShrink(this.kind.curve(parameters)));
    return this.curves.get(key);
  }

  /** Returns the memory of a site that was never visited: how often, and how many steps ago. */
  fresh() {
    return { visits: 0, steps: 1 };
  }

  /** Returns what a visit pays now, as a fraction of r̄. */
  worth(site, memory) {
    if (!this.growsBack) return this.curve(site).worth(memory.visits);
    const { lam, rate } = this.parameters(site);
    return lam ** (memory.visits / (rate * memory.steps));
  }

  /** Returns the memory one step after a visit, or after a step that was spent elsewhere. */
  after(memory, visited) {
    if (visited) return { visits: memory.visits + 1, steps: 1 };
    return { visits: memory.visits, steps: this.growsBack && memory.visits > 0 ? memory.steps + 1 : memory.steps };
  }

  /**
   * Returns what a site pays in all from its first visit on. For a reward that grows back the answer needs `law`, the
   * discounted probabilities g(τ) of coming back after τ steps, and is summed over all numbers of visits at once:
   *
   *   1 + Σ_τ g(τ) Σₙ R^(n−1) q^n = 1 + Σ_τ g(τ) q / (1 − R q),   q = λ^(1 / (rate · τ)),   R = Σ_τ g(τ) = 1 − escape.
   */
  total(site, escape, law) {
    if (!this.growsBack) return this.curve(site).total(escape);
    const { lam, rate } = this.parameters(site);
    let sum = 1;
    for (let tau = 1; tau <= law.length; tau++) {
      const q = lam ** (1 / (rate * tau));
      sum += (law[tau - 1] * q) / (1 - q + escape * q);
    }
    return sum;
  }
}
