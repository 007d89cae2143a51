// Serves the batches of a step or an output.

import { frame } from "./link.js";
import { Message, PASSED } from "./message.js";

const FLUSH = 50; // milliseconds that a result waits for others of its batch, or that functions keep the event loop
const LARGE = 4 << 20; // bytes of results that are worth a frame

class Batch {
  constructor(header, body) {
    this.number = header.batch;
    this.messages = Message.received(header, body);
    this.next = 0; // the first message that no handler has seen
    this.results = new Array(this.messages.length); // undefined: none; null: written
    this.ready = []; // results that have not been written, by index
    this.unanswered = this.messages.length;
  }

  /** Returns frames with the results that are ready, none of which is larger than limit unless one result is. */
  takeResults(limit) {
    const frames = [];
    let texts = [], bodies = [], size = 0, first = 0;
    const cut = () =>
      frames.push(frame(`{"type":"results","batch":${this.number},"first":${first},"results":[${texts.join(",")}]}`, bodies));
    for (const i of this.ready.sort((a, b) => a - b)) {
      const result = this.results[i];
      this.results[i] = null;
      if (texts.length && (i !== first + texts.length || size + result.size > limit)) {
        cut();
        texts = [], bodies = [], size = 0;
      }
      if (!texts.length) first = i;
      texts.push(result.text);
      for (const body of result.bodies) bodies.push(body);
      size += result.size;
    }
    if (texts.length) cut();
    this.unanswered -= this.ready.length;
    this.ready = [];
    return frames;
  }
}

export class Steps {
  #batches = new Map(); // those with unanswered messages, by number
  #queue = []; // those of them with messages that no handler has seen
  #running = 0;
  #written = 0;
  #timer = null;
  #pumping = false;
  #draining = false;
  #ending = false;

  constructor(link, call, { writes, batch, concurrency, limit }) {
    Object.assign(this, { link, call, writes, batchwise: batch, concurrency, limit });
  }

  /** Resolves when all is done, after flowd has closed its pipe. */
  serve(ready) {
    return new Promise((resolve) => {
      this.done = resolve;
      process.on("SIGTERM", () => this.#end());
      this.link.receive((header, body) => this.#handle(header, body), () => (this.#draining ? this.#end() : resolve(0)));
      this.link.send(ready);
    });
  }

  #end() {
    this.link.readable.pause();
    this.#ending = true;
    this.#pump();
  }

  #handle(header, body) {
    if (header.type === "batch") {
      const batch = new Batch(header, body);
      this.#batches.set(batch.number, batch);
      this.#queue.push(batch);
      this.#pump();
    } else if (header.type === "cancel") {
      const batch = this.#batches.get(header.batch);
      for (const i of header.indices ?? batch?.messages.keys() ?? []) this.#cancel(batch, i);
    } else if (header.type === "drain") {
      this.#draining = true;
    }
  }

  /** A message that a handler works on is answered now. What the handler returns later is ignored. */
  #cancel(batch, i) {
    if (!batch) return;
    Message.cancel(batch.messages[i]);
    if (i < batch.next) this.#settle(batch, i, PASSED);
  }

  /** Calls the handler for messages that wait, and lets the event loop run now and then. */
  #pump() {
    if (this.#pumping) return;
    const until = performance.now() + FLUSH;
    while (this.#queue.length && this.#running < this.concurrency) {
      const batch = this.#queue[0];
      const first = batch.next;
      batch.next = this.batchwise ? batch.messages.length : first + 1;
      if (batch.next >= batch.messages.length) this.#queue.shift();
      this.#run(batch, first);
      if (performance.now() > until) {
        this.#flush();
        this.#pumping = true;
        setImmediate(() => {
          this.#pumping = false;
          this.#pump();
        });
        return;
      }
    }
    if (this.#ending && !this.#running && !this.#queue.length) {
      this.#flush();
      this.done(0);
    }
  }

  #run(batch, i) {
    const msg = batch.messages[i];
    const cancelled = this.batchwise ? batch.messages.every((m) => m.cancelled) : msg.cancelled;
    let value;
    try {
      value = cancelled ? undefined : this.call(this.batchwise ? batch.messages : msg);
    } catch (e) {
      value = asError(e);
    }
    if (typeof value?.then !== "function") return this.#keep(batch, i, value);
    this.#running++;
    value.then((v) => v, asError).then((v) => {
      this.#running--;
      this.#keep(batch, i, v);
      this.#pump();
    });
  }

  /** Keeps what a handler has returned, or thrown, for a message, or for all of a batch. */
  #keep(batch, i, value) {
    if (!this.batchwise) return this.#settle(batch, i, Message.outcome(batch.messages[i], value, this.writes, this.limit));
    const n = batch.messages.length;
    const each = Array.isArray(value) && value.length === n;
    if (!each && !this.writes && value !== undefined && !(value instanceof Error)) {
      value = new TypeError(`a handler of batches returns undefined or an array with a result for each of ${n} messages`);
    }
    batch.messages.forEach((msg, k) =>
      this.#settle(batch, k, Message.outcome(msg, each ? value[k] : value, this.writes, this.limit)));
  }

  #settle(batch, i, result) {
    if (batch.results[i] !== undefined) return;
    batch.results[i] = result;
    batch.ready.push(i);
    if (batch.ready.length === batch.unanswered) this.#write(batch);
    else this.#timer ??= setTimeout(() => this.#flush(), Math.max(1, this.#written + FLUSH - performance.now()));
  }

  #write(batch) {
    if (!batch.ready.length) return;
    this.link.write(batch.takeResults(Math.min(this.limit, LARGE)));
    if (!batch.unanswered) this.#batches.delete(batch.number);
    this.#written = performance.now();
  }

  #flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    for (const batch of this.#batches.values()) this.#write(batch);
  }
}

function asError(e) {
  return e instanceof Error ? e : new Error(String(e));
}
