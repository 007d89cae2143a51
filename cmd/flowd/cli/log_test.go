package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/config"
)

func TestLogFollowsTheConfigurationReadLater(t *testing.T) {
	tests := []struct {
		name string
		set  config.Log
		want string // the line without its time
	}{
		{"text by default", config.Log{}, "level=INFO msg=started pipeline=orders"},
		{"json", config.Log{Format: "json"}, `"level":"INFO","msg":"started","pipeline":"orders"`},
		{"a level above", config.Log{Level: "warn"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			l := newLogging(newConsole(&out), nil)
			component := l.log.With("pipeline", "orders")
			l.configure(tt.set)
			component.Info("started")
			if got := out.String(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
