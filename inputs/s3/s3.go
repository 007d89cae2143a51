// Package s3 reads objects of Amazon S3, and of stores that speak its protocol. How objects
// are read is in internal/systems/objects, and how S3 is called in internal/systems/objects/s3.
package s3

import (
	"context"
	"net/http"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/objects/s3"
)

// Config configures the input.
type Config struct {
	s3.Config      `yaml:",inline"`
	objects.Source `yaml:",inline"`
	Notify         *Notify `yaml:"notify" doc:"Amazon SQS queue to which the bucket sends its events: these name the objects to read, instead of a listing."`
}

// Notify is a queue of notices.
type Notify struct {
	Queue    string `yaml:"queue,main" check:"required,nonempty" doc:"Queue, by name, URL or ARN."`
	Endpoint string `yaml:"endpoint" doc:"URL of the queue's service; by default the region's, or AWS_ENDPOINT_URL."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.Check(c.Notify != nil, report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string { return s3.Words() }

const about = `
Reads objects from Amazon S3 and compatible stores, one message per line.

` + objects.About + `
With notify, objects are read when the bucket's events name them: events sent by S3 itself,
through SNS, or by EventBridge. A queue message is deleted once all its objects are done, and
hidden from others until then. One that is not an event of this bucket becomes a failed
message; an event about other keys, or a removed object, is deleted.

    inputs:
      logs: {s3: {bucket: logs, prefix: "in/", interval: 1m, checkpoint: logs.checkpoint}}
      new: {s3: {bucket: uploads, notify: uploads-events, after: {move: "done/"}}}
`

func init() {
	engine.Register(engine.Inputs, "s3", about, Config{Source: objects.Defaults}, newInput)
}

func newInput(c Config, env engine.Env) (engine.Input, error) { return build(&c, env, nil), nil }

// build makes an input. over, when not nil, carries its requests.
func build(c *Config, env engine.Env, over *http.Client) *objects.Input {
	return objects.NewInput(&c.Source, objects.Opening{Kind: "s3", Bucket: c.Bucket, Notify: c.Notify != nil,
		Open: func(ctx context.Context) (objects.Store, objects.Notices, error) {
			s, err := c.Open(ctx, s3.Writing{}, over)
			if err != nil || c.Notify == nil {
				return s, nil, err
			}
			n, err := c.Notices(ctx, s, c.Notify.Queue, c.Notify.Endpoint, env.Log)
			if err != nil {
				s.Close()
			}
			return s, n, err
		}}, env)
}
