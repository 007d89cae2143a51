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

// natsBreaks are invalid responses to a command that contains word.
func natsBreaks(word string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "a message of 4,611,686,018,427,387,904 bytes", "MSG a 1 4611686018427387904\r\n"),
		onRequestSend(word, "headers of 4,611,686,018,427,387,904 bytes", "HMSG a 1 4611686018427387904 4611686018427387904\r\n"),
		onRequestSend(word, "half a message", "MSG a 1 1000000\r\nabc"),
		onRequestSend(word, "more headers than message", "HMSG a 1 12 5\r\nNATS/1.0\r\n\r\n"),
		onRequestSend(word, "a negative length", "MSG a 1 -5\r\n"),
		onRequestSend(word, "a million headers", "HMSG a 1 999994 1000000\r\nNATS/1.0\r\n"+strings.Repeat("a:\r\n", 249_996)+"\r\n012345\r\n"),
		onRequestSend(word, "a maximum payload of 2^63 bytes", `INFO {"max_payload":9223372036854775807}`+"\r\nMSG a 1 9223372036854775807\r\n"),
		onRequestSend(word, "a deeply nested INFO", "INFO "+strings.Repeat("[", 100_000)+"\r\n"),
		onRequestSend(word, "a thousand more servers",
			`INFO {"connect_urls":["`+strings.Repeat(`127.0.0.1:1","`, 999)+`127.0.0.1:1"]}`+"\r\n-ERR 'x'\r\n"),
		onRequestFlood(word, "endless PINGs", "", "PING\r\n"),
		onRequestFlood(word, "endless PONGs", "", "PONG\r\n"),
		onRequestFlood(word, "endless errors", "", "-ERR 'a \x1b]0;x\x07'\r\n"),
		onRequestFlood(word, "an endless subject", "MSG ", "a"),
		onRequestFlood(word, "an endless message", "MSG a 1 900000000\r\n", "a"),
		onRequestFlood(word, "an endless INFO", "INFO {", "a"),
		// The client queues up to 500,000 messages of a subscription. This attack comes last, as it keeps that memory for a while.
		allowMemory(512<<10, onRequest(word, "many unsolicited messages", func(c net.Conn) {
			sendRepeatedly(c, 10<<20, "", "MSG a 1 5\r\nhello\r\n")
		})),
	}
}

func natsInput(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in"}})
	survivesAttacks(t, client{
		config: `
inputs: {in: {nats: {url: "nats://ADDR", stream: IN, consumer: c, timeout: 1s, declare: {consumer: {ack_wait: 1s}}}}}
outputs: {out: {stdout: {}}}
`,
		good:    hostOf(s.URL),
		send:    func(p *flowdtest.Process, id string) { s.Send(t, "in", id) },
		arrives: waitForLine,
	}, slices.Concat(genericAttacks(), natsBreaks("PUB $JS.API.CONSUMER.MSG.NEXT"))...)
}

func natsOutput(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out"}})
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
resources: {caches: {c: {nats_kv: {url: "nats://ADDR", bucket: b, create: true, timeout: 1s}}}}
processors: [{cache: {set: c, key: 'string(this)', value: '"1"'}, ` + retryForever + `}]
outputs: {out: {nats: {url: "nats://ADDR", stream: OUT, subject: out, timeout: 1s}, ` + retryWrites + `}}
`,
		good: hostOf(s.URL),
		send: func(p *flowdtest.Process, id string) { p.Send(fmt.Sprintf("%q\n", id)) },
		arrives: func(p *flowdtest.Process, id string) {
			waitFor(p, id, func() bool { return slices.Contains(s.Payloads(t, "OUT"), fmt.Sprintf("%q", id)) })
		},
	}, slices.Concat(genericAttacks(), natsBreaks("PUB out"))...)
}
