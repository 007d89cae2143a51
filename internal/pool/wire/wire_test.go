package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/pool"
)

// sent is a job on the other side.
func sent(t testing.TB, of []*engine.Message) (*Job, *engine.Batch) {
	t.Helper()
	j := Job{Hash: "h"}
	got, err := DecodeJob(j.Encode(Pack(of)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.Messages()
	if err != nil {
		t.Fatal(err)
	}
	return got, b
}

func TestAJobIsTheSameOnTheOtherSide(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4, time.FixedZone("", 5400))
	batch := &engine.Likeness{Batcher: "b", Trigger: engine.BySize, Size: 12,
		Window: &engine.Window{Start: at, End: at.Add(time.Hour), Part: 2}}
	from := []engine.Provenance{
		{Input: "in", ReceivedAt: at, Attempt: 4, BatchKey: `"k"`, Batch: batch},
		{Err: &engine.Error{Class: engine.Auth, Step: "s", Output: "o", Attempt: 2, Delay: time.Second, FirstFailed: at,
			Err: errors.New("why")}, Batch: batch},
		{Batch: batch},
	}
	b := engine.NewBatch(3)
	for i, body := range []string{`{"a":1}`, "", "\x00\xff"} {
		b.AddFrom([]byte(body), from[i])
	}
	j, got := sent(t, slices.Collect(b.All()))
	if j.Hash != "h" {
		t.Errorf("got %+v", j)
	}
	there, here := slices.Collect(got.All()), slices.Collect(b.All())
	if len(there) != len(here) {
		t.Fatalf("%d messages", len(there))
	}
	for i, m := range there {
		if !bytes.Equal(m.Bytes(), here[i].Bytes()) {
			t.Errorf("message %d is %q", i, m.Bytes())
		}
		a, b := m.Provenance(), here[i].Provenance()
		if !a.ReceivedAt.Equal(b.ReceivedAt) || !a.Batch.Window.Start.Equal(at) ||
			!a.Batch.Window.End.Equal(at.Add(time.Hour)) || a.Batch.Window.Part != 2 {
			t.Errorf("message %d: the times are %+v", i, a)
		}
		if e, f := a.Err, b.Err; (e == nil) != (f == nil) || e != nil &&
			(e.Class != f.Class || e.Step != f.Step || e.Output != f.Output || e.Attempt != f.Attempt ||
				e.Delay != f.Delay || !e.FirstFailed.Equal(at) || e.Error() != "why") {
			t.Errorf("message %d: the error is %+v", i, e)
		}
		if a.Input != b.Input || a.Attempt != b.Attempt || a.BatchKey != b.BatchKey || a.Batch.Batcher != "b" ||
			a.Batch.Trigger != engine.BySize || a.Batch.Size != 12 {
			t.Errorf("message %d is from %+v, want %+v", i, a, b)
		}
	}
}

func TestAJobWithoutABatchHasNone(t *testing.T) {
	b := engine.NewBatch(1)
	b.Add([]byte("x"))
	_, got := sent(t, slices.Collect(b.All()))
	for m := range got.All() {
		if o := m.Provenance(); o.Batch != nil || o.Err != nil || o.Input != "" || !o.ReceivedAt.IsZero() {
			t.Errorf("got %+v", o)
		}
	}
}

func TestVarsTravel(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC)
	values := map[string]any{"int": -1, "big": doc.Number("18446744073709551616"), "float": 0.5, "text": "a",
		"bytes": []byte{0, 255}, "time": at, "duration": -time.Hour, "list": []any{nil, map[string]any{"a": doc.Number("-9223372036854775809")}}}
	var vars engine.Vars
	for name, v := range values {
		vars = vars.With(name, v)
	}
	b := engine.NewBatch(3)
	for i := range 3 {
		if m := b.Add([]byte("x")); i > 0 {
			m.SetVars(vars)
		}
	}
	_, got := sent(t, slices.Collect(b.All()))
	there := slices.Collect(got.All())
	if there[0].Vars() != (engine.Vars{}) || there[1].Vars() != there[2].Vars() {
		t.Errorf("got %v, want none of the first, and those of the others shared", there)
	}
	if diff := cmp.Diff(maps.Collect(there[1].Vars().All()), values); diff != "" {
		t.Errorf("a job (-got +want):\n%s", diff)
	}
	answer := EncodeAnswer(Try{}, &pool.Result{Ends: make([]pool.End, 2), Made: []pool.Made{
		{Of: []int{0}, SameBody: true, SameMeta: true, SameVars: true}, {Of: []int{1}, SameBody: true, SameMeta: true, Vars: vars},
	}}, nil)
	_, result, failure, err := DecodeAnswer(answer, "w")
	if err != nil || failure != nil || !result.Made[0].SameVars || result.Made[1].SameVars {
		t.Fatalf("got %+v, %v, %v", result, failure, err)
	}
	if diff := cmp.Diff(maps.Collect(result.Made[1].Vars.All()), values); diff != "" {
		t.Errorf("an answer (-got +want):\n%s", diff)
	}
}

func TestMetadataTravels(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC)
	values := map[string]any{
		"nil": nil, "yes": true, "no": false, "int": -1, "most": math.MaxInt64, "long": int64(math.MinInt64),
		"float": 0.1, "inf": math.Inf(-1), "text": "a\x00ü\xff", "empty": "", "time": at,
		"bytes": []byte{0, 1}, "list": []any{}, "tree": map[string]any{"a": []any{1, nil, map[string]any{}}, "b": at},
	}
	var m engine.Meta
	for name, v := range values {
		m = m.With(name, v)
	}
	m = m.WithIndex("line").Own().With("added", 1).With("again", "x")
	b := engine.NewBatch(4)
	for i := range 4 {
		b.Add([]byte("x")).Meta = m.At(i / 2)
	}
	_, got := sent(t, slices.Collect(b.All()))
	there := slices.Collect(got.All())
	for i, x := range there {
		want := m.At(i / 2).Map()
		if !reflect.DeepEqual(x.Meta.Map(), want) {
			t.Errorf("message %d has\n%v, want\n%v", i, x.Meta.Map(), want)
		}
		var added []string
		for name := range x.Meta.Added() {
			added = append(added, name)
		}
		if !slices.Equal(added, []string{"added", "again"}) {
			t.Errorf("message %d: %v is added", i, added)
		}
	}
	if there[0].Meta != there[1].Meta || there[1].Meta == there[2].Meta {
		t.Error("what is shared is not shared there")
	}
}

func TestWhatMetadataMustNotHaveIsText(t *testing.T) {
	b := engine.NewBatch(1)
	b.Add(nil).Meta = engine.Meta{}.With("x", uint8(3)).With("d", time.Second)
	_, got := sent(t, slices.Collect(b.All()))
	for m := range got.All() {
		if text := fmt.Sprintf("%#v", m.Meta.Map()); text != `map[string]interface {}{"d":"1s", "x":"3"}` {
			t.Error(text)
		}
	}
}

func TestAnAnswerIsTheSameOnTheOtherSide(t *testing.T) {
	shared := engine.Meta{}.With("a", 1)
	want := &pool.Result{
		Ends: []pool.End{{}, {Dropped: true}, {Gone: true}, {Err: engine.Errorf(engine.Decode, "bad")}, {}},
		Made: []pool.Made{
			{Of: []int{0}, SameBody: true, SameMeta: true},
			{Of: []int{0}, Body: []byte("x"), Meta: shared},
			{Of: []int{0, 4}, Body: []byte{}, Meta: shared},
		},
	}
	try, got, failure, err := DecodeAnswer(EncodeAnswer(Try{Pool: 1, ID: 2, Try: 3, Key: "k"}, want, nil), "host/1")
	if err != nil || failure != nil || try != (Try{Pool: 1, ID: 2, Try: 3, Key: "k"}) {
		t.Fatal(try, failure, err)
	}
	var e *engine.Error
	if !errors.As(got.Ends[3].Err, &e) || e.Class != engine.Decode || e.Error() != "on worker host/1: bad" {
		t.Errorf("got %v", got.Ends[3].Err)
	}
	if got.Made[1].Meta != got.Made[2].Meta || !reflect.DeepEqual(got.Made[1].Meta.Map(), shared.Map()) {
		t.Error("the metadata is not shared")
	}
	got.Ends[3], want.Ends[3] = pool.End{}, pool.End{}
	for i := range want.Made {
		got.Made[i].Meta, want.Made[i].Meta = engine.Meta{}, engine.Meta{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnErrorSaysWhereItIsFrom(t *testing.T) {
	_, r, failure, err := DecodeAnswer(EncodeAnswer(Try{}, nil,
		&engine.Error{Class: engine.Rejected, Step: "model", Err: errors.New("no")}), "host/1")
	var e *engine.Error
	if r != nil || err != nil || !errors.As(failure, &e) || e.Class != engine.Rejected || e.Step != "" ||
		failure.Error() != "step model on worker host/1: no" {
		t.Errorf("got %v, %v, %v", r, failure, err)
	}
	_, _, failure, _ = DecodeAnswer(EncodeAnswer(Try{}, nil, errors.New("plain")), "host/1")
	if !errors.As(failure, &e) || e.Class != engine.Permanent {
		t.Errorf("got %v", failure)
	}
}

func TestAnotherProtocolIsRefused(t *testing.T) {
	if _, err := DecodeJob([]byte{Protocol + 1}); err == nil || !strings.Contains(err.Error(), "version 4") {
		t.Error(err)
	}
	if _, _, _, err := DecodeAnswer([]byte{Protocol + 1}, "w"); err == nil ||
		!strings.Contains(err.Error(), "version 4") {
		t.Error(err)
	}
}

// TestWhatIsCutOffIsRefused takes every beginning of good texts.
func TestWhatIsCutOffIsRefused(t *testing.T) {
	for _, b := range jobSeeds() {
		if _, err := decodeAll(b); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		for n := range b {
			if _, err := decodeAll(b[:n]); err == nil {
				t.Errorf("%d of %d bytes are a job", n, len(b))
			}
		}
		if _, err := decodeAll(append(slices.Clone(b), 0)); err == nil {
			t.Error("a byte more is still a job")
		}
	}
	for _, b := range answerSeeds() {
		for n := range b {
			if _, _, _, err := DecodeAnswer(b[:n], "w"); err == nil {
				t.Errorf("%d of %d bytes are an answer", n, len(b))
			}
		}
	}
}

func decodeAll(b []byte) (*engine.Batch, error) {
	j, err := DecodeJob(b)
	if err != nil {
		return nil, err
	}
	return j.Messages()
}

// TestCountsThatLieTakeNoMemory is about texts that claim more than they hold.
func TestCountsThatLieTakeNoMemory(t *testing.T) {
	const size = 1 << 20
	lists := func(kind byte) []byte { // each claims all the rest
		w := &writer{}
		for range deepest {
			w.flags(kind)
			w.b = binary.AppendUvarint(w.b, size/2)
			if kind == '{' {
				w.text("")
			}
		}
		return w.b
	}
	meta := func(kind byte) []byte {
		w := &writer{}
		w.uint(1)
		w.uint(0)
		w.text("m")
		return append(w.b, lists(kind)...)
	}
	answer := func(parts ...[]byte) []byte {
		w := &writer{}
		w.flags(Protocol)
		for range 5 {
			w.flags(0)
		}
		return append(append(w.b, bytes.Join(parts, nil)...), make([]byte, size)...)
	}
	job := (&Job{}).Encode(nil)
	claim := binary.AppendUvarint(nil, size/2)
	one := []byte{1, 0, 1, 1, 0, 0, 0, 0} // an end; a message made of it, with a body and metadata
	texts := map[string][]byte{
		"messages":    append(append(append(job, claim...), 0), make([]byte, size)...),
		"ends":        answer(claim, []byte{endFailed}, []byte{0xff}),
		"made":        answer([]byte{0}, claim, []byte{0}),
		"made of":     answer([]byte{1, 0, 1}, claim, []byte{9}),
		"names":       answer(one, claim, []byte{0}),
		"lists":       answer(one, meta('[')),
		"mappings":    answer(one, meta('{')),
		"a long text": answer(one, []byte{1, 0, 0, 's', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}),
	}
	for name, b := range texts {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var err error
		if name == "messages" {
			_, err = decodeAll(b)
		} else {
			_, _, _, err = DecodeAnswer(b, "w")
		}
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: it is accepted", name)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*size {
			t.Errorf("%s: %d bytes took %d", name, len(b), took)
		}
	}
}

func TestDeepValuesAreRefused(t *testing.T) {
	var v any
	for range deepest + 2 {
		v = []any{v}
	}
	b := engine.NewBatch(1)
	b.Add(nil).Meta = engine.Meta{}.With("deep", v)
	j, err := DecodeJob((&Job{}).Encode(Pack(slices.Collect(b.All()))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Messages(); err == nil {
		t.Error("it is accepted")
	}
}

func jobSeeds() (all [][]byte) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC)
	b := engine.NewBatch(2)
	b.AddFrom([]byte(`{"a":1}`), engine.Provenance{Input: "in", ReceivedAt: at, BatchKey: "1",
		Batch: &engine.Likeness{Batcher: "b", Window: &engine.Window{Start: at}}}).Meta = engine.Meta{}.With("a",
		[]any{1, 0.5, "x", map[string]any{"t": at}}).Own().With("b", []byte("x"))
	b.AddFrom(nil, engine.Provenance{Err: engine.Errorf(engine.Late, "late"), Batch: &engine.Likeness{}})
	for _, of := range [][]*engine.Message{nil, slices.Collect(b.All())} {
		all = append(all, (&Job{Hash: "h"}).Encode(Pack(of)))
	}
	return all
}

func answerSeeds() [][]byte {
	m := engine.Meta{}.With("a", 1).Own().With("b", nil)
	return [][]byte{
		EncodeAnswer(Try{Pool: 1, ID: 2, Try: 3}, nil, engine.Errorf(engine.Timeout, "slow")),
		EncodeAnswer(Try{}, &pool.Result{Ends: []pool.End{{}, {Dropped: true}, {Gone: true}, {Err: errors.New("x")}},
			Made: []pool.Made{{Of: []int{0}, Body: []byte("x"), Meta: m}, {Of: []int{0, 1}, Meta: m}}}, nil),
	}
}

func FuzzDecodeJob(f *testing.F) {
	for _, b := range jobSeeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := decodeAll(text)
		if err != nil {
			return
		}
		// What is read is written so that it is read again.
		again, err := DecodeJob((&Job{}).Encode(Pack(slices.Collect(b.All()))))
		if err != nil {
			t.Fatal(err)
		}
		c, err := again.Messages()
		if err != nil || c.Len() != b.Len() {
			t.Fatalf("%d messages, %v", c.Len(), err)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	for _, b := range answerSeeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		try, r, failure, err := DecodeAnswer(text, "w")
		if err != nil || failure != nil {
			return
		}
		if _, again, _, err := DecodeAnswer(EncodeAnswer(try, r, nil), "w"); err != nil ||
			len(again.Made) != len(r.Made) {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}
