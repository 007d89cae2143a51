// Package sources has the functions whose values do not come from the message: IDs, random numbers, made-up data, the name of
// the machine.
package sources

import (
	crypto "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowd-io/flowd/engine/expr/internal/fake"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
	"github.com/flowd-io/flowd/schema"
)

var (
	_ = lang.Role("node", value.Int, func(s *lang.Site, v any) any {
		if n, ok := v.(int); ok {
			return checkNode(s, n)
		}
		return nil
	})
	_ = lang.Role("fake_kind", value.Text, func(s *lang.Site, v any) any { return fakeOf(s, v.(string)) })
)

// Declare declares the functions whose values do not come from the message.
func Declare() {
	sources.Declare("sources", false)
	lang.Lookup("fake").Scope = "generate"
}

var sources = lang.Builtins{
	{"uuid() text",
		"A random UUID, version 4.",
		`len(uuid()) → 36`,
		func(f *lang.Frame, _ *lang.Site, _ []any) any {
			var u [16]byte
			fillRandom(f, u[:])
			return uuidText(u, 4)
		}},
	{"uuid_v7() text",
		"A UUID, version 7: it begins with the time, to the microsecond, so that IDs sort by age.",
		`uuid_v7()[14:15] → "7"`,
		func(f *lang.Frame, _ *lang.Site, _ []any) any { return uuidText(uuidV7(f, lang.Now()), 7) }},
	{"ulid() text",
		"A ULID: 26 letters and digits, of which the first ten are the time in milliseconds.",
		`len(ulid()) → 26`,
		func(f *lang.Frame, _ *lang.Site, _ []any) any {
			var id [16]byte
			binary.BigEndian.PutUint64(id[:], uint64(lang.Now().UnixMilli())<<16)
			fillRandom(f, id[6:])
			return ulidText(id)
		}},
	{"ksuid() text",
		"A KSUID: 27 letters and digits, which begin with the time in seconds.",
		`len(ksuid()) → 27`,
		func(f *lang.Frame, _ *lang.Site, _ []any) any {
			var id [20]byte
			binary.BigEndian.PutUint32(id[:], uint32(max(lang.Now().Unix()-ksuidEpoch, 0)))
			fillRandom(f, id[4:])
			return ksuidText(id)
		}},
	{"snowflake(node) int",
		"A Snowflake ID, like Twitter's: the time in milliseconds, then the number of the node, 0 to 1023, then a count. IDs of one process " +
			"increase; two processes must not have the same number.",
		`snowflake(7) < snowflake(7) → true
snowflake(1024) → error: snowflake(): number 1024 is not a node between 0 and 1023`,
		func(_ *lang.Frame, s *lang.Site, args []any) any { return snowflake(lang.Now(), nodeOf(s, args[0])) }},
	{"random() float",
		"A number from 0 up to, but not including, 1.",
		`random() < 1 → true`,
		func(f *lang.Frame, _ *lang.Site, _ []any) any { return randomOf(f).Float64() }},
	{"random_int(int, int) int",
		"A whole number from the first to the second, inclusive.",
		`random_int(3, 3) → 3
random_int(2, 1) → error: random_int(): there is no whole number from 2 to 1 (write the smaller first)`,
		randomInt},
	{"fake(fake_kind) text|number|bool",
		"A made-up value of a kind, such as name, email, city, product, price, ipv4, url, user_agent, http_status, iban or sentence. An " +
			"unknown kind fails the message. With the same seed, the values are the same.",
		`fake("country_code") matches "^[A-Z][A-Z]$" → true
fake("emial") → error: fake(): there is no kind "emial" (did you mean "email"?)`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			make, ok := s.Prepared(0).(func(*rand.Rand) any)
			if !ok {
				make = fakeOf(s, args[0].(string))
			}
			return make(randomOf(f))
		}},
	{"hostname() text",
		"The name of the machine.",
		`len(hostname()) > 0 → true`,
		func(_ *lang.Frame, s *lang.Site, _ []any) any {
			name, err := hostname()
			if err != nil {
				s.Fail("hostname(): %s", err)
			}
			return name
		}},
}

// fakeOf is the function that makes values of a kind.
func fakeOf(s *lang.Site, kind string) func(*rand.Rand) any {
	make, ok := fake.Of(kind)
	if !ok {
		s.FailWith(schema.Suggest(kind, fake.Kinds(), ""), "%s(): there is no kind %s", s.Name,
			strings.TrimPrefix(s.Show(kind), "text "))
	}
	return make
}

// Seeded is a Source with random numbers of its own, such as those of a seed. One goroutine uses it.
type Seeded interface {
	lang.Source
	Rand() *rand.Rand
}

// Seed makes the random values of this process repeat, except on sources with random numbers of their own.
func Seed(n uint64) (undo func()) {
	repeating.Store(rand.New(&locked{src: rand.NewPCG(n, 0)}))
	for i := range lastSnowflake {
		lastSnowflake[i].Store(0)
	}
	return func() { repeating.Store(nil) }
}

var (
	repeating atomic.Pointer[rand.Rand]
	unseeded  = rand.New(system{})
	hostname  = sync.OnceValues(os.Hostname)
)

// locked is a source of random numbers for several goroutines.
type locked struct {
	mu  sync.Mutex // guards the field below
	src rand.Source
}

func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.src.Uint64()
}

// system has the random numbers of the runtime: ChaCha8, seeded by the operating system, for all goroutines.
type system struct{}

func (system) Uint64() uint64 { return rand.Uint64() }

func randomOf(f *lang.Frame) *rand.Rand {
	if s, ok := f.Source().(Seeded); ok {
		return s.Rand()
	}
	if r := repeating.Load(); r != nil {
		return r
	}
	return unseeded
}

// fillRandom fills b.
func fillRandom(f *lang.Frame, b []byte) {
	r := randomOf(f)
	if r == unseeded {
		crypto.Read(b) // IDs must not be guessable
		return
	}
	for len(b) > 0 {
		var chunk [8]byte
		binary.LittleEndian.PutUint64(chunk[:], r.Uint64())
		b = b[copy(b, chunk[:]):]
	}
}

func randomInt(f *lang.Frame, s *lang.Site, args []any) any {
	low, high := args[0].(int), args[1].(int)
	if high < low {
		s.FailWith("write the smaller first", "%s(): there is no whole number from %s to %s", s.Name,
			plainNumber(s, low), plainNumber(s, high))
	}
	span := uint64(high-low) + 1
	if span == 0 { // all of int
		return int(randomOf(f).Uint64())
	}
	return low + int(randomOf(f).Uint64N(span))
}

// plainNumber is a number for an error, unless it is secret.
func plainNumber(s *lang.Site, n int) string {
	if s.Secret[0] {
		return "a number"
	}
	return fmt.Sprint(n)
}

// uuidV7 is a UUID of version 7, without the bits of its version. Twelve bits of the fraction follow the milliseconds.
func uuidV7(f *lang.Frame, t time.Time) (u [16]byte) {
	fillRandom(f, u[8:])
	ms := t.UnixMilli()
	fraction := uint64(t.Sub(time.UnixMilli(ms))) << 12 / uint64(time.Millisecond)
	binary.BigEndian.PutUint64(u[:], uint64(ms)<<16|fraction)
	return u
}

// uuidText is a UUID as text, with its version and variant.
func uuidText(u [16]byte, version byte) string {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	var text [36]byte
	at := hex.Encode(text[:], u[:4])
	for _, part := range [][]byte{u[4:6], u[6:8], u[8:10], u[10:]} {
		text[at] = '-'
		at += 1 + hex.Encode(text[at+1:], part)
	}
	return string(text[:])
}

const (
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // of ULIDs
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	ksuidEpoch     = 1_400_000_000     // seconds since 1970
	snowflakeEpoch = 1_288_834_974_657 // milliseconds since 1970
	maxNode        = 1<<10 - 1
)

// ulidText is 128 bits in 26 digits of five bits each, of which the first has three.
func ulidText(id [16]byte) string {
	high, low := binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint64(id[8:])
	var text [26]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = crockford[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(text[:])
}

// ksuidText is 160 bits in 27 digits to the base of 62.
func ksuidText(id [20]byte) string {
	var parts [5]uint32
	for i := range parts {
		parts[i] = binary.BigEndian.Uint32(id[4*i:])
	}
	var text [27]byte
	for i := len(text) - 1; i >= 0; i-- {
		rest := uint64(0)
		for n := range parts {
			rest = rest<<32 | uint64(parts[n])
			parts[n] = uint32(rest / 62)
			rest %= 62
		}
		text[i] = base62[rest]
	}
	return string(text[:])
}

// lastSnowflake is, by node, the last ID without its node: milliseconds and count.
var lastSnowflake [maxNode + 1]atomic.Int64

// snowflake is the next ID of a node. If IDs are ahead of the clock, because there were more than 4,096 in a millisecond or the
// clock was set back, it continues from the last one.
func snowflake(t time.Time, node int) int {
	at := max(t.UnixMilli()-snowflakeEpoch, 0) << 12
	for {
		last := lastSnowflake[node].Load()
		next := max(at, last+1)
		if lastSnowflake[node].CompareAndSwap(last, next) {
			return int(next>>12<<22 | int64(node)<<12 | next&0xfff)
		}
	}
}

// nodeOf is the node that an argument names.
func nodeOf(s *lang.Site, v any) int {
	if n, ok := s.Prepared(0).(int); ok {
		return n
	}
	return checkNode(s, v.(int))
}

func checkNode(s *lang.Site, n int) int {
	if n < 0 || n > maxNode {
		s.Fail("%s(): %s is not a node between 0 and %d", s.Name, s.Show(n), maxNode)
	}
	return n
}
