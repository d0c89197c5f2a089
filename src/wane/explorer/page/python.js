// What the page shows, as Python code that runs as it is and prints the same numbers, and as a command.

import { describeWorld, encodeLink, mapLines } from "./state.js";

const SETTINGS = ["discount", "wall_penalty", "n_actions", "slip", "horizon", "threshold"];

/** Returns a value of JSON as Python writes it. */
function literal(value) {
  if (value === null) return "None";
  return Array.isArray(value) ? `[${value.map(literal).join(", ")}]` : String(value);
}

const pair = ([row, column]) => `(${row}, ${column})`;

/** Returns a depletion as Python makes it. */
function depletionCode({ kind, ...parameters }) {
  return `wane.${kind}(${Object.entries(parameters)
    .map(([name, value]) => `${name}=${literal(value)}`)
    .join(", ")})`;
}

function worldCode(world) {
  const told = describeWorld(world);
  return [
    "world = World(",
    '    """',
    ...mapLines(world).map((line) => `    ${line}`),
    '    """,',
    `    sites=[${told.sites.map(pair).join(", ")}],`,
    `    rewards=${literal(told.rewards)},`,
    `    depletion=${depletionCode(world.depletion)},`,
    `    start=${pair(told.start)},`,
    ...SETTINGS.map((name) => `    ${name}=${literal(told[name])},`),
    ")",
    `start = world.map.state${pair(told.start)}`,
  ];
}

function lookCode({ world, view }) {
  const [row, column] = [Math.floor(view.cell / world.columns), view.cell % world.columns];
  const policy =
    view.policy === "walk"
      ? "np.full((world.n_states, world.n_actions), 1 / world.n_actions)"
      : `shortest_paths(world.map, int(world.sites[${view.policy}]), world.n_actions)`;
  return [
    "",
    `# What is seen from cell (${row}, ${column}): Φ of the rewarded cells under the chosen policy, and the value.`,
    `policy = ${policy}`,
    `cell = world.map.state(${row}, ${column})`,
    "phi = wane.representation(",
    "    world.mdp.under(policy), world.depletion, discount=world.discount, sites=world.sites",
    ")",
    'print("visits", *phi.matrix[cell])',
    'print("value", world.values(policy, horizon=None)[cell])',
  ];
}

/** The random numbers of the page, in Python. */
const UNIFORMS = [
  "",
  "def uniforms(seed):",
  "    while True:",
  "        seed = seed * 48271 % 2147483647",
  "        yield seed / 2147483647",
  "",
];

function playCode({ slip }, seed) {
  const slips = slip > 0;
  return [
    "",
    ...(slips ? UNIFORMS : []),
    "",
    "def play(act):",
    '    """Plays one episode. Returns the cells, the rewards and the discounted return."""',
    "    simulation, cells, rewards, over = Single(world), [start], [], False",
    `    simulation.begin(start)${slips ? `\n    draws = uniforms(${seed})` : ""}`,
    "    visits = np.zeros(world.n_sites, int)",
    "    while not over:",
    "        action = act(simulation.time, simulation.cell, simulation.remaining, visits)",
    `        reward, terminated, truncated, site = simulation.step(action${slips ? ", (next(draws), next(draws))" : ""})`,
    "        visits = visits + (np.arange(world.n_sites) == site)",
    "        cells.append(simulation.cell)",
    "        rewards.append(reward)",
    "        over = terminated or truncated",
    "    value = sum(world.discount ** (t + 1) * reward for t, reward in enumerate(rewards))",
    "    return cells, rewards, value",
    "",
    "",
    "def composing(policies, believed):",
    '    """An agent that takes the action whose best policy is best, if rewards wear off as it believes."""',
    '    phi = gpi.representations(world, policies, believed, timing="arrival")',
    "    return lambda time, cell, remaining, visits: int(gpi.greedy_action(phi[:, cell], remaining))",
    "",
    "",
    "paths = [shortest_paths(world.map, int(site), world.n_actions) for site in world.sites]",
    "walk = [np.full((world.n_states, world.n_actions), 1 / world.n_actions)]",
  ];
}

function agentCode({ kind, belief }, number) {
  const believed = belief === null ? "world.depletion" : `wane.Geometric(${literal(belief)})`;
  const act =
    kind === "best"
      ? "lambda time, cell, remaining, visits: best.action(cell, visits, time)"
      : `composing(${kind === "walk" ? "walk" : "paths"}, ${believed})`;
  return [`cells, rewards, value = play(${act})`, `print("forager ${number}", value)`];
}

/** Returns Python code for a state. `tolerance` is that of the optimum which the page shows, or null if it shows none. */
export function pythonCode({ world, view }, tolerance) {
  const agents = view.agents.filter(({ kind }) => kind !== "best" || tolerance !== null),
    played = world.sites.length > 0;
  const best = [
    "",
    "# The best that anyone can do.",
    `best = world.optimum(tolerance=${tolerance})`,
    'print("optimum", best.values[start])',
  ];
  return [
    "# From the wane explorer: the world, and the numbers that the page shows.",
    "import numpy as np",
    "",
    "import wane",
    ...(played ? ["from wane.agents import gpi"] : []),
    `from wane.worlds import World${played ? ", shortest_paths" : ""}`,
    ...(played ? ["from wane.worlds.simulate import Single"] : []),
    "",
    ...worldCode(world),
    ...(played ? lookCode({ world, view }) : ["print(world)"]),
    ...(played && tolerance !== null ? best : []),
    ...(played && agents.length ? playCode(world, view.seed) : []),
    ...(played ? agents.flatMap((agent) => agentCode(agent, view.agents.indexOf(agent) + 1)) : []),
    "",
  ].join("\n");
}

/** Returns the command that opens a state: by the name of its world if it is one of the catalogue, else by a link. */
export function command(state, name) {
  const lam = state.world.depletion.kind === "Geometric" ? state.world.depletion.lam : null;
  if (name && typeof lam === "number") return `wane explore ${name} --lam ${lam}`;
  return linkCommand(state);
}

/** Returns the command that opens a state with all of its view. The shells of all systems know these quotes. */
export function linkCommand(state) {
  return `wane explore "#${encodeLink(state)}"`;
}
