// Package group is the processor `group`: it runs batch steps on many messages at once, before they are routed. The
// engine does the work; see [engine.Group].
package group

import (
	"errors"

	"github.com/flowd-io/flowd/engine"
)

const doc = `
Collects messages until there are size of them, bytes of payload, or timeout has passed
since the first, then runs steps once over all of them. With at_once, it does not wait, and
takes what has arrived when a worker is free, up to size: for lookups of many keys in one
request, which must not delay a single message. The results continue after the
group: edited, filtered, merged or split. A group also closes at the end of the input
or of a drain, and early when the pipeline runs out of room (engine.max_in_flight).
It belongs under the pipeline's own processors.

    processors:
      - group:
          size: 100
          timeout: 500ms
          do:
            - archive: json_array
      - group:
          size: 100
          at_once: true
          do:
            - http: {url: "http://127.0.0.1:8080/prices", body: "map(messages(), .sku)"}
`

func init() {
	engine.Register(engine.Processors, "group", doc, engine.GroupConfig{}, build)
}

func build(c engine.GroupConfig, _ engine.Env) (engine.Processor, error) {
	switch {
	case c.AtOnce && c.Timeout > 0:
		return nil, errors.New("at_once does not wait, so timeout has no effect (remove one of them)")
	case c.Size == 0 && c.Bytes == 0 && c.Timeout == 0:
		return nil, errors.New("a group needs a limit at which it is complete (set `size`, `bytes` or `timeout`)")
	}
	return engine.Block{Group: &c}, nil
}
