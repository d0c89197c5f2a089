// The state of the page, its history, and what was computed from it. Whoever shows something listens for changes.

import { Lane } from "./client.js";
import { Depletion } from "./depletion.js";
import { History } from "./editing.js";
import { makeProblem, mapKey, sitesKey, viewedPolicy } from "./engine.js";
import { row, values } from "./representation.js";
import { describeState, describeWorld, readState } from "./state.js";

/** Holds {world, view}. `results` are answers, each with the problem that it belongs to. */
export class Store {
  constructor(state) {
    this.state = state;
    this.results = { field: null, paid: null, agents: null, best: null };
    this.keys = {};
    this.answered = {};
    this.lanes = Object.fromEntries(["field", "paid", "agents", "best"].map((name) => [name, new Lane()]));
    this.listeners = [];
    this.history = new History(this.#text());
    this.timings = { map: [], curve: [] };
  }

  get world() {
    return this.state.world;
  }

  get view() {
    return this.state.view;
  }

  #text() {
    return JSON.stringify(describeState(this.state));
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  #tell(what) {
    this.listeners.forEach((listener) => listener(what));
  }

  /** Changes parts of the world and of the view, and computes what follows. `commit` makes it a step of the history. */
  change({ world = {}, view = {} }) {
    this.changed = performance.now();
    this.state = { world: { ...this.world, ...world }, view: { ...this.view, ...view } };
    this.#tidy();
    this.#compute();
    this.#tell("state");
  }

  /** Ends a stroke of the brush or a move of a slider: what happened since the last one can be undone in one step. */
  commit() {
    this.history.add(this.#text());
    this.#tell("history");
  }

  /** Shows another state. */
  load(state) {
    this.state = state;
    this.#tidy();
    this.#compute();
    this.#tell("loaded");
    this.#tell("state");
  }

  /** Goes some steps through the history: −1 is undo, 1 is redo. */
  undo(steps) {
    this.load(readState(JSON.parse(this.history.go(steps))));
    this.#tell("history");
  }

  /** Keeps the view inside of the world. */
  #tidy() {
    const { world, view } = this.state;
    const cell =
      view.cell === null || view.cell >= world.walls.length || world.walls[view.cell] ? world.start : view.cell;
    const policy = typeof view.policy === "number" && view.policy >= world.sites.length ? "walk" : view.policy;
    this.state.view = { ...view, cell, policy };
  }

  /** Asks for whatever depends on something that changed. */
  #compute() {
    const { world, view } = this.state,
      told = JSON.stringify(describeWorld(world));
    const map = [mapKey(world), view.policy, view.policy === "walk" ? "" : sitesKey(world)].join("|");
    const curve = JSON.stringify(world.depletion);
    this.#ask("field", map, { world, policy: view.policy }, () => {
      const problem = makeProblem(world),
        policy = viewedPolicy(problem, view.policy);
      return { grid: problem.grid, policy, kernel: problem.grid.under(policy), discount: world.discount };
    });
    if (new Depletion(world.depletion).growsBack) {
      this.#ask("paid", [map, curve, sitesKey(world)].join("|"), { world, policy: view.policy }, () => ({
        map,
        curve,
      }));
    }
    const agents = view.agents.map(({ kind, belief }) => ({ kind, belief }));
    this.#ask(
      "agents",
      [told, JSON.stringify(agents), view.seed].join("|"),
      { world, agents, seed: view.seed },
      () => ({ world, agents }),
    );
    this.#ask("best", [told, view.seed].join("|"), { world, seed: view.seed }, () => ({ world }));
    this.#look();
  }

  /** Whether the answer to a task that belongs to the present state is still to come. */
  isWaiting(task) {
    return this.keys[task] !== this.answered[task];
  }

  /** Returns the answer to a task, or null if it does not belong to the present state. */
  fresh(task) {
    return this.isWaiting(task) ? null : this.results[task];
  }

  #ask(task, key, message, context) {
    if (this.keys[task] === key) return;
    this.keys[task] = key;
    const asked = this.changed;
    this.lanes[task].ask(task, message, (result) => {
      this.answered[task] = key;
      this.results[task] = result && { ...(Array.isArray(result) ? { played: result } : result), ...context() };
      if (task === "field" || task === "paid") this.#look();
      if (task === "field" && asked !== undefined) this.timings.map.push(performance.now() - asked);
      this.#tell(task);
    });
  }

  /** Computes what the cells are coloured by, from the last answer: no system is solved again for another λ. */
  #look() {
    const began = performance.now(),
      { field, paid: told } = this.results,
      { world, view } = this.state;
    if (!field) return;
    const { grid, firstVisit, escape } = field,
      depletion = new Depletion(world.depletion);
    const sites = world.sites.map(({ cell }) => grid.number[cell]);
    const numbers = new Int32Array(grid.size);
    sites.forEach((state, i) => {
      if (state >= 0) numbers[state] = i;
    });
    const fits = told && told.paid.length === grid.size;
    const paid = depletion.growsBack
      ? fits
        ? told.paid
        : new Float64Array(grid.size).fill(NaN)
      : Float64Array.from(escape, (each, s) => depletion.total(numbers[s], each));
    const every = { firstVisit, sites: { length: grid.size } },
      from = grid.number[view.cell] ?? -1;
    const visits = from >= 0 ? row(every, paid, from) : null;
    this.look = { grid, visits, values: sites.every((state) => state >= 0) ? this.#values(field, paid, sites) : null };
    this.timings.curve.push(performance.now() - began);
  }

  /** Returns the value of every state, from the columns of the sites. */
  #values({ grid, firstVisit, kernel, policy, discount }, paid, sites) {
    const few = new Float64Array(grid.size * sites.length);
    for (let s = 0; s < grid.size; s++)
      sites.forEach((state, i) => {
        few[s * sites.length + i] = firstVisit[s * grid.size + state];
      });
    const chain = { grid, kernel, policy, discount, firstVisit: few },
      { world } = this.state;
    return values(
      chain,
      sites.map((state) => paid[state]),
      world.sites.map(({ reward }) => reward),
      world.wallPenalty,
    );
  }

  /** Returns Φ_λ from the cell that is looked from to another cell, as a function of λ; null while it is not known. */
  phiCurve(cell) {
    const { field } = this.results,
      { grid } = this.look ?? {};
    const [from, to] = [grid?.number[this.view.cell] ?? -1, grid?.number[cell] ?? -1];
    if (!field || from < 0 || to < 0) return null;
    return (lam) => field.firstVisit[from * grid.size + to] / (1 - lam + lam * field.escape[to]);
  }
}
