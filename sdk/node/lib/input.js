// Serves an input: sends what a generator yields, within flowd's credits, and hands back fates.

import { setImmediate as rest } from "node:timers/promises";
import { describe, headerJSON, Message, MessageError } from "./message.js";

const SOON = 2; // milliseconds that a message waits for others, or that a generator keeps the event loop
const MANY = 512; // messages that are worth a frame
const MAX_POSITION = 16_000; // characters; the protocol allows 64 KiB
const GRACE = 250; // milliseconds for a generator to clean up

export class Input {
  #credits = 0;
  #number = 0;
  #pending = [];
  #size = 0;
  #timer = null;
  #unsettled = new Map(); // by number
  #ended = false; // no message follows
  #failed = false;
  #settling = Promise.resolve();
  #wake = () => {};
  #controller = new AbortController();

  constructor(link, call, context, settled, limit) {
    Object.assign(this, { link, call, settled, limit, most: Math.min(limit, 1 << 20) });
    this.context = { ...context, signal: this.#controller.signal };
  }

  /** Resolves with the exit status, when flowd has closed its pipe or the input can't go on. */
  serve(ready) {
    return new Promise((resolve) => {
      this.done = (status) => {
        this.#stop();
        const generator = Promise.race([this.generator, new Promise((late) => setTimeout(late, GRACE))]);
        Promise.all([generator, this.#settling]).then(() => resolve(status));
      };
      process.on("SIGTERM", () => {
        this.#flush();
        this.done(0);
      });
      this.link.receive((header) => this.#handle(header), () => this.done(0));
      this.link.send(ready);
      this.generator = this.#generate();
    });
  }

  async #generate() {
    try {
      let rested = performance.now();
      for await (const value of await this.call(this.context)) {
        for (const msg of messages(value)) {
          while (!this.#ended && !this.#put(msg)) await new Promise((wake) => (this.#wake = wake));
        }
        if (this.#ended) return;
        if (performance.now() > rested + SOON) {
          await rest(); // a generator that never waits must not keep frames from being read
          rested = performance.now();
        }
      }
      this.#end();
    } catch (e) {
      if (!this.#ended) this.#fail(e);
    }
  }

  /** Adds a message, and returns false if flowd must give a credit first. */
  #put(msg) {
    if (!this.#credits) {
      this.#flush();
      return false;
    }
    const payload = msg.payload, meta = headerJSON(msg.meta), position = headerJSON(msg.position ?? null);
    const { length } = payload;
    if (length > this.limit) throw new Error(`message has ${length} bytes, more than the limit of ${this.limit}`);
    if (position.length > MAX_POSITION) throw new Error(`position has ${position.length} characters, more than ${MAX_POSITION}`);
    if (this.#size + length > this.most || this.#pending.length >= MANY) this.#flush();
    this.#credits--;
    this.#number++;
    this.#size += length;
    this.#pending.push({ payload, meta, position });
    if (this.settled) this.#unsettled.set(this.#number, msg);
    this.#timer ??= setTimeout(() => this.#flush(), SOON);
    return true;
  }

  #flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    const pending = this.#pending;
    if (!pending.length) return;
    this.#pending = [];
    this.#size = 0;
    const column = (name) => pending.map((m) => m[name]).join(",");
    const sizes = pending.map((m) => m.payload.length).join(",");
    this.link.send(
      `{"type":"messages","sizes":[${sizes}],"meta":[${column("meta")}],"positions":[${column("position")}]}`,
      pending.map((m) => m.payload));
  }

  #stop() {
    this.#ended = true;
    this.#controller.abort();
    this.#wake();
  }

  #end() {
    if (this.#ended) return;
    this.#flush();
    this.link.send({ type: "end" });
    this.#stop();
  }

  #fail(error) {
    if (this.#failed) return;
    this.#failed = true;
    this.#flush();
    this.link.send({ type: "error", error: describe(error) });
    this.#ended = true;
    setImmediate(() => this.done(1));
  }

  #handle({ type, messages, numbers, fates, errors }) {
    if (type === "credit") {
      this.#credits += messages;
      this.#wake();
    } else if (type === "drain") {
      this.#end();
    } else if (type === "fates" && this.settled) {
      numbers.forEach((n, i) => {
        const msg = this.#unsettled.get(n);
        this.#unsettled.delete(n);
        const { text, class: kind, after } = errors?.[i] ?? {};
        const error = errors?.[i] ? new MessageError(text, { kind, after }) : null;
        if (msg) this.#settling = this.#settling.then(() => this.settled(msg, fates[i], error)).catch((e) => this.#fail(e));
      });
    }
  }
}

/** Returns the messages that a generator has yielded at once. */
function messages(value) {
  if (Array.isArray(value)) return value.flatMap(messages);
  return value === undefined ? [] : [value instanceof Message ? value : new Message(value)];
}
