// What the page asks to be computed. The same functions run in workers and, where there are none, in the page itself.

import { composed, knownChains, planned, play } from "./agents.js";
import { Depletion } from "./depletion.js";
import { Grid } from "./grid.js";
import { stays } from "./leaving.js";
import { affordableOptimum } from "./product.js";
import { Chain } from "./representation.js";

/** Columns of rewards that grow back are computed for every cell only if that takes at most so many steps. */
const MOST_RETURNS = 1.5e9;

/** Returns a world as the mathematics needs it: states in place of cells, functions in place of descriptions. */
export function makeProblem(world) {
  const grid = new Grid(world);
  return {
    grid,
    sites: world.sites.map(({ cell }) => grid.number[cell]),
    rewards: world.sites.map(({ reward }) => reward),
    depletion: new Depletion(world.depletion),
    discount: world.discount,
    horizon: world.horizon,
    threshold: world.threshold,
    wallPenalty: world.wallPenalty,
    start: grid.number[world.start],
  };
}

/** Returns the policy of a view: actions for the path to a site, or null for the random walk. */
export function viewedPolicy({ grid, sites }, policy) {
  return policy === "walk" ? null : grid.shortestPaths(sites[policy]);
}

/** Remembers the last answers of a function by a key, so that only what changed is computed again. */
class Memory {
  constructor(most) {
    this.most = most;
    this.kept = new Map();
  }

  get(key, make) {
    if (!this.kept.has(key)) {
      if (this.kept.size >= this.most) this.kept.delete(this.kept.keys().next().value);
      this.kept.set(key, make());
    }
    return this.kept.get(key);
  }
}

const chains = new Memory(4);
export const sitesKey = ({ sites }) => sites.map(({ cell }) => cell).join();
export const mapKey = ({ rows, columns, walls, slip, nActions, discount }) =>
  [rows, columns, Array.from(walls).join(""), slip, nActions, discount].join();

/** The tasks: each takes a message and returns its answer. */
export const TASKS = {
  /** F and 1 − R of all cells under one policy. */
  field({ world, policy }) {
    const problem = makeProblem(world),
      chain = new Chain(problem.grid, viewedPolicy(problem, policy), world.discount);
    return { firstVisit: chain.firstVisit, escape: chain.escape };
  },

  /** What visits to each cell pay, if rewards grow back; NaN where that would take too long. */
  paid({ world, policy }) {
    const problem = makeProblem(world),
      { grid, depletion, sites } = problem;
    const every = grid.size ** 2 * 5 * (35 / (1 - world.discount)) <= MOST_RETURNS;
    const wanted = every ? null : sites,
      actions = viewedPolicy(problem, policy);
    const key = [mapKey(world), policy, policy === "walk" && every ? "" : sitesKey(world), every].join("|");
    const chain = chains.get(key, () => new Chain(grid, actions, world.discount, wanted));
    const numbers = chain.sites.map((state) => Math.max(sites.indexOf(state), 0));
    const found = chain.paid(depletion, numbers),
      paid = new Float64Array(grid.size).fill(NaN);
    chain.sites.forEach((state, i) => {
      paid[state] = found[i];
    });
    return { paid };
  },

  /** The episodes of agents that compose policies, and when they left. */
  agents({ world, agents, seed }) {
    const problem = makeProblem(world);
    return agents.map(({ kind, belief }) => {
      if (kind === "best" || !problem.sites.length) return null;
      const known = chains.get([mapKey(world), sitesKey(world), kind].join("|"), () => knownChains(kind, problem));
      const believed = belief === null ? problem.depletion : new Depletion({ kind: "Geometric", lam: belief });
      const episode = play(problem, composed(known, believed, problem.grid), seed);
      return { episode, stays: stays(episode, problem) };
    });
  },

  /** The optimum, its episode and when it left; null if there are too many combinations of counts. */
  best({ world, seed }) {
    const problem = makeProblem(world),
      optimum = problem.sites.length ? affordableOptimum(problem) : null;
    if (!optimum) return null;
    const { tolerance, error, values } = optimum,
      episode = play(problem, planned(optimum), seed);
    return { tolerance, error, value: values[problem.start], values, episode, stays: stays(episode, problem) };
  },
};

/** Answers one message {id, task, message}. What goes wrong is told as text. */
export function answer({ id, task, message }) {
  try {
    return { id, result: TASKS[task](message) };
  } catch (error) {
    return { id, problem: String(error?.message ?? error) };
  }
}

/** Listens for messages, if this is a worker. */
export function serve(scope) {
  scope.onmessage = ({ data }) => {
    const reply = answer(data),
      firstVisit = reply.result?.firstVisit;
    scope.postMessage(reply, firstVisit ? [firstVisit.buffer] : []);
  };
}
