package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/brokertest"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

func matching(t *testing.T, url, queue, more string) *pattern {
	t.Helper()
	p, ok := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"rabbitmq": {"url": %q, "queue": %q%s}}`, url, queue,
		more)).(*pattern)
	if !ok {
		t.Fatalf("%s is not a pattern", queue)
	}
	return p
}

func TestQueuesByPattern(t *testing.T) {
	b := brokertest.Managed(t)
	base := b.Name()
	made := b.Channel(t)
	declare := func(name string, exclusive bool, args amqp091.Table) string {
		if _, err := made.QueueDeclare(name, !exclusive, false, exclusive, false, args); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = made.QueueDelete(name, false, false, false) })
		return name
	}
	a, quorum := declare(base+"-a", false, nil), declare(base+"-b", false, amqp091.Table{"x-queue-type": "quorum"})
	stream := declare(base+"-stream", false, amqp091.Table{"x-queue-type": "stream"})
	declare(base+"-mine", true, nil)
	literal := declare(base+"-[x]*?", false, nil)
	at := fmt.Sprintf(`, "management": %q`, b.Management)

	p := matching(t, b.URL, base+"-?", at)
	got, err := p.List(t.Context())
	if slices.Sort(got); err != nil || !slices.Equal(got, []string{a, quorum}) {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = matching(t, b.URL, base+"-*", at).List(t.Context())
	if slices.Sort(got); err != nil || !slices.Equal(got, []string{literal, a, quorum}) {
		t.Errorf("got %q, %v; want no stream, and nothing exclusive", got, err)
	}
	got, err = matching(t, b.URL, base+"-*",
		at+`, "consume": {"arguments": {"x-stream-offset": "first"}}`).List(t.Context())
	if err != nil || !slices.Equal(got, []string{stream}) {
		t.Errorf("streams: got %q, %v", got, err)
	}

	b.Send(t, literal, "one")
	only, err := p.Only(literal)
	if err != nil {
		t.Fatal(err)
	}
	readOne(t, only.(*input))
	b.Send(t, literal, "two")
	readOne(t, opened(t, b, base+`-\[x]\*\?`, ""))
}

// readOne reads and settles one message, and closes the input.
func readOne(t *testing.T, in *input) {
	t.Helper()
	if _, connected := in.Connected(); !connected {
		if err := in.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, engine.Delivered, nil, read(t, in, 1)...)
	if err := in.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestAListThatIsRefusedSaysWhatToDo(t *testing.T) {
	b := brokertest.Managed(t)
	plain := b.User(t, ".*", ".*", ".*")
	manage := strings.Replace(b.Management, "guest:guest@", "", 1)
	tests := []struct {
		name, url, management string
		class                 engine.Class
		want                  string
	}{
		{"a user without the tag", plain, manage, engine.Auth, "rabbitmqctl set_user_tags USER management"},
		{"a wrong password", b.URL, strings.Replace(b.Management, "guest:guest", "guest:s3cret", 1), engine.Auth,
			"refuses the user"},
		{"no such virtual host", b.URL + "/nowhere", b.Management, engine.Auth, "has no virtual host nowhere"},
		{"nobody there", b.URL, "http://u:s3cret@127.0.0.1:1", engine.Transient,
			"rabbitmq-plugins enable rabbitmq_management"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := matching(t, tt.url, "x-*", fmt.Sprintf(`, "management": %q`, tt.management)).List(t.Context())
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s with %q", err, tt.class, tt.want)
			}
			if strings.Contains(fmt.Sprint(err), "s3cret") {
				t.Error("a password shows")
			}
		})
	}
}
