// Package gcs reads objects of Google Cloud Storage. How objects are read is in
// internal/systems/objects, and how the service is called in internal/systems/objects/gcs.
package gcs

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/objects/gcs"
)

// Config configures the input.
type Config struct {
	gcs.Config     `yaml:",inline"`
	objects.Source `yaml:",inline"`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.Check(false, report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	words := gcs.Words()
	delete(words, "encryption")
	words["notify"] = "write `interval`: only the input s3 takes notices"
	return words
}

const about = `
Reads objects from Google Cloud Storage, one message per line.

` + objects.About + `
The etag is the object's generation. Objects have no tags here: those in after become metadata.
An object is checked against its CRC32C if all of it was read over one connection.

flowd uses Google's default credentials: from GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the
machine, including workload identity. A token that is rejected is renewed once per call. An
emulator that STORAGE_EMULATOR_HOST names is sent none.

    inputs:
      logs: {gcs: {bucket: logs, prefix: "in/", interval: 1m, checkpoint: logs.checkpoint}}
`

func init() {
	engine.Register(engine.Inputs, "gcs", about, Config{Source: objects.Defaults}, newInput)
}

func newInput(c Config, env engine.Env) (engine.Input, error) {
	return objects.NewInput(&c.Source, objects.Opening{Kind: "gcs", Bucket: c.Bucket,
		Open: func(ctx context.Context) (objects.Store, objects.Notices, error) {
			s, err := c.Open(ctx, gcs.Writing{})
			if err != nil {
				return nil, nil, err
			}
			return s, nil, nil
		}}, env), nil
}
