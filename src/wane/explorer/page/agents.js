// Agents that forage, and the episodes that they play.
//
// "paths" and "walk" act by generalised policy improvement (wane.agents.gpi): they know Φ of some policies under their
// own belief about how rewards wear off, they see what remains of every reward, and they take the action whose best
// policy is best. "paths" knows the shortest path to each site, "walk" knows only the random walk. "best" follows the
// exact optimum.

import { Chain } from "./representation.js";
import { planner } from "./product.js";

/** Actions within this fraction of the best value count as equally good, and the first of them is taken. */
const TIE = 1e-5;
const MODULUS = 2147483647;

/** Yields uniform numbers in (0, 1): Lehmer's generator, which is exact in any language. */
export function* uniforms(seed) {
  for (let state = seed; ;) {
    state = (state * 48271) % MODULUS;
    yield state / MODULUS;
  }
}

/** Returns the chains of the policies that an agent knows. */
export function knownChains(kind, { grid, sites, discount }) {
  const policies = kind === "walk" ? [null] : sites.map((site) => grid.shortestPaths(site));
  return policies.map((policy) => new Chain(grid, policy, discount, sites));
}

/** Returns act(time, state, remaining): GPI over some chains, with a belief about the depletion. */
export function composed(chains, belief, grid) {
  const numbers = chains.length ? chains[0].sites.map((_, i) => i) : [];
  const paid = chains.map((chain) => chain.paid(belief, numbers)),
    pairs = grid.transitions();
  return (time, state, remaining) => {
    const q = new Float64Array(grid.nActions).fill(chains.length ? -Infinity : 0);
    chains.forEach((chain, p) => {
      const weights = remaining.map((reward, i) => reward * paid[p][i]);
      for (let a = 0; a < grid.nActions; a++)
        q[a] = Math.max(q[a], backup(chain, weights, pairs, state * grid.nActions + a));
    });
    const best = Math.max(...q);
    return q.findIndex((value) => value >= best - TIE * Math.abs(best));
  };
}

/** Returns Σ p(s' | s, a) Σᵢ Φ(s', i) rᵢ, where the weights are what remains times what the visits pay. */
function backup({ firstVisit }, weights, { start, column, value }, pair) {
  let sum = 0;
  for (let e = start[pair]; e < start[pair + 1]; e++) {
    const at = column[e] * weights.length;
    let worth = 0;
    for (let i = 0; i < weights.length; i++) worth += firstVisit[at + i] * weights[i];
    sum += value[e] * worth;
  }
  return sum;
}

/** Returns act(time, state, remaining, visits) of a plan. */
export function planned(optimum) {
  const choose = planner(optimum);
  return (time, state, remaining, visits) => choose(time, state, visits);
}

/** Plays one episode. Returns its cells, actions, rewards, what remained, and the discounted return after each step. */
export function play(problem, act, seed) {
  const { grid, sites, rewards, depletion, discount, horizon, threshold, wallPenalty, start } = problem;
  const draws = grid.slip > 0 ? uniforms(seed) : null,
    siteOf = new Map(sites.map((state, i) => [state, i]));
  let memory = sites.map(() => depletion.fresh()),
    state = start,
    total = 0;
  const remainingNow = () => rewards.map((reward, i) => reward * depletion.worth(i, memory[i]));
  const episode = { cells: [start], actions: [], rewards: [], remaining: [remainingNow()], returns: [0], ended: false };
  for (let time = 0; time < horizon && !episode.ended; time++) {
    const action = act(
      time,
      state,
      episode.remaining[time],
      memory.map((each) => each.visits),
    );
    const { next, bumped } = move(grid, state, action, draws);
    const site = siteOf.get(next) ?? -1;
    const reward = (site >= 0 ? episode.remaining[time][site] : 0) - (bumped ? wallPenalty : 0);
    memory = memory.map((each, i) => depletion.after(each, i === site));
    state = next;
    total += discount ** (time + 1) * reward;
    episode.cells.push(state);
    episode.actions.push(action);
    episode.rewards.push(reward);
    episode.remaining.push(remainingNow());
    episode.returns.push(total);
    episode.ended = threshold !== null && sites.length > 0 && Math.max(...episode.remaining[time + 1]) < threshold;
  }
  return episode;
}

/** Returns the next state, and whether the agent bumped into a wall. The first draw says if it slips, the second where. */
function move({ next, bumps, neighbours, nActions, slip }, state, action, draws) {
  const pair = state * nActions + action;
  if (draws) {
    const [slips, where] = [draws.next().value, draws.next().value];
    if (slips < slip) return { next: neighbours[state][Math.floor(where * neighbours[state].length)], bumped: false };
  }
  return { next: next[pair], bumped: bumps[pair] === 1 };
}
