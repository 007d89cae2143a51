import * as flowd from "flowd-sdk";

let field;

flowd.setup((config) => { // called once: load a model, or connect to a database
  field = config.field;
});

flowd.step((msg) => {
  msg.doc.length = msg.doc[field].length;
});
