import * as flowd from "../../../../sdk/node/index.js";

flowd.step((msgs) => {
  for (const msg of msgs) msg.doc.size = msg.doc.text.length;
}, { batch: true });

flowd.output((msgs) => {
  for (const msg of msgs) if (!msg.doc.text) throw new Error("no text");
}, { batch: true });

flowd.input(function* ({ position }) {
  const all = [];
  for (let n = (position ?? 0) + 1; n < 3000; n++) all.push(new flowd.Message({ n }, { position: n }));
  yield all;
});
