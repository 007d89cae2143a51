package abuse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/test/flowdtest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bodies is where the answers begin that are whole, and wrong in their bodies: the others are the same for all kinds.
const bodies = 6

// kafkaBreaks are answers that no broker gives, to requests of a kind.
func kafkaBreaks(kind uint16, name string) (all []ill) {
	const notNow = "\x00\x00\x00\x00\x00\x00\x00\x00" // otherwise it may be for how long to wait: a client does
	length := func(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
	for _, a := range []struct {
		name   string
		answer func(id string) string // to a request of an id
		flood  bool
	}{
		{"an answer of 2 GiB", func(id string) string { return length(1<<31-1) + id }, false},
		{"an answer of a negative length", func(id string) string { return length(1<<32-1) + id }, false},
		{"half an answer", func(id string) string { return length(1000) + id + "abc" }, false},
		{"an answer of nothing", func(string) string { return length(0) }, false},
		{"an answer without a body", func(id string) string { return length(4) + id }, false},
		{"an answer to another request", func(string) string { return length(8) + "\x7f\xff\xff\xffabcd" }, false},
		{"the largest counts", func(id string) string { return length(68) + id + strings.Repeat("\x7f", 64) }, false},
		{"counts of -1", func(id string) string { return length(68) + id + strings.Repeat("\xff", 64) }, false},
		{"many of everything", func(id string) string { return length(12+1<<20) + id + notNow + strings.Repeat("\x01", 1<<20) }, false},
		{"zeros", func(id string) string { return length(4+1<<20) + id + strings.Repeat("\x00", 1<<20) }, false},
		{"an answer without end", func(id string) string { return length(1<<30) + id }, true},
	} {
		all = append(all, ill{name: a.name + ", upon " + name, does: func(c net.Conn, s *standin, _ int) {
			relay(c, s, nil, func(p []byte) bool {
				if len(p) < 12 || binary.BigEndian.Uint16(p[4:]) != kind {
					return true
				}
				if answer := a.answer(string(p[8:12])); a.flood {
					flood(c, answer, "x")
				} else {
					tell(c, answer)
				}
				return false
			})
		}})
	}
	return all
}

func kafkas(t *testing.T) {
	k := kafkatest.Start(t)
	in, out := k.Topic(t, 1), k.Topic(t, 1)
	good := k.Brokers
	port := func(address string) []byte {
		_, p, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(p)
		return binary.BigEndian.AppendUint32(nil, uint32(n))
	}
	survives(t, uses{
		config: fmt.Sprintf(`
inputs: {in: {kafka: {brokers: ADDR, topics: [%[1]s], group: g, timeout: 1s, commit_interval: 10ms}}}
outputs: {out: {kafka: {brokers: ADDR, topic: %[2]s, timeout: 1s}, %[3]s}}
`, in, out, writes),
		good: good,
		rewrite: func(p []byte, to string) { // clients go where a broker says that it is
			copy(p, bytes.ReplaceAll(p, port(good), port(to)))
		},
		send: func(p *flowdtest.Process, id string) {
			k.Send(t, &kgo.Record{Topic: in, Value: []byte(id)})
		},
		arrives: func(p *flowdtest.Process, id string) {
			until(p, id, func() bool {
				return slices.ContainsFunc(k.Read(t, out), func(r *kgo.Record) bool { return string(r.Value) == id })
			})
		},
	}, slices.Concat(anything(), kafkaBreaks(18, "ApiVersions"), kafkaBreaks(3, "Metadata")[bodies:],
		kafkaBreaks(1, "Fetch")[bodies:], kafkaBreaks(0, "Produce")[bodies:])...)
}
