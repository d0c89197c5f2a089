// Small pieces of the page: sliders with their number, menus, and the words beside them.

import { format } from "./colours.js";

/** Makes an element with properties and children. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Returns the element with an id. */
export const byId = (id) => document.getElementById(id);

let numbers = 0;

/**
 * Makes a slider with a label, its number and words for its ends. `onInput(value)` is called while it moves, `onDone`
 * when it is let go. Returns the element with set(value), which moves the slider without a call.
 */
export function slider({ label, low, high, step, value, ends = null, show = format, onInput, onDone }) {
  const id = `slider-${(numbers += 1)}`;
  const output = element("output", { htmlFor: id }),
    name = element("label", { htmlFor: id, textContent: label });
  const input = element("input", { id, type: "range", min: low, max: high, step });
  const made = element("div", { className: "slider" }, name, output, input);
  if (ends)
    made.append(
      element("span", { className: "ends" }, ...ends.map((words) => element("span", { textContent: words }))),
    );
  made.set = (number) => {
    input.value = number;
    output.value = show(number);
    input.setAttribute("aria-valuetext", show(number));
  };
  input.addEventListener("input", () => {
    output.value = show(Number(input.value));
    input.setAttribute("aria-valuetext", output.value);
    onInput(Number(input.value));
  });
  input.addEventListener("change", onDone);
  made.set(value);
  return made;
}

/** Fills a menu with [value, words] and chooses one. */
export function fillMenu(menu, options, chosen) {
  const wanted = JSON.stringify(options);
  if (menu.dataset.options !== wanted) {
    menu.dataset.options = wanted;
    menu.replaceChildren(...options.map(([value, words]) => element("option", { value, textContent: words })));
  }
  menu.value = chosen;
}

/** How the parameters of each kind of depletion are shown: sliders with words, and what they mean. */
export const PARAMETERS = {
  Geometric: {
    lam: {
      label: "λ, the share that a visit leaves",
      low: 0,
      high: 1,
      step: 0.01,
      fresh: 0.5,
      ends: ["0: gone at once", "1: never wears off"],
    },
  },
  FirstVisits: {
    n: { label: "Number of visits that pay", low: 0, high: 20, step: 1, fresh: 2, ends: ["0: none", "20"] },
  },
  Hyperbolic: {
    k: { label: "k, how fast it wears off", low: 0, high: 5, step: 0.05, fresh: 1, ends: ["0: never", "5: fast"] },
  },
  PowerLaw: {
    p: {
      label: "p, how fast it wears off",
      low: 0.05,
      high: 5,
      step: 0.05,
      fresh: 1,
      ends: ["0.05: hardly", "5: fast"],
    },
  },
  TimeElapsed: {
    lam: {
      label: "λ, how much a visit leaves at first",
      low: 0,
      high: 1,
      step: 0.01,
      fresh: 0.5,
      ends: ["0", "1: never wears off"],
    },
    rate: { label: "How fast it grows back", low: 0.05, high: 3, step: 0.05, fresh: 0.3, ends: ["slowly", "quickly"] },
  },
};

/** Returns a fresh depletion of a kind. */
export function freshDepletion(kind) {
  return { kind, ...Object.fromEntries(Object.entries(PARAMETERS[kind]).map(([name, { fresh }]) => [name, fresh])) };
}

/** The rules of the world that have a slider: the name in the state, and how it is shown. */
export const RULES = [
  {
    name: "discount",
    label: "γ, how much a reward of the next step counts",
    low: 0,
    high: 0.999,
    step: 0.001,
    ends: ["0: only now counts", "near 1: patient"],
  },
  { name: "horizon", label: "Steps of an episode", low: 5, high: 300, step: 5, ends: ["5", "300"] },
  {
    name: "slip",
    label: "Slip: the chance of a random move instead",
    low: 0,
    high: 1,
    step: 0.01,
    ends: ["0: sure-footed", "1: always random"],
  },
  { name: "wallPenalty", label: "Cost of bumping into a wall", low: 0, high: 5, step: 0.1, ends: ["0", "5"] },
];
