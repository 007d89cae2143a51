package batch_test

import (
	"strings"
	"testing"

	_ "github.com/flowd-io/flowd/batchers/batch"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestBatchConforms(t *testing.T) {
	for _, component := range []string{
		`{"batch": {}}`,
		`{"batch": {"size": 1}}`,
		`{"batch": {"size": 0, "bytes": 50, "timeout": "1m"}}`,
		`{"batch": {"max_keys": 1, "flush": "size() == 7"}}`,
	} {
		t.Run(component, func(t *testing.T) {
			enginetest.Batcher(t, func(t *testing.T) engine.Batcher {
				t.Helper()
				return enginetest.New(t, engine.Batchers, component)
			})
		})
	}
}

func TestBatchRefuses(t *testing.T) {
	tests := []struct{ name, component, want string }{
		{"a negative size", `{"batch": {"size": -1}}`, "at least 0"},
		{"a timeout that is none", `{"batch": {"timeout": "0s"}}`, "at least 1ms"},
		{"a timeout without unit", `{"batch": {"timeout": "2"}}`, "timeout"},
		{"a peer's word for size", `{"batch": {"count": 10}}`, "`size`"},
		{"a peer's word for timeout", `{"batch": {"period": "1s"}}`, "`timeout`"},
		{"a field that does not exist", `{"batch": {"sise": 10}}`, `"size"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(enginetest.Problems(t, engine.Batchers, tt.component), "\n")
			if !strings.Contains(got, tt.want) {
				t.Errorf("problems %q, want %q among them", got, tt.want)
			}
		})
	}
}
