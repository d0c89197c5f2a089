// Changes of a world. Each function returns a new world; a world that was handed over never changes.

import { LIMITS } from "./state.js";

/** Returns a parameter of a depletion for other sites: one number stays, one for each site follows the sites. */
function mapParameters(depletion, change) {
  return Object.fromEntries(
    Object.entries(depletion).map(([name, value]) => [
      name,
      Array.isArray(value) && value.length > 1 ? change(value) : value,
    ]),
  );
}

/** Returns the world without a reward in a cell. */
export function removeReward(world, cell) {
  const at = world.sites.findIndex((site) => site.cell === cell);
  if (at < 0) return world;
  const without = (list) => list.filter((_, i) => i !== at);
  return { ...world, sites: without(world.sites), depletion: mapParameters(world.depletion, without) };
}

/** Returns the world with a reward in a free cell, or with another size of the one that is there. */
export function putReward(world, cell, reward) {
  if (world.walls[cell]) return world;
  const there = world.sites.some((site) => site.cell === cell);
  if (there) return { ...world, sites: world.sites.map((site) => (site.cell === cell ? { cell, reward } : site)) };
  if (world.sites.length >= LIMITS.sites) return world;
  const depletion = mapParameters(world.depletion, (list) => [...list, list[list.length - 1]]);
  return { ...world, sites: [...world.sites, { cell, reward }], depletion };
}

/** Returns the world with or without a wall in a cell. The start never becomes a wall; a reward in a wall is gone. */
export function putWall(world, cell, wall) {
  if (world.walls[cell] === wall || (wall && cell === world.start)) return world;
  const walls = world.walls.slice();
  walls[cell] = wall;
  const changed = { ...world, walls };
  return wall ? removeReward(changed, cell) : changed;
}

/** Returns the world with nothing in a cell. */
export function erase(world, cell) {
  return putWall(removeReward(world, cell), cell, 0);
}

/** Returns the world with its start in a free cell. */
export function moveStart(world, cell) {
  return world.walls[cell] || cell === world.start ? world : { ...world, start: cell };
}

/** Returns the world with a reward moved to a free cell that has none. */
export function moveReward(world, from, to) {
  if (world.walls[to] || world.sites.some((site) => site.cell === to)) return world;
  return { ...world, sites: world.sites.map((site) => (site.cell === from ? { ...site, cell: to } : site)) };
}

/** Returns the cells on a straight line between two cells, so that a quick stroke has no holes. */
export function line(from, to, columns) {
  const [x0, y0, x1, y1] = [from % columns, Math.floor(from / columns), to % columns, Math.floor(to / columns)];
  const steps = Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0), 1);
  return Array.from(
    { length: steps + 1 },
    (_, i) => Math.round(y0 + ((y1 - y0) * i) / steps) * columns + Math.round(x0 + ((x1 - x0) * i) / steps),
  );
}

/** Returns an empty world with walls around it, and a start in its lower right. */
export function emptyWorld(rows, columns, settings) {
  const [high, wide] = [rows + 2, columns + 2],
    walls = new Uint8Array(high * wide);
  for (let cell = 0; cell < walls.length; cell++) {
    const [row, column] = [Math.floor(cell / wide), cell % wide];
    if (row === 0 || column === 0 || row === high - 1 || column === wide - 1) walls[cell] = 1;
  }
  const depletion = mapParameters(settings.depletion, (list) => list[0]);
  return { ...settings, depletion, rows: high, columns: wide, walls, sites: [], start: rows * wide + columns };
}

/** Remembers states as text, for undo and redo. */
export class History {
  constructor(first) {
    this.states = [first];
    this.at = 0;
  }

  /** Adds a state, if it differs from the present one. What was undone before is forgotten. */
  add(state) {
    if (state === this.states[this.at]) return;
    this.states = [...this.states.slice(Math.max(0, this.at - 199), this.at + 1), state];
    this.at = this.states.length - 1;
  }

  get canUndo() {
    return this.at > 0;
  }

  get canRedo() {
    return this.at < this.states.length - 1;
  }

  /** Returns the state some steps away, which is now the present one. */
  go(steps) {
    this.at = Math.min(Math.max(this.at + steps, 0), this.states.length - 1);
    return this.states[this.at];
  }
}
