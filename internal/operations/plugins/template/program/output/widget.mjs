import { open } from "node:fs/promises";
import * as flowd from "flowd-sdk";

let file;

flowd.setup(async (config) => { // called once: open a file, or connect to a database
  file = await open(config.path, "a");
});

flowd.output(async (msgs) => {
  const line = Buffer.from("\n");
  await file.appendFile(Buffer.concat(msgs.flatMap((msg) => [msg.payload, line])));
}, { batch: true });
