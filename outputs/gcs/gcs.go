// Package gcs writes messages as objects of Google Cloud Storage. How objects are written is
// in internal/systems/objects, and how the service is called in internal/systems/objects/gcs.
package gcs

import (
	"context"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/objects/gcs"
)

// Config configures the output.
type Config struct {
	gcs.Config     `yaml:",inline"`
	objects.Target `yaml:",inline"`
	StorageClass   string `yaml:"storage_class" doc:"Storage class, such as NEARLINE, COLDLINE or ARCHIVE; by default, that of the bucket."`
	KMSKey         string `yaml:"kms_key" doc:"Cloud KMS key to encrypt with, as projects/P/locations/L/keyRings/R/cryptoKeys/K; by default, that of the bucket."`
	Checksum       string `yaml:"checksum" check:"oneof=crc32c|none" doc:"Checksum that the service verifies."`
	ACL            string `yaml:"acl" check:"oneof=authenticatedRead|bucketOwnerFullControl|bucketOwnerRead|private|projectPrivate|publicRead" doc:"Predefined access control list, if the bucket allows one."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.Check(report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string { return gcs.Words() }

const about = `
Writes each message as an object to Google Cloud Storage.

To write many messages as one object, combine a batch into one with archive. An object
appears whole or not at all: large ones are sent in parts by a resumable upload, which
continues after a fault, and is cancelled if it fails. Messages of a write with the same key
are written in order, so the last one wins.

The payload is sent as it is. Metadata other than the input's own becomes metadata of the
object, if its name is allowed there, up to 1KiB; so do tags, which objects don't have here.

If the service can't be reached, or the bucket is missing, the output is held and probed. As
the input does, it uses Google's default credentials; they need storage.objects.create,
storage.objects.delete to replace objects, and storage.objects.get for if_absent: if the
answer to a write is lost, flowd reads the object that is there, to see whether it has been
written.

    batchers:
      day:
        key: tenant
        batch: {size: 10000, bytes: 32MiB, timeout: 1m}
        processors: [archive: lines, compress: gzip]
        output: lake
    outputs:
      lake: {gcs: {bucket: lake, key: "orders/$(batch_key())/$(uuid()).ndjson.gz"}}
`

func init() {
	engine.Register(engine.Outputs, "gcs", about, Config{Target: objects.TargetDefaults, Checksum: "crc32c"}, newOutput)
}

func newOutput(c Config, _ engine.Env) (engine.Output, error) {
	w := gcs.Writing{StorageClass: c.StorageClass, KMSKey: c.KMSKey, ACL: c.ACL, Checksum: c.Checksum}
	return objects.NewOutput(&c.Target, func(ctx context.Context) (objects.Store, error) {
		s, err := c.Open(ctx, w)
		if err != nil {
			return nil, err
		}
		return s, nil
	}), nil
}
