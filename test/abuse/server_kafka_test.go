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

// firstBodyAttack is the index of the first attack with a complete response that has an invalid body. Earlier ones do not
// depend on the kind of the request.
const firstBodyAttack = 6

// kafkaBreaks are invalid responses to requests of a kind.
func kafkaBreaks(kind uint16, name string) (all []serverAttack) {
	const notNow = "\x00\x00\x00\x00\x00\x00\x00\x00" // other bytes may be a throttle time, which the client obeys
	length := func(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }
	for _, a := range []struct {
		name   string
		answer func(id string) string // response to the request with this correlation id
		flood  bool
	}{
		{"a response of 2 GiB", func(id string) string { return length(1<<31-1) + id }, false},
		{"a response of a negative length", func(id string) string { return length(1<<32-1) + id }, false},
		{"half a response", func(id string) string { return length(1000) + id + "abc" }, false},
		{"an empty response", func(string) string { return length(0) }, false},
		{"a response without a body", func(id string) string { return length(4) + id }, false},
		{"a response to another request", func(string) string { return length(8) + "\x7f\xff\xff\xffabcd" }, false},
		{"the largest counts", func(id string) string { return length(68) + id + strings.Repeat("\x7f", 64) }, false},
		{"counts of -1", func(id string) string { return length(68) + id + strings.Repeat("\xff", 64) }, false},
		{"a megabyte of ones", func(id string) string { return length(12+1<<20) + id + notNow + strings.Repeat("\x01", 1<<20) }, false},
		{"a megabyte of zeros", func(id string) string { return length(4+1<<20) + id + strings.Repeat("\x00", 1<<20) }, false},
		{"an endless response", func(id string) string { return length(1<<30) + id }, true},
	} {
		all = append(all, serverAttack{name: a.name + ", to " + name, run: func(c net.Conn, s *standin, _ int) {
			relay(c, s, nil, func(p []byte) bool {
				if len(p) < 12 || binary.BigEndian.Uint16(p[4:]) != kind {
					return true
				}
				if answer := a.answer(string(p[8:12])); a.flood {
					sendForever(c, answer, "x")
				} else {
					sendAndDrain(c, answer)
				}
				return false
			})
		}})
	}
	return all
}

func kafkaServer(t *testing.T) {
	k := kafkatest.Start(t)
	in, out := k.Topic(t, 1), k.Topic(t, 1)
	good := k.Brokers
	port := func(address string) []byte {
		_, p, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(p)
		return binary.BigEndian.AppendUint32(nil, uint32(n))
	}
	survivesAttacks(t, client{
		config: fmt.Sprintf(`
inputs: {in: {kafka: {brokers: ADDR, topics: [%[1]s], group: g, timeout: 1s, commit_interval: 10ms}}}
outputs: {out: {kafka: {brokers: ADDR, topic: %[2]s, timeout: 1s}, %[3]s}}
`, in, out, retryWrites),
		good: good,
		rewrite: func(p []byte, to string) { // clients connect to the addresses that a broker advertises
			copy(p, bytes.ReplaceAll(p, port(good), port(to)))
		},
		send: func(p *flowdtest.Process, id string) {
			k.Send(t, &kgo.Record{Topic: in, Value: []byte(id)})
		},
		arrives: func(p *flowdtest.Process, id string) {
			waitFor(p, id, func() bool {
				return slices.ContainsFunc(k.Read(t, out), func(r *kgo.Record) bool { return string(r.Value) == id })
			})
		},
	}, slices.Concat(genericAttacks(), kafkaBreaks(18, "ApiVersions"), kafkaBreaks(3, "Metadata")[firstBodyAttack:],
		kafkaBreaks(1, "Fetch")[firstBodyAttack:], kafkaBreaks(0, "Produce")[firstBodyAttack:])...)
}
