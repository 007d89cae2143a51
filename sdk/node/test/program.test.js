// Runs programs over pipes, as flowd does.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test as run } from "node:test";
import { fileURLToPath } from "node:url";
import { Host, results } from "../host.js";
import { frame } from "../lib/link.js";
import { Message } from "../index.js";

const dir = mkdtempSync(join(tmpdir(), "flowd-"));
const sdk = new URL("../index.js", import.meta.url).href;
let files = 0;
const started = [];
after(() => {
  for (const program of started) program.child.kill("SIGKILL"); // a test has failed, or it has exited already
  rmSync(dir, { recursive: true });
});

const test = (name, body) => run(name, { timeout: 60_000 }, body);

function write(code) {
  const path = join(dir, `program${++files}.mjs`);
  writeFileSync(path, `import * as flowd from "${sdk}"; import { setTimeout as sleep } from "node:timers/promises";\n${code}`);
  return path;
}

/** A program under test, and what it has sent. */
class Program extends Host {
  number = 0;
  others = [];

  constructor(...args) {
    super(...args);
    started.push(this);
  }

  static async start(code, kind, hello) {
    const program = new Program([process.execPath, write(code)], kind, hello);
    assert.deepEqual((await program.next())[0], { type: "ready", version: 1 });
    return program;
  }

  batch(payloads, fields = {}) {
    payloads = payloads.map((p) => (Buffer.isBuffer(p) ? p : Buffer.from(JSON.stringify(p))));
    this.link.send({ type: "batch", batch: ++this.number, sizes: payloads.map((p) => p.length), ...fields }, payloads);
  }

  /** What becomes of the n messages of the last batch: null, a payload or a result without sizes, with payloads. */
  async answers(n, batch = this.number) {
    const found = [];
    for (let i = 0; i < n; ) {
      const next = await this.next();
      assert.ok(next, "the program has ended");
      const [header, body] = next;
      if (header.type !== "results" || header.batch !== batch) {
        this.others.push(header);
        continue;
      }
      for (const [index, { size, parts, ...result }, payloads] of results(header, body)) {
        assert.equal(found[index], undefined, "answered twice");
        const texts = payloads?.map(String);
        found[index] = Object.keys(result).length ? [result, ...(texts ?? [])] : (texts ?? null);
        i++;
      }
    }
    return found;
  }

  async finish(status = 0) {
    this.link.send({ type: "drain", timeout: 5 });
    assert.equal(await this.close(), status);
  }
}

test("documents, payloads and metadata", async () => {
  const program = await Program.start(`flowd.step((msg) => {
    switch (msg.meta.case) {
      case "doc": msg.doc.n += 1; return;
      case "read": msg.doc.n; msg.payload; return;
      case "bytes": msg.payload = Uint8Array.of(65, 66); return;
      case "both":
        msg.payload = '{"n": 5}';
        msg.doc.n = 6;
        msg.meta.new = msg.attempt;
        delete msg.meta.case;
        return;
      case "return": return { é: "\\ud800" };
      case "text": return "é";
      case "null": return null;
      case "drop": return flowd.DROP;
      case "split": return [1, "x", Buffer.from("y"), { a: null }];
      case "none": return [];
      case "array": msg.doc = [1, 2]; return;
      case "message": return new flowd.Message({ a: 1 }, { meta: { m: [1] } });
    }
  })`);
  const cases = {
    doc: ['{"n":2,"f":1.1}'],
    read: null,
    bytes: ["AB"],
    both: [{ meta: { new: 7, case: null } }, '{"n":6}'],
    return: ['{"é":"\\ud800"}'],
    text: ["é"],
    null: ["null"],
    drop: [{ drop: true }],
    split: ["1", "x", "y", '{"a":null}'],
    none: [{ drop: true }],
    array: ["[1,2]"],
    message: [{ meta: { m: [1] } }, '{"a":1}'],
    "not JSON": null,
  };
  const names = Object.keys(cases);
  const original = Buffer.from('{"n": 1, "f": 1.10}');
  program.batch([...names.slice(1).map(() => original), Buffer.of(255)], {
    meta: names.map((name) => ({ case: name })), attempts: names.map(() => 7),
  });
  assert.deepEqual(await program.answers(names.length), Object.values(cases));
  await program.finish();
});

test("a document that was only read keeps large numbers", async () => {
  const program = await Program.start("flowd.step((msg) => { msg.doc.n; })");
  program.batch([Buffer.from('{"n": 9007199254740993}')]);
  assert.deepEqual(await program.answers(1), [null]);
  await program.finish();
});

test("errors fail one message", async () => {
  const program = await Program.start(`
    function inner() { throw new RangeError("no such thing"); }
    flowd.step((msg) => {
      switch (msg.doc) {
        case 1: throw new flowd.MessageError("busy", { kind: "transient", after: 1.5 });
        case 2: inner();
        case 3: return { x: 1n };
        case 4: return () => {};
        case 5: try { inner() } catch (cause) { throw new flowd.MessageError("wrapped", { cause }) }
        case 6: return "x".repeat(2000);
        case 7: return new flowd.MessageError("returned", { kind: "rejected", detail: "d" });
        case 8: throw "text";
      }
      return process.pid;
    })`, "step", { limits: { body: 1000, window: 100 } });
  program.batch([0, 1, 2, 3, 4, 5, 6, 7, 8, Buffer.from("{"), Buffer.of(34, 255, 34), 0]);
  const got = (await program.answers(12)).map(([result]) => result.error ?? result);
  assert.equal(got[0], String(program.child.pid));
  assert.equal(got[11], got[0], "the program was restarted");
  assert.deepEqual(got[1], { text: "busy", class: "transient", after: 1.5 });
  assert.equal(got[2].text, "RangeError: no such thing");
  assert.match(got[2].detail, /at inner/);
  assert.doesNotMatch(got[2].detail, /steps\.js/);
  assert.match(got[3].text, /BigInt/);
  assert.match(got[4].text, /function can't be written as JSON/);
  assert.equal(got[5].text, "wrapped");
  assert.match(got[5].detail, /at inner/);
  assert.match(got[6].text, /too large: 2004 bytes/);
  assert.deepEqual(got[7], { text: "returned", class: "rejected", detail: "d" });
  assert.equal(got[8].text, "Error: text");
  assert.deepEqual([got[9].class, got[10].class], ["decode", "decode"]);
  await program.finish();
});

test("nothing that a handler gives breaks a header", async () => {
  const program = await Program.start(`flowd.step((msg) => {
    switch (msg.doc) {
      case 1: msg.meta.x = "\\ud800"; return;
      case 2: msg.meta["\\udc80"] = 1; return;
      case 3: msg.meta.x = "\\\\ud800 and 😀"; return;
      case 4: throw Object.assign(new Error("a"), { detail: {}, after: "x", kind: 1 });
      case 5: throw new flowd.MessageError(5, { kind: {}, after: "1.5", detail: 6 });
      case 6: flowd.metric.count("c", NaN); return;
      case 7: flowd.metric.gauge("g", "1"); return;
      case 8: flowd.metric.count("c", 1, { a: 1 }); return;
      case 9: flowd.log.info(1, [10n]); return;
      case 10: flowd.state(1, null); return;
      case 11: throw null;
    }
  })`);
  program.batch(Array.from({ length: 12 }, (_, i) => i));
  const got = (await program.answers(12)).map((answer) => answer && (answer[0].error?.text ?? answer[0].meta.x));
  const half = "TypeError: metadata or a position has half of a surrogate pair";
  assert.deepEqual(got, [null, half, half, "\\ud800 and 😀", "Error: a", "5", "TypeError: metric c: NaN is not a number",
    "TypeError: metric g: 1 is not a number", null, null, null, "Error: null"]);
  assert.deepEqual(program.others, [
    { type: "metric", name: "c", kind: "counter", value: 1, labels: { a: "1" } },
    { type: "log", level: "info", text: "1", fields: { 0: "10" } },
    { type: "state", ready: true, reason: "null" },
  ]);
  await program.finish();
});

test("split frames and large bodies", async () => {
  const program = await Program.start("flowd.step((msg) => Buffer.from(msg.payload).reverse())");
  const large = randomBytes(8 << 20);
  const whole = frame({ type: "batch", batch: 1, sizes: [3, large.length] }, [Buffer.from("abc"), large]);
  for (const [from, to] of [[0, 3], [3, 9], [9, 100], [100]]) {
    program.link.write([whole.subarray(from, to)]);
    await new Promise(setImmediate);
  }
  assert.equal(String((await program.next())[1]), "cba");
  assert.ok((await program.next())[1].equals(Buffer.from(large).reverse()));
  await program.finish();
});

test("results are cut to the limit", async () => {
  const program = await Program.start('flowd.step(() => "x".repeat(60))', "step", { limits: { body: 100, window: 100 } });
  program.batch([1, 2, 3]);
  for (const first of [0, 1, 2]) {
    const [header, body] = await program.next();
    assert.deepEqual([header.first, header.results, body.length], [first, [60], 60]);
  }
  await program.finish();
});

test("slow results leave early, and cancel is seen between messages", async () => {
  const go = join(dir, "go");
  const program = await Program.start(`
    import { existsSync } from "node:fs";
    const wait = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    flowd.step((msg) => {
      wait(60);
      while (msg.doc === 1 && !existsSync(msg.meta.go)) wait(1);
      return "seen";
    })`);
  program.batch(Array.from({ length: 100 }, (_, i) => i), { meta: Array(100).fill({ go }) });
  let [{ results: found }] = await program.next();
  assert.deepEqual(found, [4]);
  program.link.send({ type: "cancel", batch: 1, indices: Array.from({ length: 98 }, (_, i) => i + 2) });
  program.link.send({ type: "cancel", batch: 99 });
  await new Promise(setImmediate); // the frames leave before the file is there
  writeFileSync(go, "");
  while (found.length < 100) found = found.concat((await program.next())[0].results);
  assert.deepEqual(found, [4, 4, ...Array(98).fill(null)]);
  await program.finish();
});

test("batches", async () => {
  const program = await Program.start(`flowd.step((msgs) => {
    if (msgs.length === 1) throw new Error("all");
    if (msgs.length === 2) return [1];
    if (msgs.length === 3) return "x";
    if (msgs.length === 4) return;
    msgs[0].doc.a = 1;
    msgs[1].fail("bad", { kind: "rejected", after: 2 });
    msgs[2].fail(new RangeError("k"));
    return [undefined, undefined, undefined, [1, 2], new Error("e"), flowd.DROP, { b: 2 }];
  }, { batch: true })`);
  program.batch(Array(7).fill({ id: 1 }));
  const got = await program.answers(7);
  assert.deepEqual(got[0], ['{"id":1,"a":1}']);
  assert.deepEqual(got[1], [{ error: { text: "bad", class: "rejected", after: 2 } }]);
  assert.equal(got[2][0].error.text, "RangeError: k");
  assert.equal(got[4][0].error.text, "Error: e");
  assert.deepEqual([got[3], ...got.slice(5)], [["1", "2"], [{ drop: true }], ['{"b":2}']]);
  for (const [n, text] of [[1, /^Error: all/], [2, /each of 2 messages/], [3, /each of 3 messages/]]) {
    program.batch(Array(n).fill({}));
    for (const [{ error }] of await program.answers(n)) assert.match(error.text, text);
  }
  program.batch([1, 2, 3, 4]);
  assert.deepEqual(await program.answers(4), [null, null, null, null]);
  await program.finish();
});

test("promises run side by side, and are cancelled", async () => {
  const program = await Program.start(`
    let running = 0, most = 0;
    flowd.step(async (msg) => {
      most = Math.max(most, ++running);
      try {
        if (msg.doc === "hang") await sleep(100_000, undefined, { signal: msg.signal });
        if (msg.doc === "raise") throw new Error("no");
        if (msg.doc === "most") return most;
        await sleep(5);
      } finally {
        running--;
      }
    }, { concurrency: 3 })`);
  program.batch(["hang", ...Array(10).fill("x"), "raise", "most"]);
  assert.notEqual((await program.next())[0].first, 0, "results wait for the slow one");
  program.link.send({ type: "cancel", batch: 1, indices: [0] });
  program.batch(["hang", "most", "hang"]);
  program.link.send({ type: "cancel", batch: 2 });
  assert.deepEqual(await program.answers(3), [null, null, null]);
  program.batch(["most"]);
  assert.deepEqual(await program.answers(1), [["3"]]);
  await program.finish();
});

test("promises of batches", async () => {
  const program = await Program.start(
    "flowd.step(async (msgs) => { await sleep(1); return msgs.map((m) => m.doc + 1); }, { batch: true })");
  program.batch([1, 2]);
  program.batch([3, Buffer.from("x")]);
  assert.deepEqual(await program.answers(2, 1), [["2"], ["3"]]);
  assert.deepEqual((await program.answers(2)).map(([{ error }]) => error.class), ["decode", "decode"]);
  await program.finish();
});

test("set-up, a class, and a main module that awaits", async () => {
  const program = await Program.start(`
    console.log("noise");
    let model;
    flowd.step(class {
      constructor(config) { this.factor = config.factor * model; }
      async process(msg) { return msg.doc * this.factor; }
    });
    await sleep(50);
    flowd.setup(async (config) => { await sleep(1); model = 2; });`, "step", { config: { factor: 3 } });
  program.batch([2]);
  assert.deepEqual(await program.answers(1), [["12"]]);
  await program.finish();
});

test("key, deadline and errors", async () => {
  const program = await Program.start(`flowd.step((msg) => {
    const left = msg.deadline - Date.now();
    return { key: msg.key, left: left > 25_000 && left <= 30_000, error: msg.error };
  })`);
  program.batch([1, 2], { key: ["a"], timeout: 30, errors: [null, { text: "t" }] });
  assert.deepEqual((await program.answers(2)).map(([text]) => JSON.parse(text)), [
    { key: ["a"], left: true, error: null }, { key: ["a"], left: true, error: { text: "t" } },
  ]);
  await program.finish();
});

test("logs, metrics and states", async () => {
  const program = await Program.start(`flowd.step((msg) => {
    flowd.metric.count("hits", 1, { model: "a" });
    flowd.metric.count("hits", 2, { model: "a" });
    flowd.log.warn("hé", { n: msg.doc });
    flowd.metric.gauge("depth", 3.5);
    flowd.metric.observe("seconds", 0.1, { x: "y" });
    flowd.state(false, "no disk");
  })`);
  program.batch([1]);
  assert.deepEqual(await program.answers(1), [null]);
  assert.deepEqual(program.others, [
    { type: "metric", name: "hits", kind: "counter", value: 3, labels: { model: "a" } },
    { type: "log", level: "warn", text: "hé", fields: { n: 1 } },
    { type: "metric", name: "depth", kind: "gauge", value: 3.5, labels: {} },
    { type: "metric", name: "seconds", kind: "histogram", value: 0.1, labels: { x: "y" } },
    { type: "state", ready: false, reason: "no disk" },
  ]);
  await program.finish();
});

async function failure(code, kind) {
  const program = new Program([process.execPath, write(code)], kind);
  const frame = await program.next();
  return [frame && frame[0].error, await program.close()];
}

test("what is wrong at the start is in ready, or on standard error", async () => {
  const step = "flowd.step(() => {});";
  assert.deepEqual(
    await failure(`${step} flowd.setup(() => { throw new flowd.SettingError("model", "no such model") })`),
    [{ text: "no such model", setting: "model" }, 1]);
  assert.deepEqual(await failure(`${step} flowd.setup(async () => { null.x })`), [
    { text: "TypeError: Cannot read properties of null (reading 'x')" }, 1]);
  assert.match((await failure(step, "input"))[0].text, /has no input \(it has step\)/);
  assert.match((await failure("flowd.step(class A {})"))[0].text, /class A needs a method named process/);
  assert.deepEqual(await failure(`${step} throw new Error("x")`), [null, 1]);
  assert.deepEqual(await failure(`${step} await sleep(1); throw new Error("x")`), [null, 1]);
  assert.deepEqual(await failure(`${step} process.exit(3)`), [null, 3]);
});

test("handlers can be tested without flowd", async () => {
  const { score } = await import(write("export const score = flowd.step((msg) => { msg.doc.a = 1; })"));
  const msg = new Message({});
  score(msg);
  assert.equal(String(msg.payload), '{"a":1}');
});

test("descriptors are not inherited", async () => {
  const program = await Program.start(`
    import { spawnSync } from "node:child_process";
    flowd.step(() => spawnSync("sh", ["-c", "true >&4"], { stdio: "ignore" }).status)`);
  program.batch([1]);
  assert.notDeepEqual(await program.answers(1), [["0"]]);
  await program.finish();
});

test("batches are answered after drain", async () => {
  const program = await Program.start("flowd.step(() => sleep(20))");
  program.batch([1, 2, 3]);
  program.link.send({ type: "drain", timeout: 5 });
  program.child.stdio[3].end();
  assert.deepEqual(await program.answers(3), [null, null, null]);
  assert.equal(await program.exited, 0);
});

test("the pipe closes without drain", async () => {
  const program = await Program.start("setInterval(() => {}, 1000); flowd.step(() => sleep(100_000))");
  program.batch([1, 2]);
  assert.equal(await program.close(), 0);
});

test("SIGTERM finishes what is there, and SIGINT is ignored", async () => {
  const program = await Program.start("flowd.step(() => sleep(10))");
  program.child.kill("SIGINT");
  program.batch([1, 2, 3]);
  program.batch([1]);
  assert.deepEqual(await program.answers(3, 1), [null, null, null]);
  program.child.kill("SIGTERM");
  assert.equal(await program.exited, 0);
});

test("returning means written", async () => {
  const program = await Program.start(`flowd.output(async (msg) => {
    if (msg.doc === 1) throw new Error("disk");
    if (msg.doc === 2) return new flowd.MessageError("full", { kind: "transient", after: 3 });
    return "ignored";
  })`, "output");
  program.batch([0, 1, 2]);
  const got = await program.answers(3);
  assert.deepEqual([got[0], got[2]], [null, [{ error: { text: "full", class: "transient", after: 3 } }]]);
  assert.equal(got[1][0].error.text, "Error: disk");
  assert.equal(got[1][0].error.class, undefined, "flowd knows the default of outputs");
  await program.finish();
});

test("outputs of batches", async () => {
  const program = await Program.start(`flowd.output((msgs) => {
    msgs[0].fail("no");
    return msgs.length === 2 ? [undefined, new Error("too")] : 17;
  }, { batch: true })`, "output");
  program.batch([0, 1]);
  assert.deepEqual((await program.answers(2)).map(([{ error }]) => error.text), ["no", "Error: too"]);
  program.batch([0, 1, 2]);
  assert.deepEqual((await program.answers(3)).map((r) => r && r[0].error.text), ["no", null, null]);
  await program.finish();
});

/** Returns payload, metadata and position of the next n messages of an input. */
async function messages(program, n) {
  const found = [];
  while (found.length < n) {
    const [{ type, sizes, meta, positions }, body] = await program.next();
    assert.equal(type, "messages");
    let at = 0;
    sizes.forEach((size, i) => found.push([String(body.subarray(at, (at += size))), meta?.[i], positions?.[i]]));
  }
  assert.equal(found.length, n, "more messages than credits");
  return found;
}

for (const form of ["function*", "async function*"]) {
  test(`positions, credits and the end (${form})`, async () => {
    const program = await Program.start(`flowd.input(${form} ({ position, config }) {
      for (let n = position + 1; n < config.to; n++) yield new flowd.Message(n, { meta: { n }, position: n });
      yield "é";
      yield [Buffer.from("x"), { a: 1 }];
      yield undefined;
    })`, "input", { config: { to: 1000 }, position: 9 });
    program.link.send({ type: "credit", messages: 3 });
    assert.deepEqual(await messages(program, 3), [10, 11, 12].map((n) => [String(n), { n }, n]));
    program.link.send({ type: "credit", messages: 1 });
    program.link.send({ type: "credit", messages: 1000 });
    const rest = await messages(program, 990);
    assert.deepEqual(rest.slice(-4).map(([text, , position]) => [text, position]),
      [["999", 999], ["é", null], ["x", null], ['{"a":1}', null]]);
    assert.deepEqual((await program.next())[0], { type: "end" });
    assert.equal(await program.close(), 0);
  });
}

test("messages that flowd would refuse", async () => {
  for (const [options, text] of [
    ['{ meta: { a: "\\ud800" } }', /half of a surrogate pair/],
    ['{ position: "x".repeat(70_000) }', /position has 70002/],
    ["{}", /message has 2000 bytes/],
  ]) {
    const value = options === "{}" ? '"x".repeat(2000)' : "1";
    const code = `flowd.input(function* () { yield new flowd.Message(${value}, ${options}); })`;
    const program = await Program.start(code, "input", { limits: { body: 1000 } });
    program.link.send({ type: "credit", messages: 10 });
    assert.match((await program.next())[0].error.text, text);
    assert.equal(await program.exited, 1);
  }
});

test("fates come back in order", async () => {
  const program = await Program.start(`
    flowd.input(async function* () {
      for (let i = 0; i < 3; i++) yield new flowd.Message(i, { tag: "t" + i });
      await sleep(100_000);
    });
    flowd.settled(async (msg, fate, error) => {
      await sleep(1);
      flowd.log.info(fate, { tag: msg.tag, error: error && [error.message, error.kind, error.after] });
    })`, "input");
  program.link.send({ type: "credit", messages: 10 });
  await messages(program, 3);
  const errors = [{ text: "t", class: "transient", after: 5 }, null];
  program.link.send({ type: "fates", numbers: [3, 1], fates: ["returned", "delivered"], errors });
  program.link.send({ type: "drain", timeout: 5 });
  program.link.send({ type: "fates", numbers: [2, 77], fates: ["dropped", "delivered"] });
  const closed = program.close();
  const headers = [];
  for (let next; (next = await program.next()); ) headers.push(next[0]);
  assert.deepEqual(headers.filter((h) => h.type === "log").map((h) => [h.text, h.fields]), [
    ["returned", { tag: "t2", error: ["t", "transient", 5] }],
    ["delivered", { tag: "t0", error: null }],
    ["dropped", { tag: "t1", error: null }],
  ]);
  assert.equal(headers.filter((h) => h.type === "end").length, 1);
  assert.equal(await closed, 0);
});

test("an input that fails, or whose settled fails", async () => {
  for (const code of [
    "flowd.input(async function* () { yield 1; throw new Error('gone'); })",
    "flowd.input(async function* () { yield 1; await sleep(100_000); }); flowd.settled(() => { throw new Error('gone'); })",
  ]) {
    const program = await Program.start(code, "input");
    program.link.send({ type: "credit", messages: 10 });
    await messages(program, 1);
    program.link.send({ type: "fates", numbers: [1], fates: ["delivered"] });
    const [{ type, error }] = await program.next();
    assert.deepEqual([type, error.text], ["error", "Error: gone"]);
    assert.equal(await program.exited, 1);
  }
});

test("the generator is closed", async () => {
  for (const how of ["drain", "close", "SIGTERM"]) {
    const program = await Program.start(`flowd.input(class {
      async *process({ signal }) {
        try {
          for (;;) {
            yield 1;
            await sleep(1, undefined, { signal });
          }
        } finally {
          console.error("closed");
          await sleep(5);
          process.exitCode = 7;
          process.on("exit", () => process.exit(7));
        }
      }
    })`, "input");
    program.link.send({ type: "credit", messages: 2 });
    await messages(program, 2);
    if (how === "SIGTERM") program.child.kill(how);
    if (how === "drain") {
      program.link.send({ type: "drain", timeout: 5 });
      assert.deepEqual((await program.next())[0], { type: "end" });
    }
    assert.equal(how === "SIGTERM" ? await program.exited : await program.close(), 7, how);
  }
});

function cli(code, args, stdin) {
  return new Promise((resolve) => {
    const command = [fileURLToPath(new URL("../cli.js", import.meta.url)), ...args, write(code)];
    const child = execFile(process.execPath, command, (error, out, err) => resolve([error?.code ?? 0, out, err]));
    child.stdin.end(stdin);
  });
}

test("flowd-test runs a step", async () => {
  const code = 'console.log("noise"); flowd.step((msg) => (msg.doc ? [msg.doc * 2, msg.meta.m.n] : flowd.DROP))';
  assert.deepEqual((await cli(code, ["--meta", '{"m":{"n":1}}'], "2\n0\n3\n")).slice(0, 2), [0, "4\n1\n6\n1\n"]);
  const [status, out, err] = await cli(code, ["--batch", "1"], '1\n2\n"x\n');
  assert.deepEqual([status, out], [1, ""]);
  assert.match(err, /line 2: permanent: TypeError/);
  assert.match(err, /line 3: decode: payload is not valid JSON/);
});

test("flowd-test runs an input, and says what is wrong", async () => {
  const code = "flowd.input(function* ({ config }) { for (let i = 0; i < config; i++) yield i; })";
  assert.deepEqual(await cli(code, ["--kind", "input", "--config", "3"]), [0, "0\n1\n2\n", ""]);
  assert.deepEqual((await cli(code, ["--kind", "input", "--config", "3", "--limit", "2"])).slice(0, 2), [0, "0\n1\n"]);
  assert.match((await cli(code, []))[2], /it has input/);
  assert.match((await cli("throw new Error('x')", []))[2], /has ended with status 1/);
});
