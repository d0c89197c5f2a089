// The colours of the map. Lightness alone tells the amounts apart, so that everyone can read them; agents differ in
// shape as well as in colour.

const THEMES = {
  light: {
    free: "#f1eee7",
    wall: "#4d525d",
    ink: "#1d2026",
    quiet: "#565c65",
    paper: "#faf8f4",
    reward: "#e69f00",
    rewardEdge: "#6b4a00",
    loss: "#8a8f98",
    agents: ["#00639c", "#b94f00", "#00775a"],
    best: "#5b6069",
    halo: "#ffffff",
    up: ["#f3f0f8", "#d6c8ea", "#ac8bd3", "#7b4fb0", "#4b2182"],
    down: ["#f3f0f8", "#bfe0dc", "#7cbdb6", "#388e87", "#0a5751"],
  },
  dark: {
    free: "#24262d",
    wall: "#5a606c",
    ink: "#f2f1ed",
    quiet: "#a7acb5",
    paper: "#131418",
    reward: "#f0b429",
    rewardEdge: "#fbe3a6",
    loss: "#8f95a1",
    agents: ["#56b4e9", "#f08c3a", "#2cc79b"],
    best: "#a7acb5",
    halo: "#131418",
    up: ["#201d2a", "#3f2d63", "#6b4aa3", "#a17fdc", "#e0d0fb"],
    down: ["#201d2a", "#17413e", "#1d6d67", "#45a69d", "#b6e8e2"],
  },
};

/** Returns the colours for the theme that the page has now. */
export function theme() {
  return THEMES[document.documentElement.dataset.theme === "dark" ? "dark" : "light"];
}

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** Returns the colour at a share of a ramp, from 0 to 1. */
function mix(stops, share) {
  const place = share * (stops.length - 1),
    at = Math.min(Math.floor(place), stops.length - 2);
  const [low, high] = [parse(stops[at]), parse(stops[at + 1])];
  return `rgb(${low.map((value, i) => Math.round(value + (high[i] - value) * (place - at))).join(" ")})`;
}

const tables = new Map();

/** Returns the same from a table of 256 colours, which is made once: maps ask for hundreds of them at a time. */
export function ramp(stops, share) {
  if (!tables.has(stops))
    tables.set(
      stops,
      Array.from({ length: 256 }, (_, i) => mix(stops, i / 255)),
    );
  return tables.get(stops)[Math.round(Math.min(Math.max(share, 0), 1) * 255)];
}

/**
 * Returns a scale for some numbers: share(value) from −1 to 1, and the ends. It is logarithmic if the largest number is
 * more than 100 times the lower quarter of them, because nearly all cells would look empty otherwise.
 */
export function makeScale(numbers) {
  const finite = Array.from(numbers).filter(Number.isFinite),
    positive = finite.filter((value) => value > 0);
  const low = Math.min(...finite, 0),
    high = Math.max(...finite, 0),
    most = Math.max(high, -low) || 1;
  const sorted = positive.sort((one, other) => one - other),
    quarter = sorted[Math.floor(sorted.length / 4)];
  const logarithmic = low >= 0 && sorted.length > 3 && quarter * 100 < high;
  if (!logarithmic) return { logarithmic, low, high, share: (value) => value / most };
  const bottom = Math.max(sorted[0], high * 1e-8);
  const share = (value) => (value <= 0 ? 0 : Math.max(Math.log(value / bottom) / Math.log(high / bottom), 0.02));
  return { logarithmic, low: bottom, high, share };
}

/** Returns the colour of a share from −1 to 1. */
export function shade(colours, share) {
  return share >= 0 ? ramp(colours.up, share) : ramp(colours.down, -share);
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** Returns a number as short text. */
export function format(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 1e-12) return "0";
  if (size >= 0.001 && size < 1e5) return String(Number(value.toPrecision(4))).replace("-", "−");
  const [digits, power] = value.toExponential(1).split("e");
  return `${digits.replace("-", "−")}·10${Array.from(power.replace("+", ""), (sign) => RAISED[sign]).join("")}`;
}
