// The guided tour: six steps, each a world to look at and a few sentences.

const KITCHEN = "#######\n#.....#\n#.....#\n#.....#\n#######";
const TWO_ROOMS =
  "###########\n#.........#\n#.........#\n#.........#\n#.........#\n#####.#####\n#.........#\n#.........#\n#.........#\n#.........#\n###########";
const CORRIDOR = "##################\n#................#\n##################";
const PAIR = "#########\n#.......#\n#########";

const paths = (...beliefs) => beliefs.map((belief) => ({ kind: "paths", belief }));

/** Each step: a title, paragraphs, the state of the page, what to point at, and whether to play at once. */
export const STEPS = [
  {
    title: "The second ice cream",
    text: [
      "Every visit to the golden disc pays. But each visit leaves only half of it: 8, then 4, then 2. The disc shrinks, the dashed ring shows what was there.",
      "The share that a visit leaves is called λ (“lambda”). Press Play, then drag λ and watch how long the forager cares to stay.",
    ],
    point: "wear",
    play: true,
    state: {
      world: {
        map: KITCHEN,
        sites: [
          [2, 4],
          [1, 1],
        ],
        rewards: [8, 3],
        depletion: { kind: "Geometric", lam: 0.5 },
        discount: 0.9,
        start: [3, 1],
        horizon: 25,
      },
      view: { show: "nothing", agents: [{ kind: "best" }] },
    },
  },
  {
    title: "Two ends of one idea",
    text: [
      "The colours show how many visits a wanderer who starts in the framed cell will pay to each cell, soon ones counting more. Point at any cell to see its number.",
      "With λ = 1 every visit counts: this is the successor representation. With λ = 0 only the first visit counts: the first-occupancy representation. Drag λ from end to end. The curve under “Look inside” shows all that lies between.",
    ],
    point: "look",
    state: {
      world: {
        map: TWO_ROOMS,
        sites: [[1, 1]],
        rewards: [5],
        depletion: { kind: "Geometric", lam: 1 },
        discount: 0.95,
        start: [8, 5],
        horizon: 60,
      },
      view: { show: "visits", policy: "walk", agents: [] },
    },
  },
  {
    title: "Why the wrong λ loses",
    text: [
      "Three foragers start together. One believes that a reward is gone after one visit (λ̂ = 0), one knows the truth (½), one believes that it lasts for ever (λ̂ = 1).",
      "Press Play. The chart “Behind the best” shows what a wrong belief costs. Who is worse off, the pessimist or the optimist? Change the true λ and look again.",
    ],
    point: "foragers",
    play: true,
    state: {
      world: {
        map: TWO_ROOMS,
        sites: [
          [1, 1],
          [1, 9],
          [6, 1],
        ],
        rewards: [10, 5, 5],
        depletion: { kind: "Geometric", lam: 0.5 },
        discount: 0.95,
        start: [9, 9],
        horizon: 80,
      },
      view: { show: "nothing", agents: paths(0, null, 1) },
    },
  },
  {
    title: "Patches, and when to leave",
    text: [
      "Three equal bushes along a path. Each step in a bush finds half as many berries as the one before. When is it time to walk on?",
      "Open “When they leave”: the number in brackets is when the marginal value theorem of ecology would go. The best forager (circle) keeps close to it, and comes back later for what is left. The one that only combines paths (square) stays longer.",
    ],
    point: "charts-card",
    play: true,
    open: "leaving",
    state: {
      world: {
        map: CORRIDOR,
        sites: [
          [1, 3],
          [1, 7],
          [1, 11],
        ],
        rewards: [4, 4, 4],
        depletion: { kind: "Geometric", lam: 0.5 },
        discount: 0.97,
        start: [1, 1],
        horizon: 50,
      },
      view: { show: "nothing", agents: [{ kind: "best" }, { kind: "paths", belief: null }] },
    },
  },
  {
    title: "Rewards that grow back",
    text: [
      "Now berries grow again while nobody picks them. The longer you stay away, the more there is; the more often you came, the slower it grows.",
      "Watch one forager go round, and see what the other one does, who knows no paths but only a random walk. Which one earns more? Drag “how fast it grows back” and see when staying is better than going.",
    ],
    point: "wear",
    play: true,
    state: {
      world: {
        map: CORRIDOR,
        sites: [
          [1, 3],
          [1, 7],
          [1, 11],
        ],
        rewards: [4, 4, 4],
        depletion: { kind: "TimeElapsed", lam: 0.5, rate: 0.3 },
        discount: 0.97,
        start: [1, 1],
        horizon: 120,
      },
      view: { show: "nothing", agents: [...paths(null), { kind: "walk", belief: null }] },
    },
  },
  {
    title: "Now break it",
    text: [
      "A proof in the paper says that in Φ nothing is larger than a cell’s own entry: you visit your own cell most. Look at the framed cell. Its walker goes straight to the reward on the right and stays there, so the reward’s entry is larger. The claim is false.",
      "For which λ does it become true? Drag and see. Then paint your own worlds, and try to break what else we believe. Send a link when you succeed.",
    ],
    point: "look",
    state: {
      world: {
        map: PAIR,
        sites: [[1, 7]],
        rewards: [5],
        depletion: { kind: "Geometric", lam: 0.9 },
        discount: 0.9,
        start: [1, 4],
        horizon: 30,
      },
      view: { show: "visits", policy: 0, agents: paths(null) },
    },
  },
];
