package test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestOneTraceThroughThreeSystems sends a request through two processes, with steps and links between that could lose its trace.
func TestOneTraceThroughThreeSystems(t *testing.T) {
	t.Parallel()
	b, c := brokertest.RabbitMQ(t), kafkatest.Start(t)
	queue, topic, dir := b.Queue(t, nil), c.Topic(t, 1), t.TempDir()
	write(t, dir, "a/web.yaml", `
inputs:
  web: {http_server: {listen: "127.0.0.1:0"}}
processors:
  - split: items
  - each: {in: tags, do: [map: upper(this)]}
  - parallel: {one: [set: {one: 1}]}
  - pool: {name: p, workers: 1, do: [set: {pooled: true}]}
outputs:
  out: {pipe: middle}
`)
	write(t, dir, "a/middle.yaml", fmt.Sprintf(`
inputs:
  in: {pipe: middle}
outputs:
  out: {rabbitmq: {url: %q, routing_key: %q}}
`, b.URL, queue))
	second := write(t, dir, "b.yaml", fmt.Sprintf(`
inputs:
  in: {rabbitmq: {url: %q, queue: %q}}
outputs:
  out: {kafka: {brokers: %q, topic: %q}}
`, b.URL, queue, c.Brokers, topic))
	p, q := start(t, dir, "-c", "a"), start(t, dir, "-c", second)
	url := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on"))
	const trace, state, baggage = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1,b=2", "user=alice"
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"items": [{"n": 1, "tags": ["a"]}, {"n": 2, "tags": []}]}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Traceparent": {trace}, "Tracestate": {state}, "Baggage": {baggage}}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %s", answer.Status)
	}
	tick, late := time.NewTicker(20*time.Millisecond), time.After(deadline)
	defer tick.Stop()
	var records []*kgo.Record
	for records = c.Read(t, topic); len(records) < 2; records = c.Read(t, topic) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d of 2 messages have arrived", len(records))
		}
	}
	for _, record := range records {
		headers := map[string]string{}
		for _, h := range record.Headers {
			headers[h.Key] = string(h.Value)
		}
		if headers["traceparent"] != trace || headers["tracestate"] != state || headers["baggage"] != baggage {
			t.Errorf("%s has the headers %v", record.Value, headers)
		}
	}
	for _, p := range []*process{p, q} {
		p.Signal(syscall.SIGTERM)
		p.Wait()
	}
}
