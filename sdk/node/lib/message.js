// Messages, and what a handler can make of them.

import { isUtf8 } from "node:buffer";

const SDK = new URL("..", import.meta.url).href;
const MAX_TEXT = 8 << 20; // bytes of a result in the header of a frame, which may have 16 MiB
const NONE = [];

export const PASSED = { text: "null", bodies: NONE, size: 4 }; // the result of a message that passes as it is
export const DROP = Symbol("flowd.DROP");

export class MessageError extends Error {
  name = "MessageError";
  constructor(text, { kind, after, detail, cause } = {}) {
    super(text, { cause });
    Object.assign(this, { kind, after, detail });
  }
}

export class SettingError extends Error {
  name = "SettingError";
  constructor(setting, text) {
    super(text);
    this.setting = setting;
  }
}

export class Message {
  #sent; // the payload that flowd knows
  #payload;
  #doc;
  #mark = null; // the document as JSON when it was parsed; null: it was not; undefined: it was assigned
  #meta;
  #edited = null;
  #failure = null;
  #used = false;
  #terms;
  #controller;
  error = null;
  cancelled = false;

  constructor(value = "", { meta, attempt = 1, position, tag } = {}) {
    this.#sent = this.#payload = encode(value);
    this.#meta = meta;
    this.attempt = attempt;
    this.position = position;
    this.tag = tag;
  }

  get payload() {
    if (this.#mark !== null) {
      const text = toJSON(this.#doc);
      if (text !== this.#mark) {
        this.#payload = Buffer.from(text);
        this.#mark = text;
      }
    }
    return this.#payload;
  }

  set payload(payload) {
    this.#payload = encode(payload);
    this.#mark = null;
    this.#used = true;
  }

  get doc() {
    if (this.#mark === null) {
      try {
        if (!isUtf8(this.#payload)) throw new Error("it is not UTF-8");
        this.#doc = JSON.parse(this.#payload.toString());
      } catch (e) {
        throw new MessageError(`payload is not valid JSON: ${e.message}`, { kind: "decode" });
      }
      this.#mark = JSON.stringify(this.#doc);
      this.#used = true;
    }
    return this.#doc;
  }

  set doc(doc) {
    this.#doc = doc;
    this.#mark = undefined;
    this.#used = true;
  }

  get meta() {
    this.#used = true;
    return (this.#edited ??= JSON.parse(JSON.stringify(this.#meta ?? {}))); // a copy to compare with
  }

  get deadline() {
    return this.#terms?.deadline ?? null;
  }

  get key() {
    return this.#terms?.key ?? null;
  }

  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.cancelled) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  fail(error, options) {
    this.#failure = error instanceof Error ? error : new MessageError(error, options);
    this.#used = true;
  }

  /** Says that nobody waits for the message any more. */
  static cancel(msg) {
    msg.cancelled = true;
    msg.#controller?.abort();
  }

  /** Returns the messages of a batch frame. */
  static received({ sizes, meta, attempts, errors, key, timeout }, body) {
    const terms = { key, deadline: timeout === undefined ? null : Date.now() + timeout * 1000 };
    const found = new Array(sizes.length);
    for (let i = 0, at = 0; i < sizes.length; at += sizes[i++]) {
      const msg = (found[i] = new Message(body.subarray(at, at + sizes[i])));
      msg.#meta = meta?.[i];
      msg.#terms = terms;
      msg.attempt = attempts?.[i] ?? 0;
      if (errors) msg.error = errors[i];
    }
    return found;
  }

  /** Returns the result of a message whose handler has returned value. writes: the handler is an output. */
  static outcome(msg, value, writes, limit) {
    if (value === undefined && !msg.#used) return PASSED;
    try {
      const result = msg.#failure ? failed(msg.#failure) : msg.#outcome(value, writes);
      const size = result.bodies.reduce((n, b) => n + b.length, 0);
      if (size > limit || result.text.length > MAX_TEXT) {
        return failed(new MessageError(`result is too large: ${size + result.text.length} bytes`, { kind: "permanent" }));
      }
      result.size = result.text.length + size;
      return result;
    } catch (e) {
      return failed(e);
    }
  }

  #outcome(value, writes) {
    if (value instanceof Error) return failed(value);
    if (writes) return { text: "null", bodies: NONE };
    if (value === DROP || (Array.isArray(value) && !value.length)) return { text: '{"drop":true}', bodies: NONE };
    let meta = this.#metaChanges();
    if (Array.isArray(value)) {
      const bodies = value.map(encode);
      return { text: headerJSON({ parts: bodies.map((b) => b.length), meta }), bodies };
    }
    if (value instanceof Message && value !== this) meta = { ...meta, ...value.meta };
    const payload = value === undefined ? this.payload : encode(value);
    if (payload === this.#sent) return { text: meta ? headerJSON({ meta }) : "null", bodies: NONE };
    const size = payload.length;
    return { text: meta ? headerJSON({ size, meta }) : String(size), bodies: [payload] };
  }

  #metaChanges() {
    if (!this.#edited) return undefined;
    const before = this.#meta ?? {};
    const changes = Object.entries(this.#edited).filter(
      ([name, value]) => !Object.hasOwn(before, name) || JSON.stringify(value) !== JSON.stringify(before[name]));
    for (const name of Object.keys(before)) {
      if (!Object.hasOwn(this.#edited, name)) changes.push([name, null]);
    }
    return changes.length ? Object.fromEntries(changes) : undefined;
  }
}

function toJSON(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`${typeof value} can't be written as JSON`);
  return text;
}

/** Returns JSON for a header, which must not have half of a surrogate pair. */
export function headerJSON(value) {
  const text = JSON.stringify(value);
  if (/(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(text)) throw new TypeError("metadata or a position has half of a surrogate pair");
  return text;
}

/** Returns a payload: bytes as they are, text in UTF-8, and anything else as JSON. */
export function encode(value) {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === "string") return Buffer.from(value);
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof Message ? value.payload : Buffer.from(toJSON(value));
}

function failed(e) {
  const text = JSON.stringify({ error: describe(e) });
  return { text, bodies: NONE, size: text.length };
}

/** Returns what was thrown as the protocol's error, with the part of the stack that is not of this module. */
export function describe(e) {
  const own = e instanceof MessageError;
  const stack = own ? e.cause?.stack : e?.stack;
  const detail = (own && e.detail) || stack?.split?.("\n").filter((line) => !line.includes(SDK)).join("\n");
  let text = own || e instanceof SettingError ? e.message : e instanceof Error ? `${e.name}: ${e.message}` : String(e);
  if (!own && e?.cause?.message) text += `: ${e.cause.message}`; // "fetch failed" says nothing
  const error = { text: String(text || "error without a text").slice(0, 4_000) };
  if (own && e.kind) error.class = String(e.kind);
  if (own && Number.isFinite(Number(e.after ?? NaN))) error.after = Number(e.after);
  if (detail) error.detail = String(detail).slice(0, 8_000);
  return error;
}
