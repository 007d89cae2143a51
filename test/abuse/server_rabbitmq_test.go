package abuse

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
	"github.com/flowd-io/flowd/test/flowdtest"
)

// amqpFrame encodes a frame.
func amqpFrame(kind byte, channel uint16, payload string) string {
	head := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	return string(binary.BigEndian.AppendUint32(head, uint32(len(payload)))) + payload + "\xce"
}

// amqpContent encodes the header of a message of size bytes, with nested tables up to the given depth.
func amqpContent(size uint64, nested int) string {
	text := string(binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, size))
	table := ""
	for range nested {
		table = string(binary.BigEndian.AppendUint32(nil, uint32(len(table)))) + table
		table = "\x01aF" + table
	}
	if nested > 0 {
		return amqpFrame(2, 1, text+"\x20\x00"+string(binary.BigEndian.AppendUint32(nil, uint32(len(table))))+table)
	}
	return amqpFrame(2, 1, text+"\x00\x00")
}

// amqpBreaks are invalid responses to a method, on a channel that is open.
func amqpBreaks(method, name string) (all []serverAttack) {
	word := method[:4]
	tag := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
	deliver := func(n uint64, rest string) string {
		return amqpFrame(1, 1, "\x00\x3c\x00\x3c\x05flowd"+tag(n)+"\x00\x00\x00") + rest
	}
	for _, i := range []serverAttack{
		onRequestSend(word, "a frame of 4 GiB", "\x03\x00\x01\xff\xff\xff\xff"),
		onRequestSend(word, "half a frame", "\x01\x00\x01\x00\x00\x10\x00abc"),
		onRequestSend(word, "a frame without its end byte", "\x08\x00\x00\x00\x00\x00\x00\x00"),
		onRequestSend(word, "a message of 16 EiB", deliver(1, amqpContent(1<<64-1, 0))),
		onRequestSend(word, "9,000 nested tables", deliver(1, amqpContent(5, 9000))),
		onRequestSend(word, "an unknown method", amqpFrame(1, 1, "\xff\xff\xff\xff")),
		onRequestSend(word, "a channel that does not exist", amqpFrame(1, 65535, "\x00\x3c\x00\x3c")),
		onRequestSend(word, "a body without a message", amqpFrame(3, 1, "abc")),
		onRequestFlood(word, "endless heartbeats", "", amqpFrame(8, 0, "")),
		onRequestFlood(word, "endless unsolicited messages", "", deliver(1, amqpContent(0, 0))),
		onRequestFlood(word, "an endless frame", "\x01\x00\x01\x7f\xff\xff\xff", "a"),
		onRequestFlood(word, "endless responses to another method", "", amqpFrame(1, 1, "\x00\x3c\x00\x0b")),
	} {
		i.name = strings.Replace(i.name, word, name, 1)
		all = append(all, i)
	}
	return all
}

const (
	basicConsume = "\x00\x3c\x00\x14"
	basicPublish = "\x00\x3c\x00\x28"
)

func rabbitMQ(t *testing.T) {
	b := brokertest.RabbitMQ(t)
	in, out := b.Queue(t, nil), b.Queue(t, nil)
	url := strings.Replace(b.URL, hostOf(b.URL), "ADDR", 1)
	survivesAttacks(t, client{
		config: fmt.Sprintf(`
inputs: {in: {rabbitmq: {url: %[1]q, queue: %[2]q, prefetch: 50, consume: {tag: flowd}}}}
outputs: {out: {rabbitmq: {url: %[1]q, routing_key: %[3]q}, timeout: 2s, %[4]s}}
`, url, in, out, retryWrites),
		good: hostOf(b.URL),
		send: func(p *flowdtest.Process, id string) { b.Send(t, in, id) },
		arrives: func(p *flowdtest.Process, id string) {
			for !slices.Contains(brokertest.Bodies(b.Take(t, out, 1)), id) { // earlier messages may be redelivered
				failIfExited(p)
			}
		},
	}, slices.Concat(genericAttacks(), amqpBreaks(basicConsume, "consume"), amqpBreaks(basicPublish, "publish"))...)
}
