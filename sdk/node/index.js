// Write a step, an input or an output of flowd. The module serves flowd once the main module has been evaluated.

import { existsSync, realpathSync } from "node:fs";
import { Socket } from "node:net";
import { pathToFileURL } from "node:url";
import { Input } from "./lib/input.js";
import { Link } from "./lib/link.js";
import { describe, DROP, Message, MessageError, SettingError } from "./lib/message.js";
import { Steps } from "./lib/steps.js";

export { DROP, Message, MessageError, SettingError };

const handlers = {};
const setups = [];
let link = null;
let scheduled = false;

const register = (kind) => (target, { batch = false, concurrency = 64 } = {}) => {
  handlers[kind] = { target, batch, concurrency };
  schedule();
  return target;
};

export const step = register("step");
export const output = register("output");
export const input = register("input");
export const settled = register("settled");

export function setup(prepare) {
  setups.push(prepare);
  return prepare;
}

export const log = Object.fromEntries(["debug", "info", "warn", "error"].map((level) => [
  level, (text, fields = {}) => tell({ type: "log", level, text: String(text), fields: { ...fields } }),
]));

export const metric = {
  count: (name, value = 1, labels = {}) => link?.count(...checked(name, value, labels)),
  gauge: (name, value, labels = {}) => observe("gauge", ...checked(name, value, labels)),
  observe: (name, value, labels = {}) => observe("histogram", ...checked(name, value, labels)),
};

function observe(kind, name, value, labels) {
  link?.send({ type: "metric", name, kind, value, labels });
}

function checked(name, value, labels) {
  if (!Number.isFinite(value)) throw new TypeError(`metric ${name}: ${value} is not a number`);
  return [String(name), value, Object.fromEntries(Object.entries(labels).map(([label, v]) => [label, String(v)]))];
}

export function state(ready, reason = "") {
  tell({ type: "state", ready: Boolean(ready), reason: String(reason) });
}

function tell(header) {
  const text = JSON.stringify(header, (_, value) => (typeof value === "bigint" ? String(value) : value));
  if (link) link.send(text);
  else console.error(text);
}

/** Serves once the main module has been evaluated, including what it awaits. Without flowd, it does nothing. */
function schedule() {
  if (scheduled || !process.env.FLOWD_PROGRAM_PROTOCOL) return;
  scheduled = true;
  delete process.env.FLOWD_PROGRAM_PROTOCOL;
  process.on("SIGINT", () => {}); // a terminal sends it to all: flowd decides
  const main = process.argv[1];
  // A module is evaluated once: this import waits for it. If it fails, Node.js reports it and exits.
  const evaluated = main && existsSync(main) ? import(pathToFileURL(realpathSync(main))) : Promise.resolve();
  evaluated.then(() => serve(), () => {});
}

async function serve() {
  const reader = new Socket({ fd: 3, readable: true, writable: false });
  link = new Link(reader, new Socket({ fd: 4, readable: false, writable: true }));
  link.exit(await prepareAndServe());
}

async function prepareAndServe() {
  const hello = await link.first();
  let server;
  try {
    server = await prepare(hello);
  } catch (e) {
    const setting = e instanceof SettingError ? String(e.setting) : undefined;
    if (setting === undefined) console.error(e);
    link.send({ type: "ready", version: 1, error: { text: describe(e).text, setting } });
    return 1;
  }
  return server.serve({ type: "ready", version: 1 });
}

async function prepare({ kind, config = null, limits, position = null, name, pipeline, instance, instances }) {
  const handler = handlers[kind];
  const has = Object.keys(handlers).filter((k) => k !== "settled").join(" and ");
  if (!handler) throw new MessageError(`${process.argv[1]} has no ${kind} (it has ${has || "nothing"})`);
  for (const prepare of setups) await prepare(config);
  let call = handler.target, onSettled = handlers.settled?.target;
  if (/^class\b/.test(Function.prototype.toString.call(call))) {
    const instance = new call(config);
    if (typeof instance.process !== "function") throw new MessageError(`class ${call.name} needs a method named process`);
    call = (argument) => instance.process(argument);
    if (instance.settled) onSettled ??= (...args) => instance.settled(...args);
  }
  if (kind === "input") return new Input(link, call, { config, position, name, pipeline, instance, instances }, onSettled, limits.body);
  return new Steps(link, call, { ...handler, writes: kind === "output", limit: limits.body });
}
