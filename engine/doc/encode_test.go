package doc_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
)

type grade string

type point struct {
	X int            `json:"x"`
	M map[string]int `json:"m,omitempty"`
}

func TestAppend(t *testing.T) {
	n := 5
	var none *int
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"nil", nil, `null`},
		{"booleans", []any{true, false}, `[true,false]`},
		{"integers of all sizes", []any{1, int8(-2), int16(3), int32(4), int64(math.MinInt64), uint(6), uint8(7),
			uint16(8), uint32(9), uint64(math.MaxUint64)},
			`[1,-2,3,4,-9223372036854775808,6,7,8,9,18446744073709551615]`},
		{"whole floats have no point", []any{1.0, -0.5, 100.0, math.Copysign(0, -1)}, `[1,-0.5,100,-0]`},
		{"exponents begin at 1e21 and below 1e-6", []any{1e20, 1e21, 1e-6, 1e-7, 1.5e-10, 1e300},
			`[100000000000000000000,1e+21,0.000001,1e-7,1.5e-10,1e+300]`},
		{"a float32 is as short as it can be", float32(0.1), `0.1`},
		{"numbers keep their spelling", []any{doc.Number("12345678901234567890"), json.Number("1.50")},
			`[12345678901234567890,1.50]`},
		{"escapes", "\"\\/\b\f\n\r\t\x00\x1f", `"\"\\/\b\f\n\r\t\u0000\u001f"`},
		{"HTML stays as it is", "<a href='x'>&</a>", `"<a href='x'>&</a>"`},
		{"text beyond ASCII stays as it is", "é日😀\u2028\x7f", "\"é日😀\u2028\x7f\""},
		{"bytes are text", []byte(`a"b`), `"a\"b"`},
		{"an offset with seconds has no text", time.Unix(0, 0).In(time.FixedZone("", 29143)), `"1970-01-01T00:00:00Z"`},
		{"bytes that are no text are base64", []byte{0xff, 0}, `"/wA="`},
		{"a time", time.Date(2025, 3, 14, 9, 26, 53, 589793000, time.UTC), `"2025-03-14T09:26:53.589793Z"`},
		{"a duration", 90 * time.Second, `"1m30s"`},
		{"keys are sorted", map[string]any{"b": 1, "a": map[string]any{}, "": []any{}}, `{"":[],"a":{},"b":1}`},
		{"more keys than a few", map[string]any{"q": 0, "p": 0, "o": 0, "n": 0, "m": 0, "l": 0, "k": 0, "j": 0, "i": 0,
			"h": 0, "g": 0, "f": 0, "e": 0, "d": 0, "c": 0, "b": 0, "a": 0},
			`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0}`},
		{"typed maps and lists", []any{map[string]string{"a": "b"}, []string{"x"}, []int{1, 2},
			map[grade]bool{"hi": true}, [2]bool{}}, `[{"a":"b"},["x"],[1,2],{"hi":true},[false,false]]`},
		{"what typed lists hold is encoded alike", []map[string]any{{"d": time.Second, "h": "<"}},
			`[{"d":"1s","h":"<"}]`},
		{"types of other packages", []any{grade("<b>"), &n, none, point{X: 1}, &point{X: 2, M: map[string]int{"a": 1}}},
			`["<b>",5,null,{"x":1},{"x":2,"m":{"a":1}}]`},
		{"maps with other keys", map[int]string{2: "b", 1: "a"}, `{"1":"a","2":"b"}`},
		{"raw messages", json.RawMessage(` {"a": 1} `), `{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := doc.Append([]byte("dst:"), tt.in)
			if err != nil || string(got) != "dst:"+tt.want {
				t.Errorf("got  %s and %v\nwant dst:%s", got, err, tt.want)
			}
		})
	}
}

func TestValuesWithoutAJSONFormAreRefusedWithTheirPlace(t *testing.T) {
	var deep any
	for range 513 {
		deep = []any{deep}
	}
	var loop any
	loop = &loop
	ring := map[string]any{}
	ring["ring"] = ring
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"NaN", math.NaN(), "NaN is not a JSON number"},
		{"infinity, nested", map[string]any{"a": []any{1, map[string]any{"b": math.Inf(-1)}}},
			"a[1].b: -Inf is not a JSON number"},
		{"a float32", float32(math.Inf(1)), "+Inf is not a JSON number"},
		{"a number that is none", doc.Number("1x"), `"1x" is not a number`},
		{"an empty number", json.Number(""), `"" is not a number`},
		{"a channel", []any{make(chan int)}, "[0]: chan int has no JSON form: json: unsupported type: chan int"},
		{"too deep", deep, "nested deeper than 512"},
		{"a map within itself", ring, "nested deeper than 512"},
		{"a pointer to itself", loop, "nested deeper than 512"},
		{"too deep by a marshaler", []any{json.RawMessage(nested("[", "]", 512))}, "nested deeper than 512"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := doc.Append([]byte("dst"), tt.in)
			var e *doc.ValueError
			if !errors.As(err, &e) || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if string(got) != "dst" {
				t.Errorf("got %s, want dst as it was", got)
			}
		})
	}
}

func TestTheDeepestValueThatIsEncodedCanBeRead(t *testing.T) {
	var deep any = []any{}
	for range 511 {
		deep = []any{deep}
	}
	raw, err := doc.Append(nil, deep)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := doc.Decode(raw); err != nil {
		t.Error(err)
	}
}

func TestFloatsAreAsShortAsStrconvMakesThem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		f := math.Float64frombits(r.Uint64())
		switch r.IntN(4) {
		case 0:
			f = float64(r.IntN(1_000_000)) / math.Pow10(r.IntN(8))
		case 1:
			f = math.Nextafter(float64(r.Int64N(1<<55))/math.Pow10(r.IntN(8)), float64(r.IntN(2)*1000))
		case 2:
			f = float64(r.Int64N(1<<60)) / 1000
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		if r.IntN(2) == 0 {
			f = -f
		}
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if f == math.Trunc(f) && math.Abs(f) < 1e21 { // it is read back as this integer
			whole, _ := big.NewFloat(f).Int(nil)
			want = whole.Append(nil, 10)
		}
		got, err := doc.Append(nil, f)
		if err != nil || string(got) != string(want) {
			t.Fatalf("%v: got %s, %v, want %s", f, got, err, want)
		}
		for _, spelling := range []string{string(want), strconv.FormatFloat(f, 'f', 3, 64),
			strconv.FormatFloat(f, 'e', 4, 64)} {
			std, err := strconv.ParseFloat(spelling, 64)
			if got, ok := doc.ParseFloat([]byte(spelling)); ok != (err == nil) || ok &&
				math.Float64bits(got) != math.Float64bits(std) {
				t.Fatalf("%s reads %v, %v, want %v", spelling, got, ok, std)
			}
		}
	}
}
