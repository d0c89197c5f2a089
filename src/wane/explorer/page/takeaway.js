// Taking the world along: copying, downloading, opening.

import { format, theme } from "./colours.js";
import { byId, element } from "./controls.js";
import { command, linkCommand, pythonCode } from "./python.js";
import { describeWorld, encodeLink, readText, Refused } from "./state.js";

const NOT_SERVED =
  "This page is on your machine only, so no link leads others to it. A command is copied: whoever has wane and runs it sees what you see.";

/** Connects the buttons. `page` has store, map, nameOfWorld(), open(state) and complain(sentence). */
export function connectTakeaway(page) {
  const { store } = page,
    on = (id, act) => byId(id).addEventListener("click", act);
  byId("copy-link").textContent = isServed() ? "Copy link" : "Copy this view";
  on("copy-link", () => {
    if (isServed()) copy(link(store.state), "The link is copied. Whoever opens it sees what you see.");
    else copy(linkCommand(store.state), NOT_SERVED);
  });
  on("copy-python", () =>
    copy(
      pythonCode(store.state, store.results.best?.tolerance ?? null),
      "The Python code is copied. It prints the numbers of this page.",
    ),
  );
  on("copy-command", () => copy(command(store.state, page.nameOfWorld()), "The command is copied."));
  on("save-json", () =>
    download(
      "world.json",
      new Blob([`${JSON.stringify(describeWorld(store.world), null, 1)}\n`], { type: "application/json" }),
    ),
  );
  on("save-png", () => picture(page).toBlob((blob) => download("world.png", blob)));
  on("open-json", () => byId("file").click());
  byId("file").addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    target.value = "";
    if (file) openText(await readFile(file), page);
  });
}

/** Returns the text of a file, or an empty text for one that is much too large. */
const readFile = (file) => (file.size > 1e6 ? "" : file.text());

/** Opens the text of a JSON file, or says why not. */
export function openText(text, page) {
  try {
    page.open(readText(text));
    byId("done").textContent = "The world is open.";
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    page.complain(error.message);
  }
}

/** Returns whether others can open the address of this page: not that of a file, a notebook or this machine alone. */
const isServed = () =>
  ["http:", "https:"].includes(location.protocol) && !["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

/** Returns the address of a state on this page. */
const link = (state) => `${location.href.split("#")[0]}#${encodeLink(state)}`;

async function copy(text, done) {
  const box = byId("copied");
  box.value = text;
  try {
    await navigator.clipboard.writeText(text);
    box.classList.add("hidden");
    byId("done").textContent = done;
  } catch {
    box.classList.remove("hidden");
    box.select();
    byId("done").textContent = "This browser does not let a page copy: press Ctrl+C.";
  }
}

function download(name, blob) {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
  byId("done").textContent = `${name} is in your downloads.`;
}

/** Returns a canvas with the map as it is shown, and a line about it. */
function picture({ store, map, agents }) {
  const source = map.canvas,
    colours = theme(),
    ratio = source.width / source.clientWidth,
    strip = Math.round(56 * ratio);
  const canvas = element("canvas", { width: source.width, height: source.height + strip }),
    context = canvas.getContext("2d");
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(source, 0, 0);
  context.font = `${Math.round(13 * ratio)}px system-ui, sans-serif`;
  context.fillStyle = colours.ink;
  const { kind, ...parameters } = store.world.depletion;
  const told = Object.entries(parameters)
    .map(([name, value]) => `${name} = ${value}`)
    .join(", ");
  context.fillText(
    `${kind}, ${told}; γ = ${format(store.world.discount)}`,
    8 * ratio,
    source.height + 22 * ratio,
    canvas.width - 16 * ratio,
  );
  const returns = agents
    .walkers()
    .map(({ returns: all, shape }) => `forager ${shape + 1}: ${format(all[all.length - 1])}`)
    .join("   ");
  context.fillStyle = colours.quiet;
  context.fillText(
    returns ? `returns  ${returns}` : "wane explorer",
    8 * ratio,
    source.height + 44 * ratio,
    canvas.width - 16 * ratio,
  );
  return canvas;
}
