// Draws a world on a canvas: cells and their heat, rewards and what remains of them, agents and their trails.

import { shade, theme } from "./colours.js";

/** Fits a canvas to a width in CSS pixels, sharp on any screen. Returns its context and the side of a cell. */
export function fit(canvas, { rows, columns }, width, mostHeight = Infinity) {
  const side = Math.max(Math.min(width / columns, mostHeight / rows, 72), 2),
    ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(side * columns), Math.round(side * rows)];
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, side };
}

/** Returns the left upper corner of a cell in pixels. */
const corner = (cell, columns, side) => [(cell % columns) * side, Math.floor(cell / columns) * side];

/** Draws the cells. `heat` has a share from −1 to 1 for each cell, NaN for none, or is null. */
export function drawCells(context, side, { rows, columns, walls }, heat = null) {
  const colours = theme(),
    space = side > 14 ? 1 : side > 7 ? 0.5 : 0;
  context.clearRect(0, 0, columns * side, rows * side);
  for (let cell = 0; cell < rows * columns; cell++) {
    const [x, y] = corner(cell, columns, side),
      share = heat ? heat[cell] : NaN;
    context.fillStyle = walls[cell] ? colours.wall : Number.isNaN(share) ? colours.free : shade(colours, share);
    context.beginPath();
    context.roundRect(x + space / 2, y + space / 2, side - space, side - space, side > 14 ? side * 0.12 : 0);
    context.fill();
  }
}

/** Draws every reward as a disc: its area is what remains, the ring is what there was. */
export function drawRewards(context, side, { columns, sites }, remaining, withNumbers) {
  const colours = theme(),
    largest = Math.max(...sites.map(({ reward }) => Math.abs(reward)), 1e-9);
  // On large maps a disc is larger than its cell: what pays must be seen.
  const radius = (size) => Math.max(side, 14) * 0.44 * Math.sqrt(Math.min(Math.abs(size) / largest, 1.2));
  const discs = sites.map(({ cell, reward }, i) => {
    const [x, y] = corner(cell, columns, side);
    return { reward, remains: remaining?.[i] ?? reward, middle: [x + side / 2, y + side / 2] };
  });
  context.lineWidth = Math.max(side * 0.04, 1);
  for (const { reward, remains, middle } of discs) {
    context.strokeStyle = reward < 0 ? colours.loss : colours.rewardEdge;
    circle(context, middle, Math.max(radius(reward), side * 0.12));
    context.setLineDash([side * 0.08, side * 0.06]);
    context.stroke();
    context.setLineDash([]);
    if (radius(remains) <= 0.4) continue;
    context.fillStyle = reward < 0 ? colours.loss : colours.reward;
    circle(context, middle, Math.min(radius(remains), Math.max(side, 14) * 0.47));
    context.fill();
    if (side > 10) context.stroke();
  }
  if (withNumbers && side >= 24) drawLetters(context, side, discs, colours);
  if (withNumbers && side >= 30) drawAmounts(context, side, discs, radius, colours);
}

/** Returns the letter of a reward, by which the page speaks of it. */
export const letter = (i) => (i < 26 ? String.fromCharCode(65 + i) : `#${i + 1}`);

const amount = (value) =>
  Math.abs(value) >= 9.95 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
const fontOf = (side, share, least) => `600 ${Math.max(Math.round(side * share), least)}px system-ui, sans-serif`;

/** Writes the letters into the corners of their cells. Fonts are set once, because that takes long. */
function drawLetters(context, side, discs, colours) {
  Object.assign(context, { font: fontOf(side, 0.2, 8), textAlign: "right", textBaseline: "top", lineJoin: "round" });
  Object.assign(context, { lineWidth: 2.5, strokeStyle: colours.halo, fillStyle: colours.ink });
  discs.forEach(({ middle: [x, y] }, i) => {
    context.strokeText(letter(i), x + side * 0.44, y - side * 0.44);
    context.fillText(letter(i), x + side * 0.44, y - side * 0.44);
  });
}

/** Writes what remains onto the discs. */
function drawAmounts(context, side, discs, radius, colours) {
  Object.assign(context, {
    font: fontOf(side, 0.26, 9),
    textAlign: "center",
    textBaseline: "middle",
    lineJoin: "round",
  });
  Object.assign(context, { lineWidth: 3, strokeStyle: colours.halo });
  for (const { remains, middle } of discs) {
    const inside = radius(remains) > side * 0.24;
    context.fillStyle = inside ? "#3a2800" : colours.ink;
    if (!inside) context.strokeText(amount(remains), ...middle);
    context.fillText(amount(remains), ...middle);
  }
}

function circle(context, [x, y], radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Draws a flag where episodes start, with a halo so that it stands out on any colour. */
export function drawStart(context, side, { columns, start }) {
  const [x, y] = corner(start, columns, side),
    colours = theme(),
    pole = x + side * 0.2;
  for (const [colour, width] of [
    [colours.halo, Math.max(side * 0.14, 3)],
    [colours.ink, Math.max(side * 0.05, 1)],
  ]) {
    Object.assign(context, {
      strokeStyle: colour,
      fillStyle: colour,
      lineWidth: width,
      lineCap: "round",
      lineJoin: "round",
    });
    context.beginPath();
    context.moveTo(pole, y + side * 0.86);
    context.lineTo(pole, y + side * 0.16);
    context.lineTo(x + side * 0.58, y + side * 0.29);
    context.lineTo(pole, y + side * 0.44);
    context.stroke();
    context.fill();
  }
}

/** Draws a frame around a cell: the one that is looked from, the one under the pointer. */
export function drawFrame(context, side, columns, cell, strong) {
  const [x, y] = corner(cell, columns, side),
    colours = theme();
  for (const [colour, width] of [
    [colours.halo, strong ? 5 : 3],
    [colours.ink, strong ? 2.5 : 1],
  ]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.roundRect(x + 1.5, y + 1.5, side - 3, side - 3, side * 0.12);
    context.stroke();
  }
}

/** Returns where an agent is at a time between steps, in cells: [column, row]. */
export function position(cells, columns, time) {
  const last = cells.length - 1,
    at = Math.min(Math.floor(time), last),
    next = Math.min(at + 1, last);
  const share = time >= last ? 0 : time - at,
    eased = share * share * (3 - 2 * share);
  const between = (one, other) => one + (other - one) * eased;
  return [
    between(cells[at] % columns, cells[next] % columns),
    between(Math.floor(cells[at] / columns), Math.floor(cells[next] / columns)),
  ];
}

/** Draws the way that an agent has come, the last steps strongly. `shift` keeps the trails of several apart. */
export function drawTrail(context, side, columns, cells, time, colour, shift) {
  const steps = Math.min(Math.floor(time), cells.length - 1),
    recent = Math.max(0, steps - 12);
  const point = (cell) => [((cell % columns) + 0.5 + shift) * side, (Math.floor(cell / columns) + 0.5 + shift) * side];
  Object.assign(context, {
    strokeStyle: colour,
    lineWidth: Math.max(side * 0.07, 1.2),
    lineCap: "round",
    lineJoin: "round",
  });
  for (const [first, last, strength] of [
    [Math.max(0, steps - 80), recent, 0.28],
    [recent, steps, 0.75],
  ]) {
    context.globalAlpha = strength;
    context.beginPath();
    context.moveTo(...point(cells[first]));
    for (let step = first + 1; step <= last; step++) context.lineTo(...point(cells[step]));
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** Draws an agent: a circle, a square or a diamond, so that colours are not needed to tell them apart. */
export function drawAgent(context, side, [column, row], shape, colour, scale = 1, shift = 0) {
  const x = (column + 0.5 + shift) * side,
    y = (row + 0.5 + shift) * side,
    r = Math.max(side * 0.24 * scale, 4);
  context.fillStyle = colour;
  context.strokeStyle = theme().halo;
  context.lineWidth = Math.max(side * 0.06, 1.5);
  context.beginPath();
  if (shape === 0) context.arc(x, y, r, 0, 2 * Math.PI);
  if (shape === 1) context.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
  if (shape === 2) {
    context.moveTo(x, y - r * 1.22);
    context.lineTo(x + r * 1.22, y);
    context.lineTo(x, y + r * 1.22);
    context.lineTo(x - r * 1.22, y);
    context.closePath();
  }
  context.fill();
  context.stroke();
}
