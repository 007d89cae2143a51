package sources_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/sources"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/fake"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// seededMessage is a message with its own random numbers.
type seededMessage struct {
	*exprtest.Message
	rng *rand.Rand
}

func (m *seededMessage) Rand() *rand.Rand { return m.rng }

func seededBy(n uint64) *seededMessage {
	return &seededMessage{exprtest.NewMessage(`{}`), rand.New(rand.NewPCG(n, 0))}
}

const everySource = `[random(), random_int(1, 1000000), uuid(), ulid()[10:], ksuid()[7:], uuid_v7()[19:], fake("email")]`

func TestASourceWithASeedRepeats(t *testing.T) {
	e := expr.MustCompile(everySource, "generate")
	run := func(n uint64) (all []string) {
		m := seededBy(n)
		for range 3 {
			v, err := e.Eval(m)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(v))
		}
		return all
	}
	first := run(1)
	if again := run(1); !slices.Equal(first, again) {
		t.Errorf("the same seed gives\n%s and then\n%s", first, again)
	}
	if first[0] == first[1] || slices.Equal(first, run(2)) {
		t.Errorf("values that should differ are the same: %s", first)
	}
}

func TestAProcessCanRepeat(t *testing.T) {
	e := expr.MustCompile(everySource, "generate")
	run := func(n uint64) string {
		defer expr.Seed(n)()
		v, _ := e.Eval(exprtest.NewMessage(`{}`))
		return fmt.Sprint(v)
	}
	first := run(1)
	if again, other := run(1), run(2); first != again || first == other {
		t.Errorf("got\n%s\n%s\n%s", first, again, other)
	}
	a, _ := e.Eval(exprtest.NewMessage(`{}`))
	b, _ := e.Eval(exprtest.NewMessage(`{}`))
	if fmt.Sprint(a) == fmt.Sprint(b) || fmt.Sprint(a) == first {
		t.Errorf("without a seed, values repeat: %v, %v", a, b)
	}
}

// The time in an ID is that of the clock, even of a virtual one.
func TestTimesOfIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20*365*24*time.Hour + 1234567*time.Microsecond)
		want := time.Now()
		defer expr.Seed(0)()
		once := func(src string) string {
			e := expr.MustCompile(src)
			v, err := e.Eval(exprtest.NewMessage(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(v)
		}
		ulid := once(`ulid()`)
		ms := 0
		for _, c := range ulid[:10] {
			ms = ms<<5 | strings.IndexRune(sources.Crockford, c)
		}
		if int64(ms) != want.UnixMilli() {
			t.Errorf("%s has %d, want %d", ulid, ms, want.UnixMilli())
		}
		v7 := once(`uuid_v7()`)
		raw, err := hex.DecodeString(strings.ReplaceAll(v7, "-", ""))
		if err != nil || len(raw) != 16 || raw[6]>>4 != 7 || raw[8]>>6 != 2 {
			t.Fatalf("%s is not a UUID of version 7: %v", v7, err)
		}
		u := binary.BigEndian.Uint64(raw)
		if ms, fraction := int64(u>>16), u&0xfff; ms != want.UnixMilli() || fraction != 567<<12/1000 {
			t.Errorf("%s has %d and %d", v7, ms, fraction)
		}
		ksuid := once(`ksuid()`)
		n := new(big.Int)
		for _, c := range ksuid {
			n.Add(n.Mul(n, big.NewInt(62)), big.NewInt(int64(strings.IndexRune(sources.Base62, c))))
		}
		if at := n.Rsh(n, 128).Int64() + sources.KSUIDEpoch; at != want.Unix() {
			t.Errorf("%s has %d, want %d", ksuid, at, want.Unix())
		}
		flake, _ := strconv.Atoi(once(`snowflake(1023)`))
		if at, node := int64(flake>>22)+sources.SnowflakeEpoch, flake>>12&1023; at != want.UnixMilli() || node != 1023 {
			t.Errorf("%d has %d and node %d, want %d", flake, at, node, want.UnixMilli())
		}
	})
}

// An independent computation has the same results.
func TestTextsOfIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	number := func(n *big.Int, base, digits int, alphabet string) string {
		text := n.Text(base)
		var out []byte
		for _, c := range []byte(strings.Repeat("0", digits-len(text)) + text) {
			out = append(out, alphabet[strings.IndexByte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", c)])
		}
		return string(out)
	}
	for i := range 200 {
		var id [20]byte
		for n := range id {
			id[n] = byte(rng.IntN(256))
		}
		switch i {
		case 0:
			id = [20]byte{}
		case 1:
			for n := range id {
				id[n] = 255
			}
		}
		if got, want := sources.KSUIDText(id), number(new(big.Int).SetBytes(id[:]), 62, 27, sources.Base62); got != want {
			t.Errorf("KSUID of %x: got %s, want %s", id, got, want)
		}
		short := [16]byte(id[:16])
		if got, want := sources.ULIDText(short), number(new(big.Int).SetBytes(short[:]), 32, 26, sources.Crockford); got != want {
			t.Errorf("ULID of %x: got %s, want %s", short, got, want)
		}
		u := sources.UUIDText(short, 4)
		if u[14] != '4' || !strings.ContainsRune("89ab", rune(u[19])) || strings.Count(u, "-") != 4 || len(u) != 36 {
			t.Errorf("got %s", u)
		}
	}
}

// The IDs of a node increase, whatever the clock does, and are unique.
func TestSnowflakesRise(t *testing.T) {
	defer expr.Seed(0)()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	last := 0
	for i := range 10_000 {
		id := sources.Snowflake(at.Add(time.Duration(-i)*time.Millisecond), 5)
		if id <= last || id>>12&1023 != 5 {
			t.Fatalf("%d follows %d", id, last)
		}
		last = id
	}
	var mu sync.Mutex
	seen := map[int]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5000 {
				id := sources.Snowflake(at, 6)
				mu.Lock()
				if seen[id] {
					t.Errorf("%d comes twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if id := sources.Snowflake(time.Unix(0, 0), 7); id < 0 {
		t.Errorf("a clock before the epoch gives %d", id)
	}
}

func TestSourcesThatFail(t *testing.T) {
	for src, want := range map[string]string{
		`random_int(i, -1)`:      "random_int(): there is no whole number from 1 to -1 (write the smaller first)",
		`random_int(i, 1.5)`:     "random_int() needs a whole number",
		`snowflake(-i)`:          "snowflake(): number -1 is not a node between 0 and 1023",
		`snowflake(status * 10)`: "snowflake(): number 5030 is not a node between 0 and 1023",
		`snowflake(nil)`:         "snowflake() needs number, not nothing (?? gives a missing field a default)",
		`fake(name)`:             `fake(): there is no kind "Ann"`,
		`fake(nothing)`:          "fake() needs text, not nothing (?? gives a missing field a default)",
	} {
		if _, err := exprtest.EvalBoth(t, src, exprtest.NewMessage(exprtest.Sample)); !strings.HasPrefix(exprtest.Short(err), want) {
			t.Errorf("%s: got %q, want %q", src, exprtest.Short(err), want)
		}
	}
	if _, err := expr.Compile(`fake("email")`); exprtest.Short(err) != `fake() cannot be called here, only in the body of a generate` {
		t.Errorf("got %v", err)
	}
}

func TestRandomIntsAreInRange(t *testing.T) {
	e := expr.MustCompile(`random_int(-2, 2)`)
	seen := map[any]bool{}
	m := seededBy(1)
	for range 500 {
		v, err := e.Eval(m)
		if err != nil {
			t.Fatal(err)
		}
		seen[v] = true
	}
	for n := -2; n <= 2; n++ {
		if !seen[n] {
			t.Errorf("%d never came", n)
		}
	}
	if len(seen) != 5 {
		t.Errorf("got %v", seen)
	}
	whole := expr.MustCompile(fmt.Sprintf(`random_int(-9223372036854775807 - 1, %d)`, 1<<63-1))
	if v, err := whole.Eval(m); err != nil {
		t.Errorf("all of int: %v, %v", v, err)
	}
}

func TestEveryKindIsMade(t *testing.T) {
	m := seededBy(1)
	for _, kind := range fake.Kinds() {
		e := expr.MustCompile(`fake("`+kind+`")`, "generate")
		if v, err := e.Eval(m); err != nil || value.KindOf(v)&(value.Text|value.Number|value.Bool) == 0 || v == "" {
			t.Errorf("%s: got %v, %v", kind, v, err)
		}
	}
}

func BenchmarkSources(b *testing.B) {
	for _, src := range []string{`uuid()`, `uuid_v7()`, `ulid()`, `ksuid()`, `snowflake(7)`, `random_int(1, 6)`, `fake("email")`} {
		e := expr.MustCompile(src, "generate")
		m := exprtest.NewMessage(`{}`)
		b.Run(src, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Eval(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
