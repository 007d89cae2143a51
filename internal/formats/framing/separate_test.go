package framing

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestNoPayloadBecomesSeveralRecords(t *testing.T) {
	for separator, f := range map[string]OutFraming{"\n": {}, "||": {Delimiter: ptr("||")}, "\n\n": {Delimiter: ptr("\n\n")}} {
		w := (&OutConfig{f}).Writer()
		enginetest.Separated(t, separator, func(_ *testing.T, payloads ...string) (string, []*engine.Error) {
			var stream []byte
			var failed []*engine.Error
			for _, p := range payloads {
				var err error
				if stream, err = w.Append(stream, message(p, engine.Meta{})); err != nil {
					failed = append(failed, engine.ErrorOf(err, engine.Transient))
				}
			}
			return string(stream), failed
		})
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "a b": "a b", "{\n\"a\" :\r\n 1}": `{"a":1}`,
		"\"a\\n\"\n": `"a\n"`, "a\n": "a"} {
		if got, err := OneLine([]byte(in), "\r\n", ""); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"a\nb", "a\rb", "{\n[", "{}\n{}\n"} {
		if got, err := OneLine([]byte(in), "\r\n", ""); err == nil {
			t.Errorf("%q: got %q", in, got)
		}
	}
}
