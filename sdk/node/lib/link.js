// Frames on two pipes, as docs/programs.md of flowd specifies them.

const MAX_HEADER = 16 << 20;

/** Returns the bytes of a frame. header is an object, or JSON text. */
export function frame(header, bodies = []) {
  const head = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const lengths = Buffer.allocUnsafe(8);
  lengths.writeUInt32BE(head.length, 0);
  lengths.writeUInt32BE(bodies.reduce((n, b) => n + b.length, 0), 4);
  return Buffer.concat([lengths, head, ...bodies]);
}

/** Reads frames from one socket, and writes frames to another. Bodies of frames may share memory. */
export class Link {
  #rest = Buffer.alloc(0); // the beginning of a frame of unknown length
  #partial; // a frame that is being filled
  #filled = 0;
  #counts = new Map();

  #frames = []; // those that nobody has received
  #onFrame = (header, body) => this.#frames.push([header, body]);
  #onEnd;

  constructor(readable, writable, onGone = () => process.exit(0)) {
    this.#onEnd = onGone;
    this.readable = readable;
    this.writable = writable;
    readable.on("data", (chunk) => {
      for (const [header, body] of this.#cut(chunk)) this.#onFrame(header, body);
    });
    readable.on("close", () => this.#onEnd());
    readable.on("error", () => {});
    writable.on("error", onGone); // nobody reads
  }

  /** Returns the first header. */
  first() {
    return new Promise((resolve) => {
      this.#onFrame = (header) => {
        this.#onFrame = (header, body) => this.#frames.push([header, body]);
        resolve(header);
      };
    });
  }

  /** Calls onFrame with header and body of each further frame, and onEnd after the last one. */
  receive(onFrame, onEnd) {
    this.#onFrame = onFrame;
    this.#onEnd = onEnd;
    for (const [header, body] of this.#frames.splice(0)) onFrame(header, body);
  }

  *#cut(chunk) {
    while (chunk.length) {
      if (!this.#partial) {
        if (this.#rest.length) chunk = Buffer.concat([this.#rest, chunk]);
        this.#rest = chunk;
        if (chunk.length < 8) return;
        const head = chunk.readUInt32BE(0);
        if (head > MAX_HEADER) throw new Error(`flowd has sent a header of ${head} bytes`);
        const length = 8 + head + chunk.readUInt32BE(4);
        this.#rest = chunk.subarray(0, 0);
        if (chunk.length >= length) {
          yield open(chunk.subarray(0, length));
          chunk = chunk.subarray(length);
          continue;
        }
        this.#partial = Buffer.allocUnsafe(length);
        this.#filled = 0;
      }
      const n = chunk.copy(this.#partial, this.#filled);
      this.#filled += n;
      chunk = chunk.subarray(n);
      if (this.#filled === this.#partial.length) {
        const whole = this.#partial;
        this.#partial = undefined;
        yield open(whole);
      }
    }
  }

  /** Writes a frame. */
  send(header, bodies) {
    this.write([frame(header, bodies)]);
  }

  /** Writes whole frames, after the counters that wait for the next frame. */
  write(frames) {
    const counters = [...this.#counts.values()];
    this.#counts.clear();
    for (const bytes of [...counters.map((counter) => frame(counter)), ...frames]) this.writable.write(bytes);
  }

  /** Ends the process once everything is written. */
  exit(status) {
    this.write([]);
    this.writable.end(() => process.exit(status));
  }

  /** Adds to a counter, which goes out with the next frame. */
  count(name, value, labels) {
    const key = JSON.stringify([name, labels]);
    const counter = this.#counts.get(key);
    if (counter) {
      counter.value += value;
      return;
    }
    if (!this.#counts.size) setImmediate(() => this.write([]));
    this.#counts.set(key, { type: "metric", name, kind: "counter", value, labels });
  }
}

function open(whole) {
  const head = 8 + whole.readUInt32BE(0);
  return [JSON.parse(whole.toString("utf8", 8, head)), whole.subarray(head)];
}
