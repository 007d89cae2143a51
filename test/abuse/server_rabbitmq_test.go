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

// amqpFrame is a frame on a channel.
func amqpFrame(kind byte, channel uint16, payload string) string {
	head := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	return string(binary.BigEndian.AppendUint32(head, uint32(len(payload)))) + payload + "\xce"
}

// amqpContent is the header of a content of so many bytes, with so many nested tables.
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

// amqpBreaks are what no broker says to somebody who has a channel, upon a method of the client.
func amqpBreaks(method, name string) (all []ill) {
	word := method[:4]
	tag := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
	deliver := func(n uint64, rest string) string {
		return amqpFrame(1, 1, "\x00\x3c\x00\x3c\x05flowd"+tag(n)+"\x00\x00\x00") + rest
	}
	for _, i := range []ill{
		uponSays(word, "a frame of 4 GiB", "\x03\x00\x01\xff\xff\xff\xff"),
		uponSays(word, "half a frame", "\x01\x00\x01\x00\x00\x10\x00abc"),
		uponSays(word, "a frame without an end", "\x08\x00\x00\x00\x00\x00\x00\x00"),
		uponSays(word, "a message of 16 EiB", deliver(1, amqpContent(1<<64-1, 0))),
		uponSays(word, "a table in a table", deliver(1, amqpContent(5, 9000))),
		uponSays(word, "a method that there is not", amqpFrame(1, 1, "\xff\xff\xff\xff")),
		uponSays(word, "a channel that there is not", amqpFrame(1, 65535, "\x00\x3c\x00\x3c")),
		uponSays(word, "a body of nothing", amqpFrame(3, 1, "abc")),
		uponFloods(word, "heartbeats without end", "", amqpFrame(8, 0, "")),
		uponFloods(word, "messages that nobody has asked for", "", deliver(1, amqpContent(0, 0))),
		uponFloods(word, "a frame without end", "\x01\x00\x01\x7f\xff\xff\xff", "a"),
		uponFloods(word, "an answer to something else without end", "", amqpFrame(1, 1, "\x00\x3c\x00\x0b")),
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
	survives(t, uses{
		config: fmt.Sprintf(`
inputs: {in: {rabbitmq: {url: %[1]q, queue: %[2]q, prefetch: 50, consume: {tag: flowd}}}}
outputs: {out: {rabbitmq: {url: %[1]q, routing_key: %[3]q}, timeout: 2s, %[4]s}}
`, url, in, out, writes),
		good: hostOf(b.URL),
		send: func(p *flowdtest.Process, id string) { b.Send(t, in, id) },
		arrives: func(p *flowdtest.Process, id string) {
			for !slices.Contains(brokertest.Bodies(b.Take(t, out, 1)), id) { // others come again
				gone(p)
			}
		},
	}, slices.Concat(anything(), amqpBreaks(basicConsume, "consume"), amqpBreaks(basicPublish, "publish"))...)
}
