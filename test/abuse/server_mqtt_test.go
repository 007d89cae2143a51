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

// welcome is a CONNACK that accepts a client, without a session.
const welcome = "\x20\x03\x00\x00\x00"

// mqttBreaks are invalid responses to a packet that contains word. Each starts with begin.
func mqttBreaks(word, begin string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "a packet of 256 MiB", begin+"\x30\xff\xff\xff\x7f"),
		onRequestSend(word, "an endless length", begin+"\x30\xff\xff\xff\xff\xff"),
		onRequestSend(word, "half a packet", begin+"\x30\x7f\x00\x05ab"),
		onRequestSend(word, "a topic longer than its packet", begin+"\x30\x04\xff\xffab"),
		onRequestSend(word, "properties longer than their packet", begin+"\x30\x08\x00\x01a\xff\xff\xff\x7fb"),
		onRequestSend(word, "an unknown property", begin+"\x30\x06\x00\x01a\x01\xeeb"),
		onRequestSend(word, "a message with QoS 3", begin+"\x36\x07\x00\x01a\x00\x01\x00b"),
		onRequestSend(word, "an unexpected PUBACK", begin+"\x40\x02\xff\xff"),
		onRequestSend(word, "a second CONNACK", begin+"\x20\x03\x00\x00\x00"),
		onRequestSend(word, "a PINGREQ, which only clients send", begin+"\xc0\x00"),
		onRequestSend(word, "100,000 properties", begin+"\x30\x87\xb5\x18\x00\x01a\x80\xb5\x18"+strings.Repeat("\x26\x00\x00\x00", 100_000)+"b"),
		onRequestFlood(word, "endless PINGRESPs", begin, "\xd0\x00"),
		onRequestFlood(word, "endless PUBACKs", begin, "\x40\x02\xff\xfe"),
		allowMemory(mostGrowth, onRequestFlood(word, "endless unsolicited messages", begin, "\x30\x05\x00\x01a\x00b")),
		onRequestFlood(word, "an endless packet", begin+"\x30\xff\xff\xff\x7f", "a"),
	}
}

func mqttServer(t *testing.T) {
	s := mqtttest.Shared(t)
	name := mqtttest.Name()
	c := s.Client(t)
	c.Subscribe(t, name+"/out", 1)
	survivesAttacks(t, client{
		config: fmt.Sprintf(`
inputs: {in: {mqtt: {url: "mqtt://ADDR", topics: %[1]s/in, client_id: %[1]s-in, session_expiry: 1h, max_packet: 1MiB, timeout: 1s}}}
outputs: {out: {mqtt: {url: "mqtt://ADDR", topic: %[1]s/out, client_id: %[1]s-out, timeout: 1s}, %[2]s}}
`, name, retryWrites),
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
					failIfExited(p)
					c.Publish(t, name+"/in", 1, id) // the first may have been sent before the session existed
				case <-late:
					t.Fatalf("message %s does not arrive\n%s", id, p.Stderr.Text())
				}
			}
		},
	}, slices.Concat(genericAttacks()[1:9], // without the rest, after which the client waits: another may use its id
		mqttBreaks(name+"-in", welcome), mqttBreaks(name+"/out", ""))...)
}
