package wire_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/pool/wire"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/map"
	_ "github.com/flowd-io/flowd/processors/meta"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/steps"
	_ "github.com/flowd-io/flowd/processors/switch"
	"github.com/flowd-io/flowd/schema"
)

// steps are steps written as JSON, with the values that placeholders have here.
func steps(t testing.TB, text string, values map[string]string) *wire.Steps {
	t.Helper()
	n, err := schema.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	d := schema.NewDecoder(func(name string) (string, bool, error) {
		v, ok := values[name]
		return v, ok, nil
	})
	for name, list := range lists {
		n, err := schema.ParseJSON(list)
		if err != nil {
			t.Fatal(err)
		}
		schema.Shared[engine.StepLists](d).Define(name, n)
	}
	s := &wire.Steps{}
	d.Decode(n, s)
	for _, p := range d.Problems() {
		t.Fatalf("%s: %s", text, p)
	}
	return s
}

// lists are the lists of steps that there are.
var lists = map[string]string{
	"plain": `[{"set": {"plain": "1"}}, {"steps": {"put": {"to": "x.y", "what": "a + 1"}}}]`,
	"put": `{"parameters": {"to": "path", "what": "expression", "label": {"default": "${LABEL:-none}"}},
		"do": [{"set": {"${param.to}": "${param.what}", "label": "${param.label}"}}]}`,
	"unused": `[{"set": {"unused": "${NOWHERE}"}}]`,
}

// stageOf is the stage of steps, as a hub makes it.
func stageOf(t testing.TB, s *wire.Steps) *wire.Stage {
	t.Helper()
	stage, err := s.Stage(false, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	stage.Lease, stage.Timeout = time.Second, time.Minute
	return stage
}

// there is a stage on the other side, built.
func there(t testing.TB, s *wire.Stage) *runtime.Apart {
	t.Helper()
	stage, err := wire.Unseal(s.Sealed())
	if err != nil {
		t.Fatal(err)
	}
	a, err := stage.Build("p", slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func run(t testing.TB, a *runtime.Apart, body string) string {
	t.Helper()
	b := engine.NewBatch(1)
	b.Add([]byte(body))
	if err := a.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		return string(m.Bytes())
	}
	for m := range b.Ended() {
		return "failed: " + m.Err().Error()
	}
	return ""
}

func TestAStageHasItsPlaceholdersValues(t *testing.T) {
	t.Setenv("SET", "there")
	t.Setenv("UNSET", "there")
	here := map[string]string{"SET": "here", "file:/etc/hostname": "a file of the hub", "UNUSED": "secret"}
	stage := stageOf(t,
		steps(t, `[{"set": {"a": "'${SET}'", "b": "'${UNSET:-default}'", "c": "'${file:/etc/hostname}'"}}]`, here))
	if len(stage.Values) != 2 || string(stage.Values["SET"]) != "here" ||
		string(stage.Values["file:/etc/hostname"]) != "a file of the hub" {
		t.Errorf("%q travels", stage.Values)
	}
	if got, want := run(t, there(t, stage), "{}"), `{"a":"here","b":"default","c":"a file of the hub"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAWorkerLooksUpNothing(t *testing.T) {
	t.Setenv("UNSET", "there")
	stage := stageOf(t, steps(t, `[{"set": {"a": "'${UNSET}'", "b": "'${file:/etc/hostname}'"}}]`,
		map[string]string{"UNSET": "x", "file:/etc/hostname": "y"}))
	clear(stage.Values)
	sealed, err := wire.Unseal(stage.Sealed())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sealed.Build("p", slog.New(slog.DiscardHandler), nil); err == nil ||
		!strings.Contains(err.Error(), "UNSET") {
		t.Errorf("got %v", err)
	}
}

func TestValuesAreWhatTheyAreByteForByte(t *testing.T) {
	value := "ü\xff\x00\"\\"
	stage := stageOf(t, steps(t, `[{"set": {"a": "1"}}]`, nil))
	stage.Values = map[string][]byte{"X": []byte(value)}
	got, err := wire.Unseal(stage.Sealed())
	if err != nil || string(got.Values["X"]) != value {
		t.Errorf("got %q, %v", got.Values["X"], err)
	}
}

func TestAStageIsKnownByItsHash(t *testing.T) {
	const text = `[{"switch": [{"when": "a > 1", "do": [{"set": {"b": "1"}}]}, {"do": [{"fail": "small"}]}]}]`
	a, b := stageOf(t, steps(t, text, nil)), stageOf(t, steps(t, text, nil))
	_, one := a.Sealed()
	if _, other := b.Sealed(); one != other {
		t.Error("the hashes of equal stages differ")
	}
	b.Lease++
	if _, other := b.Sealed(); one == other {
		t.Error("the hashes of other stages are equal")
	}
	apart := there(t, a)
	if got := run(t, apart, `{"a":2}`); got != `{"a":2,"b":1}` {
		t.Error(got)
	}
	if got := run(t, apart, `{"a":1}`); got != "failed: small" {
		t.Error(got)
	}
	sealed, _ := a.Sealed()
	if _, err := wire.Unseal(append(sealed, ' '), one); err == nil {
		t.Error("a stage with another hash is taken")
	}
}

func TestListsOfStepsTravel(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"a list", `[{"steps": "plain"}]`, `{"a":1,"plain":1,"x":{"y":2},"label":"here"}`},
		{"a list with values", `[{"steps": {"put": {"to": "b", "what": "a * 2", "label": "own"}}}]`,
			`{"a":1,"b":2,"label":"own"}`},
		{"steps in place", `[{"steps": [{"set": {"b": "a"}}]}]`, `{"a":1,"b":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stage := stageOf(t, steps(t, tt.steps, map[string]string{"LABEL": "here"}))
			if stage.Lists["unused"] != nil {
				t.Error("a list travels that no step uses")
			}
			if got := run(t, there(t, stage), `{"a":1}`); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A pool in a list has the values that the use of the list gives.
func TestParametersTravel(t *testing.T) {
	n, err := schema.ParseJSON(
		`{"do": [{"set": {"${param.to}": "'${param.text}'"}}, {"steps": {"put": {"to": "${param.to}s", "what": "a"}}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *schema.Node { return &schema.Node{Kind: schema.TextNode, Text: s} }
	d := schema.NewDecoder(nil)
	for name, list := range lists {
		n, err := schema.ParseJSON(list)
		if err != nil {
			t.Fatal(err)
		}
		schema.Shared[engine.StepLists](d).Define(name, n)
	}
	var pool struct { // the parameters are in force for all of it, and not told again for what is inside
		Do wire.Steps `yaml:"do"`
	}
	of := binding{to: &pool, params: &schema.Params{Of: "outer", By: map[string]schema.Param{
		"to": {Value: text("b"), As: schema.AsPath}, "text": {Value: text("it's")}}}}
	d.Decode(n, &of)
	for _, p := range d.Problems() {
		t.Fatal(p)
	}
	if got, want := run(t, there(t, stageOf(t, &pool.Do)), `{"a":1}`), `{"a":1,"b":"it's","bs":1,"label":"none"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// binding decodes steps with parameters in force.
type binding struct {
	to     any
	params *schema.Params
}

func (b *binding) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	d.DecodeAt(n, d.Bind(n, b.params), b.to)
}

func TestAnIncompleteStageIsRefused(t *testing.T) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `{"Steps":null,"Lease":1000000000,"Timeout":1}`,
		`{"Steps":{"Kind":5,"Items":[null]},"Lease":1000000000,"Timeout":1}`,
		`{"Steps":{"Kind":6,"Keys":[{"Kind":4,"Text":"x"}]},"Lease":1000000000,"Timeout":1}`,
		`{"Steps":{"Kind":77},"Lease":1000000000,"Timeout":1}`,
		`{"Steps":{"Kind":5},"Lists":{"x":null},"Lease":1000000000,"Timeout":1}`,
		`{"Steps":{"Kind":5,"Params":{"By":{"x":{"Value":{"Kind":77}}}}},"Lease":1000000000,"Timeout":1}`,
		`{"Steps":{"Kind":5,"Params":{"Outer":{"By":{"x":{"As":9}}}}},"Lease":1000000000,"Timeout":1}`,
		`{"Steps":{"Kind":5},"Lease":1,"Timeout":1}`,
		`{"Steps":{"Kind":5},"Lease":1000000000,"Timeout":-1}`,
	} {
		if _, err := wire.Unseal([]byte(text), hashOf(text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestStepsThatAProgramMadeCantTravel(t *testing.T) {
	s := wire.Steps{Steps: engine.Steps{{Name: "x"}}}
	if _, err := s.Stage(false, time.Second); err == nil {
		t.Error("they can")
	}
}

func TestAnEmptyListOfStepsIsAProblem(t *testing.T) {
	n, err := schema.ParseJSON(`[]`)
	if err != nil {
		t.Fatal(err)
	}
	d := schema.NewDecoder(nil)
	d.Decode(n, &wire.Steps{})
	if p := d.Problems(); len(p) != 1 || !strings.Contains(p[0].String(), "empty") {
		t.Errorf("got %v", p)
	}
}

func FuzzUnseal(f *testing.F) {
	for _, text := range []string{`[{"set": {"a": "1"}}]`,
		`[{"switch": [{"when": "a > 1", "do": [{"map": "this"}]}, {"do": [{"fail": "small"}]}], "on_error": "drop"}]`,
		`[{"steps": "plain"}]`} {
		sealed, _ := stageOf(f, steps(f, text, nil)).Sealed()
		f.Add(string(sealed))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := wire.Unseal([]byte(text), hashOf(text))
		if err != nil {
			return
		}
		a, err := s.Build("p", slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("nothing is opened"))
		_ = a.Open(ctx)
		_ = a.Close(ctx)
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
	})
}

func TestAWorkerNeedsTheTypesOfManifests(t *testing.T) {
	stage, err := steps(t, `[{"set": {"a": "1"}}]`, nil).Stage(false, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	stage.Steps.Items[0].Keys[0].Text = "score"
	_, err = stage.Build("p", slog.New(slog.DiscardHandler), nil)
	if want := "start the worker with --plugins, too"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error that says: %s", err, want)
	}
}
