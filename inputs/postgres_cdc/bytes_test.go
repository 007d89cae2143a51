package postgrescdc

import (
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

func TestTextThatIsNotUTF8StaysAndIsNotADocument(t *testing.T) {
	got := appendValue(nil, pgoutput.Shape{}, pgoutput.Value{Kind: pgoutput.Text, Text: []byte("a\xff\"\\\n")})
	if want := "\"a\xff\\\"\\\\\\u000a\""; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var d doc.Doc
	if d.Reset(got, nil); d.Valid() == nil {
		t.Error("it passes for a document")
	}
}
