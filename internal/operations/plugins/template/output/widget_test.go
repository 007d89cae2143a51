package widget

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// start runs a server, and returns outputs that post to it.
func start(t *testing.T, handle http.HandlerFunc) func(t *testing.T) engine.Output {
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return func(t *testing.T) engine.Output {
		o, err := newOutput(Config{URL: server.URL}, engine.Env{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
}

// TestOutput is what every output must pass. Outputs that write to servers also pass enginetest.Remote.
func TestOutput(t *testing.T) {
	enginetest.Output(t, start(t, func(http.ResponseWriter, *http.Request) {}), "a", "b")
}

func TestAMessageFailsAlone(t *testing.T) {
	output := start(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "bad" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	fates, err := enginetest.Written(t, output(t), "good", "bad", "good")
	if err != nil || !slices.Equal(fates, []string{"safe", "failed", "safe"}) {
		t.Errorf("got %v (%v), want safe, failed, safe", fates, err)
	}
}
