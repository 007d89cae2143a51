package processors_test

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	_ "github.com/flowd-io/flowd/processors"
)

func TestEveryProcessorIsDocumentedWithAnExample(t *testing.T) {
	for _, name := range engine.Processors.Names() {
		doc := engine.Processors.Lookup(name).Doc
		if !strings.Contains(doc, "- "+name+":") {
			t.Errorf("the docs of %s show no `- %s:`", name, name)
		}
	}
}

// event is a document of about 330 bytes.
const event = `{"id":"9f1c2d3e-4b5a","time":"2026-10-10T13:55:36Z","level":"error","service":"checkout","host":"web-17.eu-west",` +
	`"method":"POST","path":"/api/v1/orders","status":503,"duration_ms":1284.5,"bytes":2326,"user":{"id":48211,"plan":"enterprise",` +
	`"country":"SG"},"tags":["payment","retry"],"message":"upstream did not answer in time"}`

// BenchmarkProcess measures one event in one step.
func BenchmarkProcess(b *testing.B) {
	for _, step := range []string{
		`{"filter": "status >= 500"}`,
		`{"set": {"severity": "\"critical\""}}`,
		`{"set": {"copy": "user.country"}}`,
		`{"set": {"total": "status + bytes"}}`,
		`{"map": {"id": "this.id", "status": "this.status"}}`,
		`{"unset": ["user", "tags"]}`,
		`{"encode": "logfmt"}`,
	} {
		b.Run(step, func(b *testing.B) {
			p := enginetest.New(b, engine.Processors, step)
			payloads := make([]string, 256)
			for i := range payloads {
				payloads[i] = event
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(event)))
			for i := 0; i < b.N; i += len(payloads) {
				b.StopTimer()
				in := enginetest.Batch(payloads...)
				b.StartTimer()
				if err := p.Process(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
