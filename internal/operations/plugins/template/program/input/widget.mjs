import * as flowd from "flowd-sdk";

flowd.input(function* ({ config, position }) {
  for (let n = (position ?? 0) + 1; n <= config.to; n++) {
    yield new flowd.Message({ n }, { position: n });
  }
});
