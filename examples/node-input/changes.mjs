// Follows a feed of changes. Each page of the feed has only the ids of documents: they are fetched ten at a time.
import { setTimeout as sleep } from "node:timers/promises";
import * as flowd from "../../sdk/node/index.js"; // or "flowd-sdk", after npm install flowd-sdk

const AT_ONCE = 10;

async function get(api, path, signal) {
  const response = await fetch(new URL(path, api), { signal });
  if (response.ok) return response.json();
  throw new flowd.MessageError(`${path}: status ${response.status}`, { kind: "transient" });
}

flowd.input(async function* ({ config, position, signal }) {
  let since = position ?? 0; // the number of the last change that flowd has delivered
  for (;;) {
    const changes = await get(config.api, `/changes?since=${since}&limit=100`, signal);
    for (let i = 0; i < changes.length; i += AT_ONCE) {
      yield await Promise.all(changes.slice(i, i + AT_ONCE).map(async ({ seq, id }) => {
        const document = await get(config.api, `/documents/${encodeURIComponent(id)}`, signal);
        return new flowd.Message(document, { meta: { id }, position: seq });
      }));
    }
    since = changes.at(-1)?.seq ?? since;
    flowd.state(true); // the feed is alive, even if it has nothing new
    if (changes.length === 0) await sleep(config.interval * 1000, undefined, { signal });
  }
});
