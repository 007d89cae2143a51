import { setTimeout } from "node:timers/promises";
import * as flowd from "../../../../sdk/node/index.js";

flowd.step(async (msg) => {
  await setTimeout(1);
  msg.doc.size = msg.doc.text.length;
  msg.meta.measured = true;
});

flowd.output(async (msg) => {
  await setTimeout(1);
  if (!msg.doc.text) throw new Error("no text");
});

flowd.input(async function* ({ position }) {
  for (let n = (position ?? 0) + 1; ; n++) yield new flowd.Message({ n }, { position: n });
});
