package abuse

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/mqtttest"
	"github.com/flowd-io/flowd/test/flowdtest"
)

// welcome takes a client without a session.
const welcome = "\x20\x03\x00\x00\x00"

// mqttBreaks are what no server says, upon a word of the client and after a beginning.
func mqttBreaks(word, begin string) []ill {
	return []ill{
		uponSays(word, "a packet of 256 MiB", begin+"\x30\xff\xff\xff\x7f"),
		uponSays(word, "a length that does not end", begin+"\x30\xff\xff\xff\xff\xff"),
		uponSays(word, "half a packet", begin+"\x30\x7f\x00\x05ab"),
		uponSays(word, "a topic beyond its packet", begin+"\x30\x04\xff\xffab"),
		uponSays(word, "properties beyond their packet", begin+"\x30\x08\x00\x01a\xff\xff\xff\x7fb"),
		uponSays(word, "a property that there is not", begin+"\x30\x06\x00\x01a\x01\xeeb"),
		uponSays(word, "a message with QoS 3", begin+"\x36\x07\x00\x01a\x00\x01\x00b"),
		uponSays(word, "an answer to nothing", begin+"\x40\x02\xff\xff"),
		uponSays(word, "a second welcome", begin+"\x20\x03\x00\x00\x00"),
		uponSays(word, "a question of a client", begin+"\xc0\x00"),
		uponSays(word, "100,000 properties", begin+"\x30\x87\xb5\x18\x00\x01a\x80\xb5\x18"+strings.Repeat("\x26\x00\x00\x00", 100_000)+"b"),
		uponFloods(word, "answers to pings without end", begin, "\xd0\x00"),
		uponFloods(word, "answers without end", begin, "\x40\x02\xff\xfe"),
		works(mostGrowth, uponFloods(word, "messages that nobody has asked for", begin, "\x30\x05\x00\x01a\x00b")),
		uponFloods(word, "a packet without end", begin+"\x30\xff\xff\xff\x7f", "a"),
	}
}

func mqtts(t *testing.T) {
	s := mqtttest.Shared(t)
	name := mqtttest.Name()
	c := s.Client(t)
	c.Subscribe(t, name+"/out", 1)
	survives(t, uses{
		config: fmt.Sprintf(`
inputs: {in: {mqtt: {url: "mqtt://ADDR", topics: %[1]s/in, client_id: %[1]s-in, session_expiry: 1h, max_packet: 1MiB, timeout: 1s}}}
outputs: {out: {mqtt: {url: "mqtt://ADDR", topic: %[1]s/out, client_id: %[1]s-out, timeout: 1s}, %[2]s}}
`, name, writes),
		good: s.Address(),
		send: func(_ *flowdtest.Process, id string) { c.Publish(t, name+"/in", 1, id) },
		arrives: func(p *flowdtest.Process, id string) {
			for late := time.After(flowdtest.Deadline); ; {
				select {
				case m := <-c.Came():
					if string(m.Payload) == id {
						return
					}
				case <-time.After(time.Second):
					gone(p)
					c.Publish(t, name+"/in", 1, id) // the first may have come before there was a session that keeps it
				case <-late:
					t.Fatalf("%s does not arrive\n%s", id, p.Stderr.Text())
				}
			}
		},
	}, slices.Concat(anything()[1:9], // a client that is sent away again and again waits, as there may be another of its name
		mqttBreaks(name+"-in", welcome), mqttBreaks(name+"/out", ""))...)
}
