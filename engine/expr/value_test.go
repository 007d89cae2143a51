package expr

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

// How bytes in a list or object are encoded must not depend on their value.
func TestNoBytesOrZonesInsideADocument(t *testing.T) {
	const bytesIn = "bytes are not a value that a document can contain (write string(x) where they are text, else to_base64(x) or to_hex(x))"
	const zoneIn = "a time zone is not a value that a message can contain"
	tests := []struct {
		src, want string
		load      bool // the error is already found when the configuration is loaded
	}{
		{`{v: xxhash64(name)}`, "at v: " + bytesIn, true},
		{`[1, {b: [sha256(name)]}]`, "at [1].b[0]: " + bytesIn, true},
		{`{b: md5("b"), a: [bytes("a")]}`, "at a[0]: " + bytesIn, true},
		{`let h = sha256(name); {v: h}`, "at v: " + bytesIn, true},
		{`map(texts, bytes(#))`, "at [0]: " + bytesIn, false},
		{`walk(user, #key == "name" ? bytes(#) : #)`, "at name: " + bytesIn, false},
		{`status > 1 ? [bytes(name)] : 1`, "at [0]: " + bytesIn, false},
		{`parse_query("a=b&c=%ff")`, "at c: " + bytesIn, true},
		{`parse_query(name + "=%ff&a=b")`, "at Ann: " + bytesIn, false},
		{`parse_url("http://h/?c=%ff" + empty)`, "at query.c: " + bytesIn, false},
		{`{a: timezone("UTC")}`, "at a: " + zoneIn, true},
		{`[timezone(empty + "UTC")]`, "at [0]: " + zoneIn, true},
		{`to_json([bytes(name)])`, "at [0]: " + bytesIn, false},
		{`string({a: bytes(name)})`, "at a: " + bytesIn, false},

		{`[bytes(name)][0] == "Ann"`, "", false},
		{`map(texts, to_hex(bytes(#)))`, "", false},
		{`parse_query("a=b")`, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			if _, err := exprtest.EvalBoth(t, tt.src, exprtest.NewMessage(exprtest.Sample)); exprtest.Short(err) != tt.want {
				t.Errorf("Eval: got %q\nwant %q", exprtest.Short(err), tt.want)
			}
			e, err := Compile(tt.src)
			if err == nil {
				err = e.Encode(exprtest.NewMessage(exprtest.Sample), func(v any) error {
					_, err := doc.Append(nil, v)
					return err
				})
			}
			if exprtest.Short(err) != tt.want {
				t.Errorf("Encode: got %q\nwant %q", exprtest.Short(err), tt.want)
			}
			if err == nil {
				return
			}
			body, err := e.AppendBody(nil, exprtest.NewMessage(exprtest.Sample))
			if exprtest.Short(err) != tt.want {
				t.Errorf("AppendBody: got %s, %q\nwant %q", body, exprtest.Short(err), tt.want)
			}
			_, problems := decodeField(scalarNode("expr", tt.src))
			_, why, _ := strings.Cut(tt.want, ": ") // the caret shows the place
			if got := strings.Join(problems, "\n"); strings.Contains(got, why) != tt.load {
				t.Errorf("at load: got %q", got)
			}
		})
	}
}

func TestValuesThatStayMayHaveBytesInside(t *testing.T) {
	v := Value{MustCompile(`{v: sha256(name)}`)}
	if x, err := v.Eval(exprtest.NewMessage(exprtest.Sample)); err != nil {
		t.Errorf("Eval: got %v, %v", x, err)
	}
	if x, err := v.EvalOut(exprtest.NewMessage(exprtest.Sample)); err == nil {
		t.Errorf("EvalOut: got %v", x)
	}
	alone := Value{MustCompile(`sha256(name)`)}
	if x, err := alone.EvalOut(exprtest.NewMessage(exprtest.Sample)); err != nil {
		t.Errorf("EvalOut: got %v, %v", x, err)
	}
}
