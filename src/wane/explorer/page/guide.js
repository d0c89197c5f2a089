// Shows the steps of the tour.

import { byId, element } from "./controls.js";
import { readState } from "./state.js";
import { STEPS } from "./tour.js";

/** Walks through the tour. `page` has open(state), playback and rest(). */
export class Guide {
  constructor(page) {
    this.page = page;
    this.at = null;
    byId("tour-start").addEventListener("click", () => this.go(0));
    byId("tour-back").addEventListener("click", () => this.go(this.at - 1));
    byId("tour-next").addEventListener("click", () => this.go(this.at + 1));
    byId("tour-end").addEventListener("click", () => this.end());
    byId("tour").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.end();
    });
  }

  /** Shows a step: its world, its words, and the part of the page that they are about. */
  go(at) {
    if (at < 0 || at >= STEPS.length) {
      this.end();
      return;
    }
    const { title, text, state, point, play, open } = STEPS[at];
    this.at = at;
    this.page.open(readState(state));
    byId("tour").hidden = false;
    document.body.classList.add("touring");
    byId("tour-count").textContent = `Step ${at + 1} of ${STEPS.length}`;
    byId("tour-title").textContent = title;
    byId("tour-text").replaceChildren(...text.map((words) => element("p", { textContent: words })));
    byId("tour-back").disabled = at === 0;
    byId("tour-next").textContent = at === STEPS.length - 1 ? "Start painting" : "Next";
    if (open) byId(open).open = true;
    this.#light(point);
    byId("tour-title").focus({ preventScroll: true });
    if (byId("tour").getBoundingClientRect().top < 0) byId("tour").scrollIntoView();
    if (play) this.page.playSoon();
  }

  #light(id) {
    document.querySelectorAll(".lit").forEach((lit) => lit.classList.remove("lit"));
    if (id) byId(id).classList.add("lit");
  }

  end() {
    this.at = null;
    this.#light(null);
    byId("tour").hidden = true;
    document.body.classList.remove("touring");
    byId("tour-start").focus();
  }
}
