#!/usr/bin/env node
// Runs a program for flowd without flowd: flowd-test score.mjs < sample

import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { Host, results } from "./host.js";

const USAGE = `usage: flowd-test [options] PROGRAM < FILE

Each line of standard input is a message. The payloads that leave are printed, one per line, and errors go to standard error.
The exit status is 1 if a message failed, or the program.

  --kind KIND      run it as a step, output or input (default: step)
  --config JSON    config of the component
  --meta JSON      metadata of each message, an object
  --batch N        messages in a batch (default: 256)
  --limit N        messages to take from an input (default: 1000)
`;

function fail(text) {
  console.error(text);
  process.exit(1);
}

let options, program;
try {
  const string = (value) => ({ type: "string", ...(value && { default: value }) });
  const parsed = parseArgs({
    allowPositionals: true,
    options: {
      kind: string("step"), config: string(), meta: string(), batch: string("256"), limit: string("1000"), help: { type: "boolean" },
    },
  });
  options = parsed.values;
  [program] = parsed.positionals;
} catch (e) {
  fail(`${e.message}\n\n${USAGE}`);
}
if (options.help || !program) fail(USAGE);
const json = (name) => (options[name] === undefined ? undefined : JSON.parse(options[name]));
const defaultClass = options.kind === "output" ? "transient" : "permanent";

const host = new Host([process.execPath, program], options.kind, { config: json("config") ?? null });

/** Returns the next frame that isn't a log line, metric or state. */
async function next() {
  for (;;) {
    const frame = await host.next();
    if (!frame) fail(`the program has ended with status ${await host.exited}`);
    const [{ type, error }] = frame;
    if (type === "error") fail(`the program can't go on: ${error.text}`);
    if (!["log", "metric", "state"].includes(type)) return frame;
    console.error(JSON.stringify(frame[0]));
  }
}

function print(payload) {
  process.stdout.write(payload);
  process.stdout.write("\n");
}

async function sendBatches() {
  let succeeded = true, line = 0, batch = 0, payloads = [];
  const send = async () => {
    const n = payloads.length;
    const header = { type: "batch", batch: ++batch, sizes: payloads.map((p) => p.length), attempts: payloads.map(() => 1) };
    if (options.meta) header.meta = payloads.map(() => json("meta"));
    host.link.send(header, payloads);
    const done = [];
    for (let found = 0; found < n; ) {
      for (const [i, result, changed] of results(...(await next()))) {
        done[i] = [result, changed ?? [payloads[i]]];
        found++;
      }
    }
    for (const [{ error }, leaving] of done) {
      line++;
      leaving.forEach(print);
      if (!error) continue;
      succeeded = false;
      console.error(`line ${line}: ${error.class ?? defaultClass}: ${error.text}`);
      if (error.detail) console.error(error.detail);
    }
    payloads = [];
  };
  process.stdin.setEncoding("latin1"); // keeps bytes that are not UTF-8
  for await (const text of createInterface({ input: process.stdin })) {
    if (payloads.push(Buffer.from(text, "latin1")) >= Number(options.batch)) await send();
  }
  if (payloads.length) await send();
  return succeeded;
}

async function takeMessages() {
  const limit = Number(options.limit);
  host.link.send({ type: "credit", messages: limit });
  for (let number = 0; number < limit; ) {
    const [{ type, sizes }, body] = await next();
    if (type === "end") break;
    let at = 0;
    for (const size of sizes) print(body.subarray(at, (at += size)));
    host.link.send({ type: "fates", numbers: sizes.map(() => ++number), fates: sizes.map(() => "delivered") });
  }
  return true;
}

const [{ error }] = await next();
if (error) fail(`not ready: ${error.setting ? `config.${error.setting}: ` : ""}${error.text}`);
const succeeded = options.kind === "input" ? await takeMessages() : await sendBatches();
process.exitCode = (await host.close()) === 0 && succeeded ? 0 : 1;
