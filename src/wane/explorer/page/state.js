// What the page shows, as data: a world and how to look at it. Everything that comes from a file or from an address is
// hostile until it was read by `readState` or `readWorld`. They look at no name that they do not know, check every type,
// size and range, and throw `Refused` with a sentence for the reader. Nothing is ever executed.

import { KINDS } from "./depletion.js";

export const LIMITS = { side: 42, sites: 40, reward: 1000, horizon: 1000, discount: 0.9999, text: 200_000 };
export const AGENT_KINDS = ["paths", "walk", "best"];
const SHOWN = ["visits", "values", "nothing"];
/** The names of a world's settings in its JSON, which are those of wane.worlds.World. */
const SETTINGS = [
  "map",
  "sites",
  "rewards",
  "depletion",
  "discount",
  "timing",
  "wall_penalty",
  "start",
  "n_actions",
  "slip",
  "observation",
  "horizon",
  "threshold",
  "policies",
];

/** What is thrown for input that makes no sense: its message is for the reader of the page. */
export class Refused extends Error {}

function refuse(sentence) {
  throw new Refused(sentence);
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);
const shorten = (value) => {
  const text = String(typeof value === "string" ? value : (JSON.stringify(value) ?? value));
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
};

function readNumber(value, name, low, high, whole = false) {
  const good = typeof value === "number" && Number.isFinite(value) && (!whole || Number.isInteger(value));
  if (!good || value < low || value > high) {
    refuse(`“${name}” must be a ${whole ? "whole " : ""}number from ${low} to ${high}, not ${shorten(value)}.`);
  }
  return value;
}

/** Returns a value that may be missing, read by a function, or its default. */
function optional(object, name, fallback, read) {
  const value = own(object, name);
  return value === undefined || value === null ? fallback : read(value, name);
}

/** Reads a world from its description. Throws `Refused` for what cannot be a world, or is too large for the page. */
export function readWorld(description) {
  if (!isObject(description)) refuse("A world is a JSON object with a “map”, “sites” and “rewards”.");
  const strange = Object.keys(description).find((name) => !SETTINGS.includes(name));
  if (strange !== undefined) refuse(`A world has no setting “${shorten(strange)}”.`);
  const map = readMap(own(description, "map"));
  const sites = readSites(own(description, "sites"), own(description, "rewards"), map);
  const timing = own(description, "timing");
  if (timing !== undefined && timing !== "arrival") refuse("This page shows worlds that pay on arrival only.");
  const range = (low, high, whole) => (value, name) => readNumber(value, name, low, high, whole);
  const most = LIMITS.reward;
  return {
    rows: map.rows,
    columns: map.columns,
    walls: map.walls,
    sites,
    depletion: readDepletion(own(description, "depletion") ?? { kind: "Geometric", lam: 0.5 }, sites.length),
    discount: optional(description, "discount", 0.99, range(0, LIMITS.discount)),
    wallPenalty: optional(description, "wall_penalty", 0, range(-most, most)),
    start: readStart(own(description, "start") ?? "uniform", map),
    nActions: optional(description, "n_actions", 5, range(4, 5, true)),
    slip: optional(description, "slip", 0, range(0, 1)),
    horizon: optional(description, "horizon", 200, range(1, LIMITS.horizon, true)),
    threshold: optional(description, "threshold", null, range(-most, most)),
  };
}

function readMap(text) {
  if (typeof text !== "string") refuse("The “map” of a world is text: # is a wall, . is a free cell.");
  if (text.length > 4000)
    refuse(`The map is too large: at most ${LIMITS.side} × ${LIMITS.side} cells fit on this page.`);
  const lines = text
    .replaceAll("\r\n", "\n")
    .split("\n")
    .map((line) => line.replace(/^[ \t]+|[ \t]+$/g, ""));
  while (lines.length && !lines[0]) lines.shift();
  while (lines.length && !lines[lines.length - 1]) lines.pop();
  const rows = lines.length,
    columns = rows ? lines[0].length : 0;
  if (rows > LIMITS.side || columns > LIMITS.side) {
    refuse(`The map is too large: at most ${LIMITS.side} × ${LIMITS.side} cells fit on this page.`);
  }
  if (lines.some((line) => line.length !== columns)) refuse("All rows of a map must have the same length.");
  const letters = lines.join("");
  if (/[^A-Za-z0-9#.]/.test(letters)) refuse("A map has only walls (#), free cells (.), letters and digits.");
  const walls = Uint8Array.from(letters, (letter) => (letter === "#" ? 1 : 0));
  if (!walls.includes(0)) refuse("A map needs at least one free cell.");
  const states = [...walls.keys()].filter((cell) => !walls[cell]);
  return { rows, columns, letters, walls, states };
}

/** Returns the cell of a place: a letter on the map, a [row, column], or a state number. */
function readPlace(place, map, what) {
  if (typeof place === "string" && place.length === 1 && /[A-Za-z0-9]/.test(place)) {
    const cell = map.letters.indexOf(place);
    if (cell < 0 || map.letters.lastIndexOf(place) !== cell) refuse(`“${place}” is not exactly once on the map.`);
    return cell;
  }
  if (Array.isArray(place) && place.length === 2 && place.every(Number.isInteger)) {
    const [row, column] = place;
    const inside = row >= 0 && row < map.rows && column >= 0 && column < map.columns;
    const cell = row * map.columns + column;
    if (!inside || map.walls[cell]) refuse(`The ${what} [${row}, ${column}] is not a free cell of the map.`);
    return cell;
  }
  if (Number.isInteger(place) && place >= 0 && place < map.states.length) return map.states[place];
  return refuse(`The ${what} ${shorten(place)} is no letter, no [row, column] and no state of the map.`);
}

function readSites(sites, rewards, map) {
  const places = typeof sites === "string" ? [...sites] : sites;
  if (!Array.isArray(places) || !Array.isArray(rewards)) refuse("A world needs lists of “sites” and “rewards”.");
  if (places.length > LIMITS.sites) refuse(`There may be at most ${LIMITS.sites} rewards on this page.`);
  if (places.length !== rewards.length) refuse(`There are ${places.length} sites, but ${rewards.length} rewards.`);
  const cells = places.map((place) => readPlace(place, map, "site"));
  if (new Set(cells).size < cells.length) refuse("Two rewards are in the same cell.");
  return cells.map((cell, i) => ({ cell, reward: readNumber(rewards[i], "rewards", -LIMITS.reward, LIMITS.reward) }));
}

/** Reads a place, "uniform", or a probability for each state: the last of the most probable states is the start. */
function readStart(start, map) {
  const { states } = map;
  if (start === "uniform") return states[states.length - 1];
  const isPlace = Array.isArray(start) && start.length === 2 && start.every(Number.isInteger);
  if (!Array.isArray(start) || start.length !== states.length || (isPlace && states.length <= 2)) {
    return readPlace(start, map, "start");
  }
  start.forEach((probability) => readNumber(probability, "start", 0, 1));
  const most = Math.max(...start);
  if (most === 0) refuse("The probabilities of the starts must sum to 1.");
  return states[start.lastIndexOf(most)];
}

/** Reads how rewards wear off. A parameter is one number, or one for each site. */
export function readDepletion(description, nSites) {
  const kind = isObject(description) ? own(description, "kind") : undefined;
  if (typeof kind !== "string" || !Object.hasOwn(KINDS, kind)) {
    refuse(`This page knows rewards of the kinds ${Object.keys(KINDS).join(", ")}.`);
  }
  const { fields, whole = false } = KINDS[kind],
    result = { kind };
  const strange = Object.keys(description).find((name) => name !== "kind" && !Object.hasOwn(fields, name));
  if (strange !== undefined) refuse(`${kind} has no setting “${shorten(strange)}”.`);
  for (const [name, [low, high]] of Object.entries(fields)) {
    const value = own(description, name) ?? (name === "rate" ? 1 : undefined);
    const read = (each) => readNumber(each, `${kind}.${name}`, low, high, whole);
    if (Array.isArray(value) && value.length !== 1 && value.length !== nSites) {
      refuse(`${kind}.${name} has ${value.length} entries, but there are ${nSites} rewards.`);
    }
    result[name] = Array.isArray(value) ? value.map(read) : read(value);
  }
  return result;
}

/** Returns the description of a world, as wane.worlds.World.from_json reads it. */
export function describeWorld(world) {
  const place = (cell) => [Math.floor(cell / world.columns), cell % world.columns];
  return {
    map: mapLines(world).join("\n"),
    sites: world.sites.map(({ cell }) => place(cell)),
    rewards: world.sites.map(({ reward }) => reward),
    depletion: world.depletion,
    discount: world.discount,
    wall_penalty: world.wallPenalty,
    start: place(world.start),
    n_actions: world.nActions,
    slip: world.slip,
    horizon: world.horizon,
    threshold: world.threshold,
  };
}

/** Returns the rows of a map as text. */
export function mapLines({ rows, columns, walls }) {
  return Array.from({ length: rows }, (_, row) =>
    Array.from(walls.subarray(row * columns, (row + 1) * columns), (wall) => (wall ? "#" : ".")).join(""),
  );
}

/** How a world is looked at when nothing else is said: three agents with different beliefs. */
export const DEFAULT_VIEW = {
  show: "visits",
  policy: "walk",
  cell: null,
  agents: [
    { kind: "paths", belief: 0 },
    { kind: "paths", belief: null },
    { kind: "paths", belief: 1 },
  ],
  seed: 1,
};

/** Reads how to look at a world. What is missing is as in `DEFAULT_VIEW`. */
function readView(view, world) {
  if (view === undefined) return structuredClone({ ...DEFAULT_VIEW, cell: world.start });
  if (!isObject(view)) refuse("The “view” of a page is a JSON object.");
  const choose = (name, choices) =>
    optional(view, name, DEFAULT_VIEW[name], (value) =>
      choices.includes(value) ? value : refuse(`“${name}” is one of ${choices.join(", ")}, not ${shorten(value)}.`),
    );
  const cell = optional(view, "cell", world.start, (value) =>
    readNumber(value, "cell", 0, world.walls.length - 1, true),
  );
  if (world.walls[cell]) refuse("The cell to look from is a wall.");
  const agents = optional(view, "agents", DEFAULT_VIEW.agents, (value) => value);
  if (!Array.isArray(agents) || agents.length > 3) refuse("There are at most three agents.");
  return {
    show: choose("show", SHOWN),
    policy: optional(view, "policy", "walk", (value) =>
      value === "walk" ? value : readNumber(value, "policy", 0, Math.max(world.sites.length - 1, 0), true),
    ),
    cell,
    agents: agents.map(readAgent),
    seed: optional(view, "seed", 1, (value) => readNumber(value, "seed", 1, 1e9, true)),
  };
}

function readAgent(agent) {
  if (!isObject(agent) || !AGENT_KINDS.includes(own(agent, "kind"))) {
    refuse(`The “kind” of an agent is one of ${AGENT_KINDS.join(", ")}.`);
  }
  const belief = optional(agent, "belief", null, (value) => readNumber(value, "belief", 0, 1));
  return { kind: agent.kind, belief };
}

/** Reads a world and how to look at it: {world, view}, or the description of a world alone. */
export function readState(value) {
  const both = isObject(value) && Object.hasOwn(value, "world");
  const world = readWorld(both ? value.world : value);
  const view = readView(both ? own(value, "view") : undefined, world);
  if (typeof view.policy === "number" && !world.sites.length) view.policy = "walk";
  return { world, view };
}

/** Returns the value of a text of JSON. Throws `Refused` with a sentence about where the text comes from. */
function parse(text, tooLarge, notJson) {
  if (typeof text !== "string" || text.length > LIMITS.text) refuse(tooLarge);
  try {
    return JSON.parse(text);
  } catch {
    return refuse(notJson);
  }
}

/** Reads the text of a JSON file. */
export function readText(text) {
  const notJson = "This is not JSON: the file is damaged, or it is of another kind.";
  return readState(parse(text, "The file is too large for a world of this page.", notJson));
}

/** Returns a state as data that `readState` reads. */
export function describeState({ world, view }) {
  return { world: describeWorld(world), view };
}

/** Returns a state as the part of an address after #. */
export function encodeLink(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(describeState(state)));
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Reads the part of an address after #. */
export function decodeLink(hash) {
  const code = hash.replace(/^#/, ""),
    tooLarge = "The link is too long for a world of this page.",
    damaged = "The link does not hold a world: it is damaged or cut off. Copy all of it.";
  if (code.length > 2 * LIMITS.text) refuse(tooLarge);
  if (!/^[\w-]+$/.test(code)) refuse(damaged);
  let text;
  try {
    const letters = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
    text = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(letters, (letter) => letter.charCodeAt(0)));
  } catch {
    refuse(damaged);
  }
  return readState(parse(text, tooLarge, damaged));
}
