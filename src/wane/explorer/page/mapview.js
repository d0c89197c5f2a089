// The map: painting, dragging and pointing with a mouse, a finger or the keys; and its picture.

import { format, makeScale, ramp, theme } from "./colours.js";
import { byId } from "./controls.js";
import { erase, line, moveReward, moveStart, putReward, putWall } from "./editing.js";
import {
  drawAgent,
  drawCells,
  drawFrame,
  drawRewards,
  drawStart,
  drawTrail,
  fit,
  letter,
  position,
} from "./painting.js";

const HINTS = {
  look: "Click a cell to look from it. Drag the flag or a reward to move them.",
  wall: "Paint walls. The start cannot become a wall.",
  erase: "Wipe walls and rewards away.",
  reward: "Click a free cell to drop a reward, or a reward to change its size.",
  start: "Click where the foragers start.",
};
const KEYS = { l: "look", w: "wall", e: "erase", r: "reward", s: "start" };
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const NAMES = { visits: "visits from the framed cell", values: "value", nothing: "" };

/** The large map. `walkers()` returns the agents to draw: {cells, remaining, shape, colour, followed}. */
export class MapView {
  constructor(store, walkers) {
    Object.assign(this, { store, walkers, canvas: byId("map"), base: document.createElement("canvas"), time: 0 });
    Object.assign(this, { tool: "look", hover: null, cursor: null, target: null, selected: null, stroke: null });
    this.measure();
    this.#listen();
    this.useTool("look");
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", (event) => this.#up(event));
    canvas.addEventListener("pointerleave", () => this.#point(null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => {
      this.cursor = null;
      this.draw();
    });
    // A finger that drags the flag or a reward must not scroll the page.
    canvas.addEventListener(
      "touchstart",
      (event) => {
        if (this.#grabs(this.#cellAt(event.touches[0]))) event.preventDefault();
      },
      { passive: false },
    );
    byId("tools").addEventListener("change", (event) => this.useTool(event.target.value));
    byId("reward-size").addEventListener("input", (event) => this.#resize(Number(event.target.value)));
    byId("reward-size").addEventListener("change", () => this.store.commit());
  }

  useTool(tool) {
    this.tool = tool;
    document.querySelector(`input[name="tool"][value="${tool}"]`).checked = true;
    this.canvas.classList.toggle("paint", tool !== "look");
    byId("tool-hint").textContent = HINTS[tool];
    byId("reward-row").hidden = tool !== "reward";
    if (tool !== "reward") this.selected = null;
    this.#showSize(Number(byId("reward-size").value));
  }

  #showSize(size) {
    byId("reward-size").value = size;
    document.querySelector('output[for="reward-size"]').value = format(size);
  }

  #resize(size) {
    this.#showSize(size);
    if (this.selected !== null) this.store.change({ world: putReward(this.store.world, this.selected, size) });
  }

  #cellAt({ clientX, clientY }) {
    const { left, top } = this.canvas.getBoundingClientRect(),
      { rows, columns } = this.store.world;
    const [column, row] = [Math.floor((clientX - left) / this.side), Math.floor((clientY - top) / this.side)];
    return row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : null;
  }

  /** Whether a press on a cell picks something up. */
  #grabs(cell) {
    const { world } = this.store;
    return this.tool === "look" && (cell === world.start || world.sites.some((site) => site.cell === cell));
  }

  #down(event) {
    const cell = this.#cellAt(event);
    if (cell === null || event.button > 0) return;
    try {
      this.canvas.setPointerCapture(event.pointerId);
    } catch {
      // A pointer that is already gone cannot be captured, and need not be.
    }
    this.stroke = { from: cell, last: cell, moved: false, grabbed: this.#grabs(cell) ? cell : null };
    if (this.tool !== "look") this.#use(cell);
  }

  #move(event) {
    const cell = this.#cellAt(event);
    this.#point(cell);
    const { stroke } = this,
      { world } = this.store;
    if (!stroke || cell === null || cell === stroke.last) return;
    stroke.moved = true;
    if (stroke.grabbed !== null) this.#drag(cell);
    else if (this.tool === "wall" || this.tool === "erase")
      line(stroke.last, cell, world.columns).forEach((each) => this.#use(each));
    else if (this.tool === "start") this.#use(cell);
    stroke.last = cell;
  }

  #drag(cell) {
    const { stroke, store } = this,
      { world } = store,
      isReward = world.sites.some((site) => site.cell === stroke.grabbed);
    const changed =
      isReward && stroke.grabbed !== world.start ? moveReward(world, stroke.grabbed, cell) : moveStart(world, cell);
    if (changed === world) return;
    stroke.grabbed = cell;
    store.change({ world: changed });
  }

  #up(event) {
    const { stroke, store } = this;
    this.stroke = null;
    if (!stroke || event.type === "pointercancel") return;
    if (this.tool === "look" && !stroke.moved && !store.world.walls[stroke.from])
      store.change({ view: { cell: stroke.from } });
    store.commit();
  }

  /** Uses the tool on a cell. */
  #use(cell) {
    const { store } = this,
      { world } = store,
      size = Number(byId("reward-size").value);
    if (this.tool === "look" && !world.walls[cell]) store.change({ view: { cell } });
    if (this.tool === "wall") store.change({ world: putWall(world, cell, 1) });
    if (this.tool === "erase") store.change({ world: erase(world, cell) });
    if (this.tool === "start") store.change({ world: moveStart(world, cell) });
    if (this.tool === "reward" && !world.walls[cell]) {
      const there = world.sites.find((site) => site.cell === cell);
      this.selected = cell;
      if (there) this.#showSize(there.reward);
      store.change({ world: there ? {} : putReward(world, cell, size) });
    }
  }

  #key(event) {
    const { store } = this,
      { world } = store;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    this.cursor ??= store.view.cell;
    const arrow = ARROWS[event.key],
      tool = KEYS[event.key.toLowerCase()];
    const reward = world.sites.find((site) => site.cell === this.cursor),
      more = { "+": 0.5, "-": -0.5, "=": 0.5 }[event.key];
    if (arrow) this.#walk(arrow);
    else if (event.key === "Enter") {
      this.#use(this.cursor);
      store.commit();
    } else if (tool) this.useTool(tool);
    else if (more && reward) {
      store.change({ world: putReward(world, this.cursor, reward.reward + more) });
      store.commit();
    } else return;
    event.preventDefault();
    this.#point(this.cursor);
  }

  #walk([down, right]) {
    const { rows, columns } = this.store.world,
      row = Math.floor(this.cursor / columns) + down,
      column = (this.cursor % columns) + right;
    if (row >= 0 && row < rows && column >= 0 && column < columns) this.cursor = row * columns + column;
  }

  /** Points at a cell: its numbers are told, and the curve below shows Φ to it. */
  #point(cell) {
    if (cell === this.hover && this.cursor === null) return;
    this.hover = cell;
    if (cell !== null && !this.store.world.walls[cell]) this.target = cell;
    this.onPoint?.();
    this.tell();
    this.draw();
  }

  /** Tells the numbers of the cell that is pointed at, or of the one that is looked from. */
  tell() {
    const { world, view, look } = this.store,
      cell = this.hover ?? view.cell,
      place = (each) => `(${Math.floor(each / world.columns)}, ${each % world.columns})`;
    const site = world.sites.findIndex((each) => each.cell === cell),
      state = look?.grid.number[cell] ?? -1;
    const parts = [
      `Cell ${place(cell)}${world.walls[cell] ? ", a wall" : ""}${cell === world.start ? ", the start" : ""}`,
    ];
    if (site >= 0) parts.push(`reward ${letter(site)} of ${format(world.sites[site].reward)}`);
    if (state >= 0 && view.show === "visits" && look.visits)
      parts.push(`Φ from ${place(view.cell)} = ${format(look.visits[state])}`);
    if (state >= 0 && view.show !== "nothing" && look.values) parts.push(`value ${format(look.values[state])}`);
    byId("readout").textContent = parts.join(" · ");
  }

  /** Measures how large the map may be. To ask for it at every change would make the browser lay out the page. */
  measure() {
    this.room = { width: this.canvas.parentElement.clientWidth, height: Math.max(window.innerHeight * 0.58, 300) };
  }

  /** Draws the cells anew: after a change of the world, of the colours or of the size. */
  redraw() {
    const { world, view, look } = this.store,
      { side } = fit(this.canvas, world, this.room.width, this.room.height);
    this.side = side;
    const numbers = look && view.show !== "nothing" ? look[view.show] : null,
      scale = numbers && makeScale(numbers);
    const heat =
      scale &&
      Float64Array.from(world.walls, (_, cell) => {
        const state = look.grid.number[cell] ?? -1;
        return state < 0 ? NaN : scale.share(numbers[state]);
      });
    drawCells(fit(this.base, world, side * world.columns).context, side, world, heat);
    this.#legend(scale, view, numbers?.some(Number.isNaN));
    this.tell();
    this.draw();
  }

  #legend(scale, { show }, partial) {
    byId("legend").hidden = !scale;
    if (!scale) return;
    this.#ramp(scale.low < 0 ? scale : { low: 0, high: 1 });
    byId("ramp-low").textContent = format(scale.low);
    byId("ramp-high").textContent = format(scale.high);
    byId("ramp-name").textContent =
      `${NAMES[show]}${scale.logarithmic ? " (logarithmic)" : ""}${partial ? ", rewarded cells only" : ""}`;
  }

  /** Paints the colours of the legend, if they are not there yet. */
  #ramp({ low, high }) {
    const context = byId("ramp").getContext("2d"),
      colours = theme(),
      most = Math.max(high, -low) || 1;
    const painted = [colours.free, low / most, high / most].join();
    if (this.painted === painted) return;
    this.painted = painted;
    for (let x = 0; x < 256; x++) {
      const share = (low + ((high - low) * x) / 255) / most;
      context.fillStyle = share >= 0 ? ramp(colours.up, share) : ramp(colours.down, -share);
      context.fillRect(x, 0, 1, 12);
    }
  }

  /** Draws everything that moves on top of the cells. */
  draw(time = this.time) {
    if (!this.side) return;
    this.time = time;
    const { world, view } = this.store,
      { side } = this,
      context = this.canvas.getContext("2d"),
      walkers = this.walkers();
    context.clearRect(0, 0, world.columns * side, world.rows * side);
    context.drawImage(this.base, 0, 0, world.columns * side, world.rows * side);
    const followed = walkers.find((walker) => walker.followed),
      step = Math.floor(time);
    const remaining = followed?.remaining[Math.min(step, followed.remaining.length - 1)];
    drawRewards(context, side, world, remaining?.length === world.sites.length ? remaining : null, true);
    drawStart(context, side, world);
    if (view.show === "visits") drawFrame(context, side, world.columns, view.cell, true);
    if (this.selected !== null) drawFrame(context, side, world.columns, this.selected, true);
    const spread = walkers.length > 1 ? 0.1 : 0;
    walkers.forEach(({ cells, colour, shape }) =>
      drawTrail(context, side, world.columns, cells, time, colour, (shape - 1) * spread),
    );
    walkers.forEach(({ cells, colour, shape, followed: large }) =>
      drawAgent(
        context,
        side,
        position(cells, world.columns, time),
        shape,
        colour,
        large ? 1.15 : 0.85,
        (shape - 1) * spread,
      ),
    );
    const pointed = this.cursor ?? this.hover;
    if (pointed !== null) drawFrame(context, side, world.columns, pointed, this.cursor !== null);
  }
}
