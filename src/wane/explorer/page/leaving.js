// When an agent left each site, and when the marginal value theorem would have left (wane.foraging.rule, "corrected").
//
// In a site at step t, having just received r(s_t), leave if the next reward by staying is below what an average step
// of the rest of the episode brings, θ_t = (R − R_t) / Σ_{t < u < T} γᵘ. If the agent left before the rule does, the
// rewards of staying are extrapolated.

const ROUNDING = 1e-12;

/** Returns the stays of an episode: site, arrival, steps, whether the episode ended first, and the rule's steps. */
export function stays({ cells, rewards }, { sites, depletion, discount }) {
  const numbers = cells.slice(1).map((cell) => sites.indexOf(cell)),
    received = sums(rewards, discount);
  const visits = sites.map(() => 0),
    found = [];
  for (let t = 0; t < numbers.length; t++) {
    const site = numbers[t];
    if (site < 0) continue;
    visits[site] += 1;
    if (t > 0 && numbers[t - 1] === site) {
      found[found.length - 1].steps += 1;
    } else {
      found.push({ site, arrival: t + 1, steps: 1, visits: visits[site] });
    }
  }
  return found.map((stay) => {
    const censored = stay.arrival - 1 + stay.steps === numbers.length;
    const rule = depletion.growsBack
      ? null
      : ruleSteps(stay, rewards, received, depletion.curve(stay.site).shrink, discount);
    return { ...stay, censored, rule };
  });
}

/** Returns Σ_{u ≤ t} γᵘ r_u for every t. */
function sums(rewards, discount) {
  let total = 0;
  return rewards.map((reward, t) => (total += discount ** t * reward));
}

/** Returns after how many steps the rule leaves, and whether the episode ends before it does. */
function ruleSteps(stay, rewards, received, shrink, discount) {
  const horizon = rewards.length,
    average = received[horizon - 1] ?? 0,
    arrival = stay.arrival - 1;
  let reward = rewards[arrival],
    soFar = received[arrival];
  for (let elapsed = 0; ; elapsed++) {
    const t = arrival + elapsed,
      next = reward * shrink(stay.visits + elapsed - 1);
    const theta = threshold(average, soFar, t, horizon, discount),
      last = t + 1 === horizon;
    // R − R_t loses digits late in an episode. A difference that may be rounding is a tie, and no reason to leave.
    const leaves = next < theta - ROUNDING * (Math.abs(theta) + Math.abs(average) / discount ** (t + 1));
    if (leaves || last) return { steps: elapsed + 1, censored: last && !leaves };
    const observed = elapsed + 1 < stay.steps;
    soFar = observed ? received[t + 1] : soFar + discount ** (t + 1) * next;
    reward = observed ? rewards[t + 1] : next;
  }
}

/** Returns θ_t, or −∞ where no step remains. */
function threshold(average, received, t, horizon, discount) {
  const remaining = Math.max(horizon - t - 1, 0);
  const weight = discount ** (t + 1) * (discount === 1 ? remaining : (1 - discount ** remaining) / (1 - discount));
  const toCome = Math.abs(average - received) <= ROUNDING * Math.abs(average) ? 0 : average - received;
  return weight > 0 ? toCome / weight : -Infinity;
}
