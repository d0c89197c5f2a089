// The best that can be done: value iteration over (state × visit counts), backwards from the horizon (wane.optimum).
//
// A(s, c) is the best return from acting in s when the sites were visited c times. Counts go up to a cap, from which on
// a site pays the limit of its curve. The caps are chosen so that what they leave out stays below a tolerance.

const TOLERANCES = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
/** A plan is made only if it takes at most so many elementary steps (about a second), and so many bytes. */
const MOST_WORK = 2.5e8,
  MOST_BYTES = 1e8;

/** Returns the optimum of a problem to the smallest tolerance that is affordable, or null if none is. */
export function affordableOptimum(problem) {
  if (problem.depletion.growsBack) return null;
  for (const tolerance of TOLERANCES) {
    const plan = tables(problem, tolerance);
    if (plan && isAffordable(problem, plan.combinations)) return { tolerance, ...iterate(problem, plan) };
  }
  return null;
}

function isAffordable({ grid, horizon }, combinations) {
  const pairs = horizon * combinations * grid.size;
  return pairs <= MOST_BYTES && pairs * grid.nActions * (grid.slip ? 4 : 1) <= MOST_WORK;
}

/** Returns f(0), …, f(m − 1), f(∞) for every site, the strides of its counts, and a bound on what these leave out. */
function tables({ rewards, depletion, discount, horizon }, tolerance) {
  const wanted = tolerance / 2,
    sizes = rewards.map(Math.abs),
    largest = Math.max(...sizes, 1e-300);
  const { longest, cut } = longestCount(largest, discount, horizon, wanted);
  let error = cut ? (2 * largest * discount ** longest) / (1 - discount) : 0,
    combinations = 1;
  const worths = [];
  for (let i = 0; i < sizes.length; i++) {
    const { worth, loss } = losses((n) => depletion.curve(i).worth(n), discount, longest, cut);
    const limit = sizes[i] ? (0.5 * wanted) / sizes.length / sizes[i] : Infinity;
    const cap = Math.min(loss.filter((each) => each > limit).length, longest);
    worths.push([...worth.slice(0, cap), worth[longest]]);
    error += sizes[i] * loss[cap];
    combinations *= cap + 1;
    if (combinations > 1e7) return null;
  }
  const strides = worths.map((_, i) => worths.slice(i + 1).reduce((product, each) => product * each.length, 1));
  return { worths, strides, combinations, error };
}

/** Returns how many visits can matter, and whether later ones are cut off because their discount is negligible. */
function longestCount(size, discount, horizon, tolerance) {
  if (discount === 0) return { longest: Math.min(horizon, 1), cut: false };
  const negligible = Math.max((tolerance * (1 - discount)) / (8 * size), 1e-300);
  const counted = Math.max(Math.ceil(Math.log(negligible) / Math.log(discount)), 1);
  return { longest: Math.min(counted, horizon), cut: counted < horizon };
}

/** Returns f(0), …, f(longest), and what is lost at most, per unit of r̄, if counting stops at each count. */
function losses(curve, discount, longest, cut) {
  const worth = Array.from({ length: longest + 1 }, (_, n) => curve(n)),
    loss = new Float64Array(longest + 1);
  let largest = 0,
    sum = 0,
    steps = 0;
  for (let n = longest; n >= 0; n--) {
    const deviation = Math.abs(worth[n] - worth[longest]);
    largest = Math.max(largest, deviation);
    sum += deviation;
    steps = cut ? discount ** n / (1 - discount) : steps + (n < longest ? discount ** n : 0);
    loss[n] = Math.min(largest * steps, sum);
  }
  return { worth, loss };
}

/** Returns A at the start of an episode, the best action of every time, combination of counts and state, and more. */
function iterate({ grid, sites, rewards, discount, horizon, wallPenalty }, plan) {
  const { size, nActions } = grid,
    { combinations } = plan,
    actions = new Uint8Array(horizon * combinations * size);
  let best = new Float64Array(combinations * size),
    improved = new Float64Array(combinations * size);
  const arrival = new Float64Array(size),
    pairs = grid.transitions(),
    certain = grid.slip === 0;
  const costs = Float64Array.from(grid.bumps, (bump) => -(wallPenalty * (1 - grid.slip)) * bump);
  for (let time = horizon - 1; time >= 0; time--) {
    for (let c = 0; c < combinations; c++) {
      arrive(arrival, best, c, { sites, rewards, discount }, plan);
      const table = actions.subarray((time * combinations + c) * size, (time * combinations + c + 1) * size);
      for (let s = 0; s < size; s++) {
        let highest = -Infinity,
          chosen = 0;
        for (let a = 0; a < nActions; a++) {
          const pair = s * nActions + a;
          const q = (certain ? arrival[grid.next[pair]] : expected(pairs, pair, arrival)) + costs[pair];
          if (q > highest) {
            highest = q;
            chosen = a;
          }
        }
        improved[c * size + s] = highest;
        table[s] = chosen;
      }
    }
    [best, improved] = [improved, best];
  }
  const values = best.slice(0, size).map((value) => discount * value);
  return { values, actions, ...plan, size };
}

/** Writes what arriving in each state with the counts of a combination is worth: its site pays and counts. */
function arrive(arrival, best, combination, { sites, rewards, discount }, { worths, strides }) {
  const size = arrival.length,
    own = combination * size;
  for (let s = 0; s < size; s++) arrival[s] = discount * best[own + s];
  for (let i = 0; i < sites.length; i++) {
    const levels = worths[i].length,
      level = Math.floor(combination / strides[i]) % levels;
    const after = level < levels - 1 ? own + strides[i] * size : own;
    arrival[sites[i]] = rewards[i] * worths[i][level] + discount * best[after + sites[i]];
  }
}

function expected({ start, column, value }, pair, arrival) {
  let sum = 0;
  for (let e = start[pair]; e < start[pair + 1]; e++) sum += value[e] * arrival[column[e]];
  return sum;
}

/** Returns a function (time, state, visits) → best action. `visits` count the present visit, but not the start. */
export function planner({ actions, worths, strides, combinations, size }) {
  return (time, state, visits) => {
    const combination = visits.reduce((sum, count, i) => sum + strides[i] * Math.min(count, worths[i].length - 1), 0);
    return actions[(time * combinations + combination) * size + state];
  };
}
