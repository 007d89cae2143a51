// Package widget is an output that posts messages to a server.
package widget

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/flowd-io/flowd/engine"
)

// Config is what stands in a pipeline file. The tags are all that lint, `flowd docs` and the JSON Schema need.
type Config struct {
	URL string `yaml:"url" check:"required,nonempty" doc:"Where to post to."`
}

func init() {
	engine.Register(engine.Outputs, "widget", "Posts each message to a server.", Config{}, newOutput)
}

type output struct {
	url    string
	client *http.Client
}

// newOutput does no I/O: lint calls it, too. An output that has to connect first does so in a method Open.
func newOutput(c Config, _ engine.Env) (engine.Output, error) {
	return &output{c.URL, &http.Client{Transport: &http.Transport{}}}, nil
}

// Write is called from several goroutines at once, unless `concurrency` is 1. A message that fails is tried again without
// the others; an error of Write would fail all that are neither done nor failed.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	for m := range b.All() {
		if err := o.post(ctx, m.Bytes()); err != nil {
			m.Fail(err)
		} else {
			m.Done()
		}
	}
	return nil
}

func (o *output) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return engine.WithClass(engine.Permanent, err) // trying again would not help
	}
	res, err := o.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode < 500:
		return engine.WithClass(engine.Permanent, fmt.Errorf("the server refuses it: %s", res.Status))
	}
	return engine.WithClass(engine.Transient, fmt.Errorf("the server failed: %s", res.Status))
}

// Close is called after the last Write.
func (o *output) Close(context.Context) error {
	o.client.CloseIdleConnections()
	return nil
}
