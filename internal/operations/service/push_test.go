package service

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func oneInput(names ...string) []engine.Snapshot {
	s := engine.Snapshot{Pipeline: "orders", State: engine.Running}
	for _, name := range names {
		s.Inputs = append(s.Inputs, engine.InputState{Name: name})
	}
	return []engine.Snapshot{s}
}

func TestAClientPushesMessagesAndLearnsTheirFates(t *testing.T) {
	var got []string
	f := &fake{snapshots: oneInput("web", "own/queue"), push: func(ctx context.Context, pipeline, input string,
		b *engine.Batch) ([]*engine.Result, error) {
		until, _ := ctx.Deadline()
		if left := time.Until(until); left < 4*time.Second || left > 5*time.Second {
			t.Errorf("it waits %s", left)
		}
		for m := range b.All() {
			v, _ := m.Meta.Get("tenant")
			got = append(got, pipeline+" "+input+" "+string(m.Bytes())+" "+v.(string))
		}
		return []*engine.Result{{Fate: engine.Delivered}, nil, {Fate: engine.Returned,
			Err: &engine.Error{Class: engine.Rejected, Output: "lake", Err: errors.New("no such table")}}}, nil
	}}
	file := tokenFile(t)
	s := serve(t, Config{TokenFile: file}, f)
	c := newTestClient(t, Target{Addr: s.Addr(), TokenFile: file})
	meta := map[string]any{"tenant": "a"}
	fates, err := c.Push(t.Context(), "orders", "own/queue", []Message{{[]byte(`{"id":1}`), meta}, {[]byte("a\x00\n"), meta},
		{[]byte("\xff"), meta}}, 5*time.Second)
	want := []Pushed{{Fate: "delivered"}, {Fate: "in_flight"}, {"returned", "rejected", "output lake", "no such table"}}
	if err != nil || !slices.Equal(fates, want) {
		t.Errorf("got %+v, %v", fates, err)
	}
	if want := []string{"orders own/queue {\"id\":1} a", "orders own/queue a\x00\n a", "orders own/queue \xff a"}; !slices.Equal(got, want) {
		t.Errorf("pushed %q", got)
	}
	if !fates[0].Good() || fates[1].Good() || fates[2].Good() {
		t.Error("only what was delivered or filtered is good")
	}
}

func TestWhatCanNotBePushed(t *testing.T) {
	lines := with("Content-Type", linesType)
	tests := []struct {
		name    string
		inputs  []string
		path    string
		body    string
		headers []string
		status  int
		says    string
	}{
		{name: "no token", path: "orders/messages", headers: lines[2:], status: http.StatusUnauthorized, says: "the token is missing"},
		{name: "JSON", path: "orders/messages", inputs: []string{"web"}, headers: withToken, status: http.StatusUnsupportedMediaType,
			says: "the body must be lines of JSON"},
		{name: "an unknown pipeline", path: "order/messages", headers: lines, status: http.StatusNotFound,
			says: "there is no pipeline \\\"order\\\" (there is orders)"},
		{name: "an unknown input", path: "orders/inputs/webb/messages", inputs: []string{"web"}, headers: lines,
			status: http.StatusNotFound, says: "no input \\\"webb\\\" (there is web)"},
		{name: "several inputs", path: "orders/messages", inputs: []string{"web", "api"}, headers: lines, status: http.StatusConflict,
			says: "name one of them: web, api"},
		{name: "no inputs yet", path: "orders/messages", headers: lines, status: http.StatusConflict, says: "is running, and reads nothing"},
		{name: "a broken line", path: "orders/messages", inputs: []string{"web"}, headers: lines,
			body: `{"payload":1}` + "\n{", status: http.StatusBadRequest, says: "line 2: not a message"},
		{name: "too many", path: "orders/messages", inputs: []string{"web"}, headers: lines,
			body: strings.Repeat("{\"payload\":1}\n", MaxPushed+1), status: http.StatusRequestEntityTooLarge, says: "more than 1000 messages"},
		{name: "too large", path: "orders/messages", inputs: []string{"web"}, headers: lines,
			body: strings.Repeat("x", MaxPushedBytes+1), status: http.StatusRequestEntityTooLarge, says: "larger than 16777216 bytes"},
		{name: "a wait of nothing", path: "orders/messages?wait=0", inputs: []string{"web"}, headers: lines,
			status: http.StatusBadRequest, says: `wait: \"0\" is not a whole number from 1 to 3600`},
		{name: "a pipeline that starts", path: "orders/messages", inputs: []string{"web"}, headers: lines, body: `{"payload":1}`,
			status: http.StatusConflict, says: "the pipeline is starting"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, Config{TokenFile: tokenFile(t)}, &fake{snapshots: oneInput(tt.inputs...)})
			status, answer, _ := send(t, s, http.MethodPost, "/api/v1/pipelines/"+tt.path, tt.body, tt.headers...)
			if status != tt.status || !strings.Contains(answer, tt.says) {
				t.Errorf("got %d %s", status, answer)
			}
		})
	}
}

func TestOnlyAFewRequestsPushAtOnce(t *testing.T) {
	began := make(chan struct{})
	f := &fake{snapshots: oneInput("web"), push: func(ctx context.Context, _, _ string, b *engine.Batch) ([]*engine.Result, error) {
		began <- struct{}{}
		<-ctx.Done() // until the client has gone
		return make([]*engine.Result, b.Len()), nil
	}}
	file := tokenFile(t)
	s := serve(t, Config{TokenFile: file}, f)
	c := newTestClient(t, Target{Addr: s.Addr(), TokenFile: file})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	one := []Message{{Payload: []byte("a")}}
	for range mostPushes {
		go func() {
			_, err := c.Push(ctx, "orders", "", one, time.Hour)
			ended <- err
		}()
		<-began
	}
	if _, err := c.Push(t.Context(), "orders", "", one, time.Second); err == nil ||
		err.Error() != "4 requests are pushing messages (wait for one of them)" {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	for range mostPushes {
		if err := <-ended; err == nil {
			t.Error("a canceled request has succeeded")
		}
	}
}
