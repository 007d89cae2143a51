// Flowd's side of a program: for tests, and for flowd-test.

import { spawn } from "node:child_process";
import { Link } from "./lib/link.js";

export class Host {
  #frames = [];
  #wake = null;
  #ended = false;

  /** Starts a program and says hello. What it prints to standard output goes to standard error. */
  constructor(command, kind = "step", hello = {}) {
    const env = { ...process.env, FLOWD_PROGRAM_PROTOCOL: "1" };
    this.child = spawn(command[0], command.slice(1), { env, stdio: ["ignore", 2, "inherit", "pipe", "pipe"] });
    this.exited = new Promise((resolve) => this.child.on("exit", (status, signal) => resolve(status ?? signal)));
    const end = () => {
      this.#ended = true;
      this.#wake?.();
    };
    this.link = new Link(this.child.stdio[4], this.child.stdio[3], end);
    this.link.receive((header, body) => {
      this.#frames.push([header, body]);
      this.#wake?.();
    }, end);
    const first = { type: "hello", version: 1, kind, name: "test", pipeline: "test", instance: 0, config: null };
    this.link.send({ ...first, limits: { body: 64 << 20, window: 1024 }, position: null, ...hello });
  }

  /** Returns header and body of the next frame, or null after the last one. */
  async next() {
    while (!this.#frames.length && !this.#ended) await new Promise((wake) => (this.#wake = wake));
    return this.#frames.shift() ?? null;
  }

  /** Closes the pipe, and returns the exit status or signal of the program. */
  close() {
    this.child.stdio[3].end();
    return this.exited;
  }
}

/** Yields index, result and payloads of each result in a frame. The payloads are null if they are unchanged. */
export function* results(header, body) {
  let at = 0;
  let i = header.first ?? 0;
  for (let result of header.results) {
    if (typeof result === "number") result = { size: result };
    const sizes = result?.parts ?? (result?.size === undefined ? [] : [result.size]);
    const payloads = sizes.map((size) => body.subarray(at, (at += size)));
    yield [i++, result ?? {}, sizes.length || result?.drop || result?.error ? payloads : null];
  }
}
