package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// fileOf is a file of documents, with an inferred schema.
func fileOf(t testing.TB, w Writes, documents ...string) []byte {
	t.Helper()
	w.Compression = map[bool]string{true: w.Compression, false: "snappy"}[w.Compression != ""]
	w.RowGroup = max(w.RowGroup, 100)
	root := w.Schema.root
	if root == nil {
		var in inference
		for _, d := range documents {
			in.addDocument([]byte(d))
		}
		root = in.schema()
	}
	f := w.file(root)
	for _, d := range documents {
		if err := f.add([]byte(d)); err != nil {
			t.Fatal(err)
		}
		if err := f.advance(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	return f.out.Bytes()
}

// some are documents that read back as they are: no field of an object is missing.
func some(n int) []string {
	documents := make([]string, n)
	for i := range documents {
		documents[i] = fmt.Sprintf(`{"id":%d,"s":%q,"u":"u%d","f":%d.5,"b":%t,"l":%s,"o":{"p":[{"q":%s}],"n":null}}`, i, "s"+fmt.Sprint(i%9), i,
			i,
			i%3 == 0, []string{"null", "[]", "[1,null,2]", "[[1],[],null]"}[i%3], []string{"null", "7"}[i%2])
	}
	return documents
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	documents := some(3000)
	want := "x[" + strings.Join(documents, ",") + "]"
	for name := range compressions {
		t.Run(name, func(t *testing.T) {
			file := fileOf(t, Writes{Compression: name, RowGroup: 1000}, documents...)
			got, err := new(Reads).Decode([]byte("x"), file)
			if err != nil || string(got) != want {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Errorf("%v: %.100s, want %.100s", err, got[max(0, at-50):], want[max(0, at-50):])
			}
			if _, err := new(Reads).DecodeWithin(nil, file, len(want)/2); !errors.Is(err, codec.ErrLimit) {
				t.Errorf("half of the room: %v", err)
			}
		})
	}
}

func TestColumnsAreChosen(t *testing.T) {
	file := fileOf(t, Writes{}, `{"a":1,"o":{"p":1,"q":"x"},"l":[{"k":1}]}`, `{"a":2,"o":null}`)
	tests := []struct {
		columns []string
		want    string
	}{
		{[]string{"a"}, `[{"a":1},{"a":2}]`},
		{[]string{"o.q", "l"}, `[{"o":{"q":"x"},"l":[{"k":1}]},{"o":null,"l":null}]`},
		{[]string{"o"}, `[{"o":{"p":1,"q":"x"}},{"o":null}]`},
		{[]string{"b"}, `parquet: the file has no column "b" (it has a, l, o)`},
		{[]string{"a", "o.z"}, `parquet: the file has no column "o.z" (it has a, l, o)`},
	}
	for _, tt := range tests {
		got, err := (&Reads{Columns: tt.columns}).Decode(nil, file)
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != tt.want {
			t.Errorf("%v: got %s, want %s", tt.columns, got, tt.want)
		}
	}
}

// foreign is a row as the library has it, in encodings and types that flowd does not write.
type foreign struct {
	Delta  int64            `parquet:"delta,delta"`
	Prefix string           `parquet:"prefix,delta"`
	Split  float64          `parquet:"split,split"`
	Dict   int32            `parquet:"dict,dict"`
	Fixed  [3]byte          `parquet:"fixed"`
	Bare   []int32          `parquet:"bare"` // repeated, and not a list
	Map    map[int32]string `parquet:"map"`
	Flag   bool             `parquet:"flag"`
	Small  uint32           `parquet:"small"`
	Enum   string           `parquet:"enum,enum"`
	Opt    *float32         `parquet:"opt,optional"`
}

func TestForeignEncodings(t *testing.T) {
	var rows []foreign
	var want []string
	for i := range 1000 {
		f := float32(i) / 2
		r := foreign{Delta: int64(i) * int64(i%3-1) * (math.MaxInt64 / 1000), Prefix: fmt.Sprintf("prefix/%04d", i), Split: float64(i) / 4,
			Dict: int32(i % 5), Fixed: [3]byte{1, 2, byte(i)},
			Flag: i%2 == 0, Small: math.MaxUint32 - uint32(i), Enum: "E"}
		opt, bare, mapped := "null", "[]", "{}"
		if i%3 == 0 {
			r.Opt, r.Bare, r.Map = &f, []int32{int32(-i), 7}, map[int32]string{int32(i): "v"}
			opt, bare, mapped = string(codec.AppendFloat(nil, float64(f), 32)), fmt.Sprintf("[%d,7]", -i), fmt.Sprintf(`{"%d":"v"}`, i)
		}
		rows = append(rows, r)
		fixed, _ := appendBytes(nil, value{bytes: r.Fixed[:]})
		want = append(want,
			fmt.Sprintf(`{"delta":%d,"prefix":%q,"split":%s,"dict":%d,"fixed":%s,"bare":%s,"map":%s,"flag":%t,"small":%d,"enum":"E","opt":%s}`,
				r.Delta, r.Prefix, codec.AppendFloat(nil, r.Split, 64), r.Dict, fixed, bare, mapped, r.Flag, r.Small, opt))
	}
	for _, method := range []compress.Codec{&parquet.Uncompressed, &parquet.Brotli, &parquet.Lz4Raw} {
		for version := 1; version <= 2; version++ {
			got, err := new(Reads).Decode(nil, written(t, rows, parquet.Compression(method), parquet.DataPageVersion(version),
				parquet.PageBufferSize(4<<10)))
			if w := "[" + strings.Join(want, ",") + "]"; err != nil || string(got) != w {
				t.Errorf("%s %d: %v\n%.400s\n%.400s", method, version, err, got, w)
			}
		}
	}
}

// TestListsOfOlderWriters: a list is what is annotated as one, in the forms of its specification.
func TestListsOfOlderWriters(t *testing.T) {
	leaf := func(name string, repeats int64) element {
		return element{name: name, physical: physicalInt32, repeats: repeats, converted: -1}
	}
	group := func(name string, repeats, children, annotated int64) element {
		return element{name: name, physical: -1, repeats: repeats, children: children, converted: annotated}
	}
	const convertedMap, convertedList = 1, 3
	tests := []struct {
		name   string
		schema []element
		want   string
	}{
		{"three levels", []element{group("l", 1, 1, convertedList), group("list", 2, 1, -1), leaf("element", 1)}, "[int]"},
		{"two levels", []element{group("l", 1, 1, convertedList), leaf("element", 2)}, "[int]"},
		{"an object that repeats", []element{group("l", 1, 1, convertedList), group("element", 2, 2, -1), leaf("a", 0), leaf("b", 0)},
			"[{a: int, b: int}]"},
		{"an object of one field that is called array", []element{group("l", 1, 1, convertedList), group("array", 2, 1, -1), leaf("a", 0)},
			"[{a: int}]"},
		{"one that is called as the list", []element{group("l", 1, 1, convertedList), group("l_tuple", 2, 1, -1), leaf("a", 0)}, "[{a: int}]"},
		{"what repeats by itself", []element{leaf("l", 2)}, "[int]"},
		{"a map", []element{group("l", 1, 1, convertedMap), group("map", 2, 2, 2), leaf("key", 0), leaf("value", 1)}, "{*: int}"},
		{"a map without values is what it is", []element{group("l", 1, 1, convertedMap), group("map", 2, 1, -1), leaf("key", 0)},
			"{map: [{key: int}]}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := footer{schema: append([]element{group("root", 0, 1, -1)}, tt.schema...)}
			root, err := f.root()
			if err != nil {
				t.Fatal(err)
			}
			if got := root.items[0].shown(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func (b *branch) shown() string {
	switch b.shape {
	case shapeLeaf:
		return "int"
	case shapeList:
		return "[" + b.items[0].shown() + "]"
	case shapeMapping:
		return "{*: " + b.items[1].shown() + "}"
	}
	var all []string
	for _, item := range b.items {
		all = append(all, item.name+": "+item.shown())
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// written is a file that the library makes.
func written[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
