// Package azureblob writes messages as blobs of Azure Storage. How objects are written is in
// internal/systems/objects, and how the service is called in internal/systems/objects/azure.
package azureblob

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/objects/azure"
)

// Config configures the output.
type Config struct {
	azure.Config    `yaml:",inline"`
	objects.Target  `yaml:",inline"`
	AccessTier      string `yaml:"access_tier" check:"oneof=Hot|Cool|Cold|Archive" doc:"Access tier; by default, that of the account."`
	EncryptionScope string `yaml:"encryption_scope" doc:"Encryption scope, which determines the key; by default, that of the container."`
	Checksum        string `yaml:"checksum" check:"oneof=md5|crc64|none" doc:"Checksum that the service verifies for each request. md5 is also stored with the blob."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.Check(report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string { return azure.Words() }

const about = `
Writes each message as a block blob to Azure Storage.

To write many messages as one blob, combine a batch into one with archive. A blob appears
whole or not at all: large ones are sent in blocks, several at once, and then committed; the
service removes the blocks of a failed one after a week. Messages of a write with the same
key are written in order, so the last one wins.

The payload is sent as it is. Metadata other than the input's own becomes metadata of the
blob, if its name is allowed there, up to 1KiB. Names there are identifiers: - becomes _.

If the service can't be reached, or the container is missing, the output is held and probed.
A blob on which another client holds a lease is retried. Credentials are as for the input; an
identity needs a role such as Storage Blob Data Contributor.

    batchers:
      day:
        key: tenant
        batch: {size: 10000, bytes: 32MiB, timeout: 1m}
        processors: [archive: lines, compress: gzip]
        output: lake
    outputs:
      lake: {azure_blob: {account: example, container: lake, key: "orders/$(batch_key())/$(uuid()).ndjson.gz"}}
`

func init() {
	engine.Register(engine.Outputs, "azure_blob", about, Config{Target: objects.TargetDefaults, Checksum: "md5"}, newOutput)
}

func newOutput(c Config, _ engine.Env) (engine.Output, error) {
	w := azure.Writing{Tier: c.AccessTier, Scope: c.EncryptionScope, Checksum: c.Checksum}
	return objects.NewOutput(&c.Target, func(ctx context.Context) (objects.Store, error) {
		s, err := c.Open(ctx, w)
		if err != nil {
			return nil, err
		}
		return s, nil
	}), nil
}
