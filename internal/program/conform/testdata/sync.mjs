import * as flowd from "../../../../sdk/node/index.js";

console.log("prints do no harm");

flowd.step((msg) => {
  console.log("measure");
  msg.doc.size = msg.doc.text.length;
  msg.meta.measured = true;
});

flowd.output((msg) => {
  flowd.log.debug("write", { text: msg.doc.text.slice(0, 10) });
});

flowd.input(function* ({ position }) {
  for (let n = (position ?? 0) + 1; ; n++) yield new flowd.Message({ n }, { position: n });
});

flowd.settled((msg, fate) => flowd.metric.count("settled_total", 1, { fate }));
