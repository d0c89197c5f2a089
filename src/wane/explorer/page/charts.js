// Small charts as SVG. Lines are made once for each answer; while agents walk, only a clip and a marker move.

import { format } from "./colours.js";

const SPACE = "http://www.w3.org/2000/svg";
const LEFT = 46,
  RIGHT = 8,
  TOP = 20,
  BOTTOM = 18;

/** Returns how wide a chart is, so that its letters have the size of the page's. */
const widthOf = (place) => Math.max(place.clientWidth, 240);

/** Makes an SVG element with attributes and children. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function text(words, x, y, attributes = {}) {
  return svg("text", { x, y, ...attributes }, words);
}

/** Returns the frame of a chart: title, axis, the ends of both axes, and functions from data to pixels. */
function frame(place, title, height, [left, right], [low, high], ends) {
  const wide = widthOf(place);
  const span = high - low || 1,
    width = right - left || 1;
  const x = (value) => LEFT + ((value - left) / width) * (wide - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((value - low) / span) * (height - TOP - BOTTOM);
  const zero = y(Math.min(Math.max(0, low), high));
  const root = svg("svg", { viewBox: `0 0 ${wide} ${height}`, role: "img", "aria-label": title });
  root.append(
    text(title, 0, 11, { class: "title" }),
    svg("line", { class: "axis", x1: LEFT, x2: wide - RIGHT, y1: zero, y2: zero }),
    text(format(high), LEFT - 6, TOP + 4, { "text-anchor": "end" }),
    text(format(low), LEFT - 6, height - BOTTOM + 3, { "text-anchor": "end" }),
    text(ends[0], LEFT, height - 4),
    text(ends[1], wide - RIGHT, height - 4, { "text-anchor": "end" }),
  );
  return { root, x, y };
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

let clips = 0;

/**
 * Puts a chart of lines over time into a place. A line is {name, values, style}. Returns show(time), which draws the
 * lines up to a time strongly and the rest faintly.
 */
export function timeChart(place, title, lines, steps) {
  const numbers = lines.flatMap(({ values }) => values),
    height = 108;
  const low = Math.min(0, ...numbers),
    high = Math.max(...numbers, low + 1e-9);
  const { root, x, y } = frame(place, title, height, [0, steps], [low, high], ["start", `${steps} steps`]);
  const clip = `clip-${(clips += 1)}`,
    window_ = svg("rect", { x: LEFT - 2, y: 0, width: 0, height });
  const whole = svg("g", { class: "faint" }),
    past = svg("g", { "clip-path": `url(#${clip})` });
  root.append(svg("defs", {}, svg("clipPath", { id: clip }, window_)), whole, past);
  for (const { values, style } of lines) {
    const d = path(values.map((value, t) => [x(t), y(value)]));
    whole.append(svg("path", { d, class: style }));
    past.append(svg("path", { d, class: style }));
  }
  const now = svg("line", { class: "now", x1: LEFT, x2: LEFT, y1: TOP - 4, y2: height - BOTTOM });
  root.append(now);
  place.replaceChildren(root);
  return (time) => {
    const at = x(Math.min(time, steps));
    window_.setAttribute("width", Math.max(at - LEFT + 2, 0));
    now.setAttribute("transform", `translate(${at - LEFT} 0)`);
  };
}

/** Puts a chart of one function on [0, 1] into a place, with a dot at one value of it. */
export function curveChart(place, title, curve, at, ends) {
  const points = Array.from({ length: 81 }, (_, i) => [i / 80, curve(i / 80)]),
    height = 118;
  const values = points.map(([, value]) => value),
    high = Math.max(...values);
  const { root, x, y } = frame(place, title, height, [0, 1], [0, high || 1], ends);
  root.append(svg("path", { class: "line-phi", d: path(points.map(([lam, value]) => [x(lam), y(value)])) }));
  if (at !== null) root.append(svg("circle", { class: "dot", cx: x(at), cy: y(curve(at)), r: 5 }));
  place.replaceChildren(root);
}

/** Puts bars into a place: one for each visit, or each step that a reward is left alone. */
export function barChart(place, title, values, names) {
  const height = 96,
    wide = widthOf(place),
    width = (wide - 8) / values.length,
    high = Math.max(...values, 1);
  const root = svg("svg", {
    viewBox: `0 0 ${wide} ${height}`,
    role: "img",
    "aria-label": `${title}: ${values.map(format).join(", ")}`,
  });
  root.append(text(title, 0, 11, { class: "title" }));
  values.forEach((value, i) => {
    const tall = (Math.max(value, 0) / high) * (height - 46),
      x = 4 + i * width;
    root.append(
      svg("rect", { class: "bar-fill", x: x + 3, width: width - 6, y: height - 16 - tall, height: tall, rx: 2 }),
      text(format(Number(value.toFixed(2))), x + width / 2, height - 20 - tall, { class: "bar-text" }),
      text(names[i], x + width / 2, height - 3, { class: "bar-text" }),
    );
  });
  place.replaceChildren(root);
}
