// Puts the page together: reads where it begins, connects the controls, and shows what was computed.

import { AgentsView } from "./agentsview.js";
import { barChart, curveChart } from "./charts.js";
import { format } from "./colours.js";
import { byId, fillMenu, freshDepletion, PARAMETERS, RULES, slider } from "./controls.js";
import { Depletion } from "./depletion.js";
import { emptyWorld } from "./editing.js";
import { Guide } from "./guide.js";
import { MapView } from "./mapview.js";
import { letter } from "./painting.js";
import { Playback } from "./playback.js";
import { decodeLink, describeWorld, encodeLink, readState, readWorld, Refused } from "./state.js";
import { Store } from "./store.js";
import { connectTakeaway } from "./takeaway.js";

const DATA = JSON.parse(byId("data").textContent);
/** A shorter part of the address after # is a place in the page, not a world. */
const SHORTEST_LINK = 40;

/** The page. */
class App {
  constructor() {
    this.store = new Store(this.#first());
    this.agents = new AgentsView(this.store);
    this.map = new MapView(this.store, () => this.agents.walkers());
    this.playback = new Playback((time) => {
      this.map.draw(time);
      this.agents.show(time);
    });
    this.guide = new Guide(this);
    this.sliders = {};
    connectTakeaway(this);
    this.#connect();
    this.store.listen((what) => this.#hear(what));
    this.store.load(this.store.state);
    this.#showHistory();
  }

  /** Returns the state to begin with: that of the address, or that of the file, whose view may be refused. */
  #first() {
    return this.#linked() ?? this.#tried(() => readState(DATA.state)) ?? readState(DATA.state.world);
  }

  /** Returns the state that the address holds, or null if it holds none that makes sense. */
  #linked() {
    return location.hash.length < SHORTEST_LINK ? null : this.#tried(() => decodeLink(location.hash));
  }

  /** Returns what a function reads, or null after saying in a sentence why it was refused. */
  #tried(read) {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.complain(error.message);
      return null;
    }
  }

  /** Says in a sentence what was wrong with a link or a file. The next change of the world takes it back. */
  complain(sentence) {
    this.refusal = sentence;
    this.#say(sentence);
  }

  #say(sentence) {
    if (byId("message").textContent !== sentence) byId("message").textContent = sentence;
    byId("message").hidden = !sentence;
  }

  /** Shows another state, which can be undone. */
  open(state) {
    this.complain("");
    this.playback.go(0);
    this.store.load(state);
    this.store.commit();
  }

  /** Plays as soon as the episodes of the present state are known. */
  playSoon() {
    this.wantsToPlay = true;
    this.#begin();
  }

  #begin() {
    if (!this.wantsToPlay || !this.playback.end || this.store.results.agents?.world !== this.store.world) return;
    if (
      this.store.view.agents.some(({ kind }) => kind === "best") &&
      this.store.results.best?.world !== this.store.world
    )
      return;
    this.wantsToPlay = false;
    if (!this.playback.still.matches) this.playback.play();
  }

  #hear(what) {
    if (what === "history") this.#remember();
    if (what === "loaded") this.map.selected = this.map.target = this.map.hover = this.map.cursor = null;
    if (what === "state") this.#showState();
    if (what === "state") this.agents.redraw();
    if (what === "agents" || what === "best" || what === "loaded") {
      this.playback.setEnd(this.agents.refresh());
      this.#begin();
    }
    if (what !== "agents" && what !== "best" && what !== "history") {
      this.map.redraw();
      this.#say(this.refusal || this.#warning());
      this.#soon();
    }
  }

  /** Draws the small charts beside the map with the next frame, however often they changed until then. */
  #soon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.#showWorths();
      this.#showCurve();
    });
  }

  /** Keeps the state in the address, so that a reload shows the same, and the buttons of the history right. */
  #remember() {
    this.refusal = "";
    this.#showHistory();
    clearTimeout(this.later);
    this.later = setTimeout(() => {
      try {
        history.replaceState(null, "", `#${encodeLink(this.store.state)}`);
      } catch {
        // A page inside of a notebook has no address of its own.
      }
    }, 400);
  }

  #showHistory() {
    byId("undo").disabled = !this.store.history.canUndo;
    byId("redo").disabled = !this.store.history.canRedo;
  }

  /** Brings all controls in line with the state. */
  #showState() {
    const { world, view } = this.store;
    this.#showParameters(world);
    RULES.forEach(({ name }) => this.sliders[name].set(world[name]));
    byId("show").value = view.show;
    const paths = world.sites.map((_, i) => [String(i), `walks to reward ${letter(i)} and stays`]);
    fillMenu(byId("policy"), [["walk", "wanders at random"], ...paths], String(view.policy));
    byId("world").value = this.nameOfWorld() ?? "";
    this.agents.update();
    const texts = {
      visits:
        "How often, and how soon, will the framed cell’s walker come to each cell? Visits wear off like the rewards do; soon ones count more.",
      values: "What a walker who starts in each cell will collect, all rewards being fresh.",
      nothing: "The map shows only what there is.",
    };
    byId("look-text").textContent = texts[view.show];
  }

  /** Returns a sentence if no reward can be reached, or an empty text. */
  #warning() {
    const { look, world } = this.store,
      grid = look?.grid,
      start = grid?.number[world.start] ?? -1;
    if (!world.sites.length || start < 0 || grid.columns !== world.columns) return "";
    const steps = grid.distances(start),
      reached = world.sites.some(({ cell }) => steps[grid.number[cell]] < Infinity);
    return reached ? "" : "No reward can be reached from the start: open a wall, or move the flag or a reward.";
  }

  #showParameters(world) {
    const { kind } = world.depletion;
    byId("kind").value = kind;
    if (this.kind !== kind) {
      this.kind = kind;
      this.parameters = Object.fromEntries(
        Object.entries(PARAMETERS[kind]).map(([name, how]) => [name, this.#parameter(name, how)]),
      );
      byId("parameters").replaceChildren(...Object.values(this.parameters));
    }
    for (const [name, made] of Object.entries(this.parameters)) {
      const value = world.depletion[name];
      made.set(Array.isArray(value) ? value[0] : value);
      if (Array.isArray(value) && value.length > 1)
        made.querySelector("output").value = `${value.map(format).join(", ")} by reward`;
    }
  }

  /** Shows what the first visits are worth, or how a reward grows back after one visit. */
  #showWorths() {
    const depletion = new Depletion(this.store.world.depletion);
    const visits = Array.from({ length: 8 }, (_, n) => depletion.worth(0, { visits: n, steps: 1 }));
    const waits = Array.from({ length: 8 }, (_, n) => depletion.worth(0, { visits: 1, steps: n + 1 }));
    if (depletion.growsBack)
      barChart(
        byId("worths"),
        "Worth after one visit, by steps away",
        waits,
        waits.map((_, n) => String(n + 1)),
      );
    else
      barChart(
        byId("worths"),
        "Worth of each visit, one after the other",
        visits,
        visits.map((_, n) => `${n + 1}.`),
      );
  }

  #parameter(name, how) {
    return slider({
      ...how,
      value: how.fresh,
      onInput: (value) => this.store.change({ world: { depletion: { ...this.store.world.depletion, [name]: value } } }),
      onDone: () => this.store.commit(),
    });
  }

  /** Shows Φ from the framed cell to the cell that was pointed at last, for all λ. */
  #showCurve() {
    const { world, view } = this.store,
      target = this.map.target ?? world.sites[0]?.cell ?? view.cell,
      curve = this.store.phiCurve(target);
    byId("curve").hidden = view.show !== "visits" || !curve;
    if (byId("curve").hidden) return;
    const place = (cell) => `(${Math.floor(cell / world.columns)}, ${cell % world.columns})`,
      { kind, lam } = world.depletion;
    const title = `Φ from ${place(view.cell)} to ${place(target)} for every λ`;
    curveChart(byId("curve"), title, curve, kind === "Geometric" && typeof lam === "number" ? lam : null, [
      "λ = 0: the first visit (FR)",
      "λ = 1: every visit (SR)",
    ]);
  }

  /** Returns the name of the catalogue's world that is shown, whatever λ it has; null if it is none of them. */
  nameOfWorld() {
    const told = (world) => JSON.stringify({ ...describeWorld(world), depletion: null }),
      now = told(this.store.world);
    this.known ??= Object.entries(DATA.catalogue).map(([name, description]) => [name, told(readWorld(description))]);
    return this.known.find(([, text]) => text === now)?.[0] ?? null;
  }

  #connect() {
    const { store } = this,
      on = (id, event, act) => byId(id).addEventListener(event, act);
    const names = Object.keys(DATA.catalogue).map((name) => [name, name]);
    fillMenu(byId("world"), [["", "your own"], ...names, ["empty", "an empty one …"]], "");
    on("world", "change", ({ target }) => this.#choose(target.value));
    on("make-empty", "click", () => this.#empty());
    on("undo", "click", () => store.undo(-1));
    on("redo", "click", () => store.undo(1));
    on("show", "change", ({ target }) => {
      store.change({ view: { show: target.value } });
      store.commit();
    });
    on("policy", "change", ({ target }) => {
      store.change({ view: { policy: target.value === "walk" ? "walk" : Number(target.value) } });
      store.commit();
    });
    on("kind", "change", ({ target }) => {
      store.change({ world: { depletion: freshDepletion(target.value) } });
      store.commit();
    });
    for (const { name, ...how } of RULES) {
      this.sliders[name] = slider({
        ...how,
        value: how.low,
        onInput: (value) => store.change({ world: { [name]: value } }),
        onDone: () => store.commit(),
      });
    }
    byId("rules").replaceChildren(...Object.values(this.sliders));
    this.map.onPoint = () => this.#soon();
    this.agents.onFollow = () => this.map.draw();
    this.#connectWindow();
  }

  #connectWindow() {
    document.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("hashchange", () => {
      const state = this.#linked();
      if (state) this.open(state);
    });
    const dark = matchMedia("(prefers-color-scheme: dark)"),
      set = (isDark) => {
        document.documentElement.dataset.theme = isDark ? "dark" : "light";
        byId("theme").textContent = isDark ? "Light" : "Dark";
        this.#repaint();
      };
    dark.addEventListener("change", () => set(dark.matches));
    byId("theme").addEventListener("click", () => set(document.documentElement.dataset.theme !== "dark"));
    new ResizeObserver(() => this.#repaint()).observe(this.map.canvas.parentElement);
    set(dark.matches);
  }

  #repaint() {
    this.map.measure();
    this.map.redraw();
    this.agents.forget();
    this.playback.setEnd(this.agents.refresh());
    this.#soon();
  }

  #key(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA|BUTTON|SUMMARY)$/.test(event.target.tagName),
      key = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && (key === "z" || key === "y")) {
      this.store.undo(key === "y" || event.shiftKey ? 1 : -1);
    } else if (key === " " && !typing) {
      this.playback.toggle();
    } else {
      return;
    }
    event.preventDefault();
  }

  #choose(name) {
    byId("empty-size").hidden = name !== "empty";
    if (Object.hasOwn(DATA.catalogue, name)) {
      const { show, agents, seed } = this.store.view;
      this.open(readState({ world: DATA.catalogue[name], view: { show, agents, seed } }));
    }
  }

  #empty() {
    const [rows, columns] = ["rows", "columns"].map((id) =>
      Math.min(Math.max(Math.round(Number(byId(id).value)) || 1, 1), 40),
    );
    byId("empty-size").hidden = true;
    this.open({
      world: emptyWorld(rows, columns, this.store.world),
      view: { ...this.store.view, cell: null, policy: "walk" },
    });
  }
}

/** The page, for tests and for those who open the console. */
export const app = new App();
