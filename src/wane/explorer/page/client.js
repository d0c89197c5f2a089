// Asks for computations without freezing the page. Each lane has a worker of its own, made of the page's own first
// script, and keeps only the latest question: while a slider is dragged, what is outdated is never computed.

import { answer } from "./engine.js";

/** Returns a worker that runs the mathematics, or null where the browser allows none. */
function makeWorker() {
  try {
    const source = document.getElementById("mathematics").textContent;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const worker = new Worker(address);
    URL.revokeObjectURL(address);
    return worker;
  } catch {
    return null;
  }
}

/** One question at a time; a newer question replaces one that still waits. */
export class Lane {
  constructor() {
    this.worker = makeWorker();
    this.busy = false;
    this.waiting = null;
    this.count = 0;
    if (this.worker) {
      this.worker.onmessage = ({ data }) => this.#finish(data);
      this.worker.onerror = () => this.#withoutWorker();
    }
  }

  /** Asks for a task. Calls `then` with the result, unless a newer question has replaced this one. */
  ask(task, message, then) {
    this.waiting = { id: (this.count += 1), task, message, then };
    if (!this.busy) this.#send();
  }

  #send() {
    const question = this.waiting;
    this.waiting = null;
    this.busy = Boolean(question);
    this.asked = question;
    if (!question) return;
    const { id, task, message } = question;
    if (this.worker) {
      this.worker.postMessage({ id, task, message });
    } else {
      setTimeout(() => this.#finish(answer({ id, task, message })));
    }
  }

  /** A browser may refuse the worker only after it was made: the page then computes by itself. */
  #withoutWorker() {
    this.worker = null;
    this.waiting ??= this.asked;
    this.#send();
  }

  #finish({ id, result, problem }) {
    const { asked } = this,
      outdated = this.waiting !== null;
    this.#send();
    if (problem !== undefined) throw new Error(problem);
    if (asked?.id === id && !outdated) asked.then(result);
  }
}
