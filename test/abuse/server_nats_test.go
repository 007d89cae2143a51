package abuse

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/flowd-io/flowd/test/flowdtest"
	"github.com/nats-io/nats.go/jetstream"
)

// natsBreaks are what no server says, upon a word of the client.
func natsBreaks(word string) []ill {
	return []ill{
		uponSays(word, "a message of 4,611,686,018,427,387,904 bytes", "MSG a 1 4611686018427387904\r\n"),
		uponSays(word, "headers of 4,611,686,018,427,387,904 bytes", "HMSG a 1 4611686018427387904 4611686018427387904\r\n"),
		uponSays(word, "half a message", "MSG a 1 1000000\r\nabc"),
		uponSays(word, "more headers than message", "HMSG a 1 12 5\r\nNATS/1.0\r\n\r\n"),
		uponSays(word, "a negative length", "MSG a 1 -5\r\n"),
		uponSays(word, "a million headers", "HMSG a 1 999994 1000000\r\nNATS/1.0\r\n"+strings.Repeat("a:\r\n", 249_996)+"\r\n012345\r\n"),
		uponSays(word, "a larger server than there is", `INFO {"max_payload":9223372036854775807}`+"\r\nMSG a 1 9223372036854775807\r\n"),
		uponSays(word, "an INFO that is deep", "INFO "+strings.Repeat("[", 100_000)+"\r\n"),
		uponSays(word, "a thousand servers more",
			`INFO {"connect_urls":["`+strings.Repeat(`127.0.0.1:1","`, 999)+`127.0.0.1:1"]}`+"\r\n-ERR 'x'\r\n"),
		uponFloods(word, "questions without end", "", "PING\r\n"),
		uponFloods(word, "answers without end", "", "PONG\r\n"),
		uponFloods(word, "errors without end", "", "-ERR 'a \x1b]0;x\x07'\r\n"),
		uponFloods(word, "a subject without end", "MSG ", "a"),
		uponFloods(word, "a message without end", "MSG a 1 900000000\r\n", "a"),
		uponFloods(word, "an INFO without end", "INFO {", "a"),
		// The client queues up to 500,000 messages of a subscription, which these are; it is the last, as that memory stays for a while.
		works(512<<10, upon(word, "messages that nobody has asked for", func(c net.Conn) {
			floodOf(c, 10<<20, "", "MSG a 1 5\r\nhello\r\n")
		})),
	}
}

func natsInput(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in"}})
	survives(t, uses{
		config: `
inputs: {in: {nats: {url: "nats://ADDR", stream: IN, consumer: c, timeout: 1s, declare: {consumer: {ack_wait: 1s}}}}}
outputs: {out: {stdout: {}}}
`,
		good:    hostOf(s.URL),
		send:    func(p *flowdtest.Process, id string) { s.Send(t, "in", id) },
		arrives: prints,
	}, slices.Concat(anything(), natsBreaks("PUB $JS.API.CONSUMER.MSG.NEXT"))...)
}

func natsOutput(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out"}})
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
resources: {caches: {c: {nats_kv: {url: "nats://ADDR", bucket: b, create: true, timeout: 1s}}}}
processors: [{cache: {set: c, key: 'string(this)', value: '"1"'}, ` + tryAgain + `}]
outputs: {out: {nats: {url: "nats://ADDR", stream: OUT, subject: out, timeout: 1s}, ` + writes + `}}
`,
		good: hostOf(s.URL),
		send: func(p *flowdtest.Process, id string) { p.Send(fmt.Sprintf("%q\n", id)) },
		arrives: func(p *flowdtest.Process, id string) {
			until(p, id, func() bool { return slices.Contains(s.Payloads(t, "OUT"), fmt.Sprintf("%q", id)) })
		},
	}, slices.Concat(anything(), natsBreaks("PUB out"))...)
}
