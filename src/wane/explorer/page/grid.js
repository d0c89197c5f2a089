// A map, where each action leads on it, and the chain that a policy makes of it. The same rules as wane.worlds.Map:
// free cells are states, numbered along the rows; who bumps into a wall stays; with slip p an action is replaced by a
// move to a free neighbour, which is chosen uniformly.

import { Sparse } from "./linear.js";

export const ACTIONS = ["up", "right", "down", "left", "stay"];
const MOVES = [
  [-1, 0],
  [0, 1],
  [1, 0],
  [0, -1],
  [0, 0],
];

/** The states of a map, and the transitions between them. */
export class Grid {
  /** `walls` has a 1 for every wall, row by row. */
  constructor({ rows, columns, walls, slip, nActions }) {
    Object.assign(this, { rows, columns, slip, nActions });
    this.number = new Int32Array(rows * columns).fill(-1);
    const cells = [];
    for (let cell = 0; cell < rows * columns; cell++) {
      if (!walls[cell]) {
        this.number[cell] = cells.length;
        cells.push(cell);
      }
    }
    this.cells = Int32Array.from(cells);
    this.size = cells.length;
    this.#aim();
  }

  /** Fills the tables: where each action leads, whether it bumps, and the free neighbours of each state. */
  #aim() {
    const { size, nActions } = this;
    this.next = new Int32Array(size * nActions);
    this.bumps = new Uint8Array(size * nActions);
    this.neighbours = [];
    for (let s = 0; s < size; s++) {
      const near = [];
      for (let a = 0; a < 5; a++) {
        const target = this.#target(this.cells[s], MOVES[a]);
        if (a < nActions) {
          this.next[s * nActions + a] = target < 0 ? s : target;
          this.bumps[s * nActions + a] = target < 0 ? 1 : 0;
        }
        if (a < 4 && target >= 0) near.push(target);
      }
      this.neighbours.push(near.length ? near : [s]);
    }
  }

  #target(cell, [down, right]) {
    const row = Math.floor(cell / this.columns) + down,
      column = (cell % this.columns) + right;
    const inside = row >= 0 && row < this.rows && column >= 0 && column < this.columns;
    return inside ? this.number[row * this.columns + column] : -1;
  }

  /** Returns the transitions of all pairs of state and action: row s · nActions + a. */
  transitions() {
    if (this.kept) return this.kept;
    const rows = this.size * this.nActions,
      start = new Int32Array(rows + 1),
      column = [],
      value = [];
    for (let pair = 0; pair < rows; pair++) {
      for (const [state, probability] of this.#row(Math.floor(pair / this.nActions), this.next[pair])) {
        column.push(state);
        value.push(probability);
      }
      start[pair + 1] = column.length;
    }
    this.kept = new Sparse(rows, start, Int32Array.from(column), Float64Array.from(value));
    return this.kept;
  }

  /** Returns the next states with their probabilities, in ascending order, when an action aims at a state. */
  #row(state, aim) {
    if (this.slip === 0) return [[aim, 1]];
    const near = this.neighbours[state],
      odds = new Map([[aim, 1 - this.slip]]);
    for (const other of near) odds.set(other, (odds.get(other) ?? 0) + this.slip * (1 / near.length));
    return [...odds].filter(([, probability]) => probability > 0).sort((one, other) => one[0] - other[0]);
  }

  /** Returns the kernel of a policy: an action for each state, or null for uniformly random actions. */
  under(policy) {
    const { size, nActions } = this,
      pairs = this.transitions();
    const start = new Int32Array(size + 1),
      column = [],
      value = [];
    for (let s = 0; s < size; s++) {
      const odds = new Map(),
        chosen = policy ? [policy[s]] : [...Array(nActions).keys()];
      for (const a of chosen) {
        const pair = s * nActions + a;
        for (let e = pairs.start[pair]; e < pairs.start[pair + 1]; e++) {
          odds.set(pairs.column[e], (odds.get(pairs.column[e]) ?? 0) + pairs.value[e] / chosen.length);
        }
      }
      for (const [state, probability] of [...odds].sort((one, other) => one[0] - other[0])) {
        column.push(state);
        value.push(probability);
      }
      start[s + 1] = column.length;
    }
    return new Sparse(size, start, Int32Array.from(column), Float64Array.from(value));
  }

  /** Returns how many steps each state is away from a goal; Infinity where there is no way. */
  distances(goal) {
    const steps = new Float64Array(this.size).fill(Infinity),
      queue = [goal];
    steps[goal] = 0;
    for (let i = 0; i < queue.length; i++) {
      for (const near of this.neighbours[queue[i]]) {
        if (steps[near] === Infinity) {
          steps[near] = steps[queue[i]] + 1;
          queue.push(near);
        }
      }
    }
    return steps;
  }

  /** Returns the policy that walks to a state on a shortest path, by the first of equally good actions, and stays. */
  shortestPaths(goal) {
    const { size, nActions, next } = this,
      steps = this.distances(goal),
      policy = new Int32Array(size);
    for (let s = 0; s < size; s++) {
      let best = 0;
      for (let a = 1; a < nActions; a++) {
        if (steps[next[s * nActions + a]] < steps[next[s * nActions + best]]) best = a;
      }
      policy[s] = best;
    }
    const bump = this.bumps.subarray(goal * nActions, (goal + 1) * nActions).indexOf(1);
    policy[goal] = nActions === 5 ? 4 : Math.max(bump, 0);
    return policy;
  }
}
