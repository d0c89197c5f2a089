// Time: plays, pauses and steps through the episodes. Draws only while something moves.

import { byId } from "./controls.js";

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 40];

/** The clock of the episodes. `draw(time)` is called whenever the picture must change. */
export class Playback {
  constructor(draw) {
    this.draw = draw;
    this.time = 0;
    this.end = 0;
    this.playing = false;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.frames = [];
    byId("play").addEventListener("click", () => this.toggle());
    byId("step").addEventListener("click", () => this.go(Math.floor(this.time) + 1));
    byId("rewind").addEventListener("click", () => this.go(0));
    byId("time").addEventListener("input", (event) => this.go(Number(event.target.value)));
    byId("speed").addEventListener("input", () => this.#name());
    this.#name();
  }

  get speed() {
    return SPEEDS[Number(byId("speed").value)];
  }

  #name() {
    byId("speed").setAttribute("aria-valuetext", `${this.speed} steps a second`);
  }

  /** Sets how long the episodes are. */
  setEnd(end) {
    this.end = end;
    this.time = Math.min(this.time, end);
    byId("time").max = end;
    byId("play").disabled = byId("step").disabled = end === 0;
    this.#show();
  }

  /** Stops at a time. */
  go(time) {
    this.pause();
    this.time = Math.min(Math.max(time, 0), this.end);
    this.#show();
  }

  toggle() {
    if (this.playing) this.go(Math.round(this.time));
    else this.play();
  }

  pause() {
    this.playing = false;
    byId("play").textContent = "Play";
  }

  play() {
    if (this.end === 0) return;
    if (this.time >= this.end) this.time = 0;
    this.playing = true;
    byId("play").textContent = "Pause";
    this.last = null;
    requestAnimationFrame((now) => this.#tick(now));
  }

  #tick(now) {
    if (!this.playing) return;
    const passed = this.last === null ? 0 : Math.min(now - this.last, 100);
    this.last = now;
    if (this.frames.length < 10_000) this.frames.push(passed);
    this.time = Math.min(this.time + (passed / 1000) * this.speed, this.end);
    if (this.time >= this.end) this.pause();
    this.#show();
    if (this.playing) requestAnimationFrame((next) => this.#tick(next));
  }

  /** Shows the present time. Where the system asks for no motion, agents jump from cell to cell. */
  #show() {
    const steps = Math.floor(this.time);
    if (Number(byId("time").value) !== steps) byId("time").value = steps;
    const clock = `${steps} / ${this.end}`;
    if (byId("clock").value !== clock) {
      byId("clock").value = clock;
      byId("time").setAttribute("aria-valuetext", `step ${steps} of ${this.end}`);
    }
    this.draw(this.still.matches ? steps : this.time);
  }
}
