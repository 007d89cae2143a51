// Package azureblob reads blobs of Azure Storage. How objects are read is in
// internal/systems/objects, and how the service is called in internal/systems/objects/azure.
package azureblob

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/objects/azure"
)

// Config configures the input.
type Config struct {
	azure.Config   `yaml:",inline"`
	objects.Source `yaml:",inline"`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.Check(false, report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	words := azure.Words()
	delete(words, "encryption")
	words["notify"] = "write `interval`: only the input s3 takes notices"
	return words
}

const about = `
Reads blobs from Azure Storage, one message per line.

` + objects.About + `
The metadata bucket is the container; the names of a blob's metadata are in lower case. A blob
that has an MD5 is checked against it if all of it was read over one connection. To tag or move
blobs, a shared access signature also needs the permission for tags.

Credentials are account_key, sas_token, connection_string, or those that Azure's tools use: the
environment, a workload identity, the machine's managed identity, or the Azure CLI.

    inputs:
      logs: {azure_blob: {account: example, container: logs, prefix: "in/", interval: 1m}}
`

func init() {
	engine.Register(engine.Inputs, "azure_blob", about, Config{Source: objects.Defaults}, newInput)
}

func newInput(c Config, env engine.Env) (engine.Input, error) {
	return objects.NewInput(&c.Source, objects.Opening{Kind: "azure_blob", Bucket: c.Container,
		Open: func(ctx context.Context) (objects.Store, objects.Notices, error) {
			s, err := c.Open(ctx, azure.Writing{})
			if err != nil {
				return nil, nil, err
			}
			return s, nil, nil
		}}, env), nil
}
