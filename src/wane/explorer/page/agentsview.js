// The foragers: what they believe, how they fare, and when they leave.

import { svg, timeChart } from "./charts.js";
import { format, theme } from "./colours.js";
import { byId, element, slider } from "./controls.js";
import { drawAgent, drawCells, drawRewards, drawStart, drawTrail, fit, letter, position } from "./painting.js";

const KINDS = [
  ["paths", "combines the paths to each reward"],
  ["walk", "improves on a random walk"],
  ["best", "plans everything: the optimum"],
];
const SHAPES = ["M8 1a7 7 0 1 0 .01 0z", "M2 2h12v12H2z", "M8 0l8 8-8 8-8-8z"];
const SHOWN_STAYS = 14;

/** The cards, charts and table of the agents. */
export class AgentsView {
  constructor(store) {
    Object.assign(this, { store, followed: 0, cards: [], charts: [] });
    byId("add-agent").addEventListener("click", () => {
      store.change({ view: { agents: [...store.view.agents, { kind: "paths", belief: null }] } });
      store.commit();
    });
  }

  /** Returns the episode of an agent, in cells of the map, with its stays; null while it is not known. */
  episode(i) {
    const { agents: played, best } = this.store.results,
      agent = this.store.view.agents[i];
    return agent?.kind === "best" ? best : (played?.played[i] ?? null);
  }

  /** Returns the agents that can be drawn: their cells on the map and what remained for them. */
  walkers() {
    const { world } = this.store,
      colours = theme();
    return this.store.view.agents.flatMap((_, i) => {
      const found = this.cards[i]?.shown;
      if (!found || found.columns !== world.columns) return [];
      return [{ ...found, shape: i, colour: colours.agents[i], followed: i === this.followed }];
    });
  }

  /** Builds the cards anew if agents came or went, and fills them. */
  update() {
    const { agents } = this.store.view;
    if (this.cards.length !== agents.length || this.cards.some((card, i) => card.kind !== agents[i].kind))
      this.#build(agents);
    this.followed = Math.min(this.followed, Math.max(agents.length - 1, 0));
    agents.forEach(({ belief }, i) => this.cards[i].setBelief(belief));
    this.cards.forEach(({ box, follow }, i) => {
      box.classList.toggle("followed", i === this.followed && agents.length > 1);
      follow.setAttribute("aria-pressed", i === this.followed);
      follow.hidden = agents.length < 2;
    });
    byId("add-agent").hidden = agents.length >= 3;
  }

  #build(agents) {
    if (this.cards.length !== agents.length) this.followed = Math.min(1, agents.length - 1);
    this.cards = agents.map((agent, i) => this.#card(agent, i));
    byId("agents").replaceChildren(...this.cards.map(({ box }) => box));
  }

  #set(i, change, done) {
    const agents = this.store.view.agents.map((agent, j) => (j === i ? { ...agent, ...change } : agent));
    this.store.change({ view: { agents } });
    if (done) this.store.commit();
  }

  /** Makes the card of one agent. */
  #card({ kind }, i) {
    const name = `Forager ${i + 1}`,
      canvas = element("canvas", { role: "img" });
    const menu = element(
      "select",
      { "aria-label": `How forager ${i + 1} decides` },
      ...KINDS.map(([value, textContent]) => element("option", { value, textContent })),
    );
    menu.value = kind;
    menu.addEventListener("change", () => this.#set(i, { kind: menu.value }, true));
    const { follow, remove } = this.#buttons(i);
    const belief = this.#belief(i),
      score = element("dl", { className: "score" });
    const icon = svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: SHAPES[i] }));
    const head = element("h3", {}, icon, element("span", { className: "name", textContent: name }), follow, remove);
    const words = element("div", { className: "words" }, head, menu, ...(kind === "best" ? [] : [belief.box]), score);
    const picture = element("div", { className: "picture" }, canvas);
    const box = element("article", { className: `agent agent-${i}`, "aria-label": name }, picture, words);
    return {
      box,
      canvas,
      picture,
      score,
      follow,
      kind,
      setBelief: belief.set,
      base: document.createElement("canvas"),
      shown: null,
    };
  }

  /** Makes the buttons of a card: one shows the agent's rewards on the large map, one takes the agent away. */
  #buttons(i) {
    const follow = element("button", {
      type: "button",
      textContent: "Follow",
      title: "Show what is left for this forager on the large map",
    });
    follow.addEventListener("click", () => {
      this.followed = i;
      this.update();
      this.onFollow?.();
    });
    const remove = element("button", {
      type: "button",
      textContent: "×",
      title: "Remove",
      "aria-label": `Remove forager ${i + 1}`,
    });
    remove.addEventListener("click", () => {
      this.store.change({ view: { agents: this.store.view.agents.filter((_, j) => j !== i) } });
      this.store.commit();
    });
    return { follow, remove };
  }

  /** Makes the slider of a belief, with a box to tick for the truth. */
  #belief(i) {
    const knows = element("input", { type: "checkbox" });
    const range = slider({
      label: "or believes λ̂ =",
      low: 0,
      high: 1,
      step: 0.01,
      value: 0.5,
      onInput: (value) => this.#set(i, { belief: value }, false),
      onDone: () => this.store.commit(),
    });
    knows.addEventListener("change", () =>
      this.#set(i, { belief: knows.checked ? null : Number(range.querySelector("input").value) }, true),
    );
    const set = (belief) => {
      knows.checked = belief === null;
      range.hidden = belief === null;
      if (belief !== null) range.set(belief);
    };
    return {
      box: element(
        "div",
        { className: "belief" },
        element("label", { className: "check" }, knows, "knows the truth"),
        range,
      ),
      set,
    };
  }

  /** Takes over new episodes: charts, table and pictures. Returns how many steps the longest one has. */
  refresh() {
    const { world } = this.store,
      best = this.store.fresh("best"),
      known = this.cards.map((_, i) => this.episode(i));
    const cellOf = (grid) => (state) => grid[state],
      cells = [...world.walls.keys()].filter((cell) => !world.walls[cell]);
    this.cards.forEach((card, i) => {
      const fits = known[i] && known[i].episode.cells.every((state) => state < cells.length);
      card.shown = fits
        ? { ...known[i].episode, cells: known[i].episode.cells.map(cellOf(cells)), columns: world.columns }
        : null;
    });
    this.redraw();
    const steps = Math.max(0, ...this.cards.map(({ shown }) => shown?.actions.length ?? 0));
    this.#charts(best, steps);
    this.#table(known, best);
    this.step = null;
    return steps;
  }

  #base(card) {
    const { world } = this.store;
    card.box.classList.toggle("wide", world.columns > 2 * world.rows);
    const { side } = fit(card.canvas, world, card.picture.clientWidth || 120, 170);
    Object.assign(card, { side, drawn: world.walls });
    drawCells(fit(card.base, world, side * world.columns).context, side, world);
  }

  /** Draws the small maps anew, after a change of the map. */
  redraw() {
    this.#best(this.store.fresh("best"));
    const { walls } = this.store.world;
    this.cards.filter((card) => card.drawn !== walls).forEach((card) => this.#base(card));
  }

  /** Forgets what was drawn: after a change of colours or sizes. */
  forget() {
    this.cards.forEach((card) => {
      card.drawn = null;
    });
  }

  #charts(best, steps) {
    const shown = this.cards.map(({ shown: each }, i) => each && { each, style: `line-${i}` }).filter(Boolean);
    const sum = (list) => list.reduce((total, value) => total + Math.max(value, 0), 0);
    const extend = (values) => [
      ...values,
      ...Array(Math.max(steps + 1 - values.length, 0)).fill(values[values.length - 1]),
    ];
    const optimal = best && shown.length ? [{ values: extend(best.episode.returns), style: "line-best" }] : [];
    const returns = shown.map(({ each, style }) => ({ values: extend(each.returns), style }));
    const remaining = shown.map(({ each, style }) => ({ values: extend(each.remaining.map(sum)), style }));
    const lost = optimal.length
      ? returns.map(({ values, style }) => ({
          values: values.map((value, t) => optimal[0].values[Math.min(t, optimal[0].values.length - 1)] - value),
          style,
        }))
      : [];
    const wanted = [
      ["Return so far (dotted: the best)", [...returns, ...optimal]],
      ["What is left of all rewards", remaining],
      ["Behind the best, so far", lost],
    ];
    const places = wanted
      .filter(([, lines]) => lines.length)
      .map(([title, lines]) => {
        return { place: element("div", { className: "chart" }), title, lines };
      });
    byId("charts-card").hidden = !places.length;
    byId("charts").replaceChildren(...places.map(({ place }) => place));
    this.charts = places.map(({ place, title, lines }) => timeChart(place, title, lines, Math.max(steps, 1)));
  }

  /** Fills the table of stays: the steps of each, and those of the marginal value theorem in brackets. */
  #table(known, best) {
    const plus = (steps, censored) => `${steps}${censored ? "+" : ""}`;
    const words = ({ site, steps, censored, rule }) =>
      `${letter(site)} ${plus(steps, censored)}${rule ? ` (${plus(rule.steps, rule.censored)})` : ""}`;
    const rows = known.map((each, i) => [`Forager ${i + 1}`, each]);
    if (best && !this.cards.some(({ kind }) => kind === "best")) rows.push(["The best", best]);
    byId("stays").replaceChildren(
      ...rows
        .filter(([, each]) => each)
        .map(([name, each]) => {
          const more = each.stays.length > SHOWN_STAYS ? " …" : "";
          const text = each.stays.slice(0, SHOWN_STAYS).map(words).join(", ") || "never at a reward";
          return element(
            "tr",
            {},
            element("th", { scope: "row", textContent: name }),
            element("td", { textContent: text + more }),
          );
        }),
    );
  }

  /** Says what the best possible return is, or why it is not known. */
  #best(best) {
    const { world } = this.store,
      error = best && best.error > 1e-5 ? `, exact to ${format(best.error)}` : "";
    let words = "The best possible return is not computed here: there are too many combinations of visits.";
    if (world.depletion.kind === "TimeElapsed") {
      words =
        "For rewards that grow back this page does not know the best possible return; world.optimum() in Python encloses it.";
    }
    if (best)
      words = `Best possible return from the start: ${format(best.value)}${world.slip ? " on average" : ""}${error}.`;
    else if (this.store.isWaiting("best")) words = "Looking for the best possible return …";
    byId("best-text").textContent = world.sites.length
      ? words
      : "There is no reward yet: choose the tool “Reward” and click on the map.";
  }

  /** Shows a time in the cards and charts. Texts change only with whole steps. */
  show(time) {
    this.charts.forEach((show) => show(time));
    const step = Math.floor(time),
      fresh = step !== this.step,
      { world } = this.store,
      colours = theme();
    this.step = step;
    this.cards.forEach((card, i) => {
      const { shown, side, canvas, base } = card,
        context = canvas.getContext("2d");
      context.clearRect(0, 0, world.columns * side, world.rows * side);
      context.drawImage(base, 0, 0, world.columns * side, world.rows * side);
      const remaining = shown?.remaining[Math.min(step, shown.remaining.length - 1)];
      drawRewards(context, side, world, remaining?.length === world.sites.length ? remaining : null, false);
      if (side > 7) drawStart(context, side, world);
      if (!shown || shown.columns !== world.columns) return;
      drawTrail(context, side, world.columns, shown.cells, time, colours.agents[i], 0);
      drawAgent(context, side, position(shown.cells, world.columns, time), i, colours.agents[i], side < 14 ? 1.7 : 1.2);
      if (fresh) this.#score(card, i, shown, step, remaining);
    });
  }

  #score({ score, canvas }, i, { returns }, step, remaining) {
    const best = this.store.fresh("best"),
      at = Math.min(step, returns.length - 1),
      own = returns[at];
    const optimal = best?.episode.returns,
      total = remaining.reduce((sum, value) => sum + value, 0);
    const rows = [
      ["return", format(own)],
      ["left", format(total)],
    ];
    if (optimal) rows.push(["behind best", format(optimal[Math.min(step, optimal.length - 1)] - own)]);
    rows.push(["at the end", format(returns[returns.length - 1])]);
    score.replaceChildren(
      ...rows.map(([dt, dd]) =>
        element("div", {}, element("dt", { textContent: dt }), element("dd", { textContent: dd })),
      ),
    );
    canvas.setAttribute("aria-label", `Map of forager ${i + 1} at step ${step}: return ${format(own)}`);
  }
}
