// Package s3 writes messages as objects of Amazon S3, and of stores that speak its protocol.
// How objects are written is in internal/systems/objects, and how S3 is called in
// internal/systems/objects/s3.
package s3

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/systems/objects/s3"
)

// Config configures the output.
type Config struct {
	s3.Config      `yaml:",inline"`
	objects.Target `yaml:",inline"`
	StorageClass   string      `yaml:"storage_class" doc:"Storage class, such as STANDARD_IA, INTELLIGENT_TIERING or GLACIER_IR; by default, that of the store."`
	Encryption     *Encryption `yaml:"encryption" doc:"Server-side encryption; by default, that of the bucket."`
	Checksum       string      `yaml:"checksum" check:"oneof=crc32c|crc32|sha256|none" doc:"Checksum that the store verifies and keeps. Older stores support none."`
	ACL            string      `yaml:"acl" check:"oneof=private|public-read|public-read-write|authenticated-read|aws-exec-read|bucket-owner-read|bucket-owner-full-control" doc:"Canned access control list, if the bucket allows one."`
}

// Encryption is how the store encrypts objects.
type Encryption struct {
	Type      string `yaml:"type,main" check:"oneof=AES256|aws:kms|aws:kms:dsse" default:"aws:kms" doc:"AES256 uses keys of the store; aws:kms and aws:kms:dsse use a KMS key."`
	Key       string `yaml:"key" doc:"Id or ARN of the KMS key; by default, the account's default key."`
	BucketKey bool   `yaml:"bucket_key" doc:"Use a bucket key, which needs fewer KMS calls."`
}

// CheckConfig reports what makes no sense together.
func (e *Encryption) CheckConfig(report func(path, message, remedy string)) {
	if e.Type == "AES256" && (e.Key != "" || e.BucketKey) {
		report("key", "is for keys of KMS", "write `type: aws:kms`, or remove it")
	}
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	c.Check(report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string { return s3.Words() }

const about = `
Writes each message as an object to Amazon S3 or a compatible store.

To write many messages as one object, combine a batch into one with archive. An object
appears whole or not at all: large ones are sent in parts, and the parts of a failed one are
removed. Messages of a write with the same key are written in order, so the last one wins.

The payload is sent as it is. Metadata other than the input's own becomes metadata of the
object, if its name is allowed there, up to 1KiB.

If the store can't be reached, or the bucket is missing or in another region, the output is
held and probed. The credentials need s3:PutObject, s3:AbortMultipartUpload for large objects,
and s3:GetObject for if_absent: if the answer to a write is lost, flowd reads the object that
is there, to see whether it has been written.

    batchers:
      day:
        key: tenant
        batch: {size: 10000, bytes: 32MiB, timeout: 1m}
        processors: [archive: lines, compress: gzip]
        output: lake
    outputs:
      lake: {s3: {bucket: lake, key: "orders/$(batch_key())/$(uuid()).ndjson.gz"}}
`

func init() {
	engine.Register(engine.Outputs, "s3", about, Config{Target: objects.TargetDefaults, Checksum: "crc32c"}, newOutput)
}

func newOutput(c Config, _ engine.Env) (engine.Output, error) { return build(&c, nil), nil }

// build makes an output. over, when not nil, carries its requests.
func build(c *Config, over *http.Client) *objects.Output {
	w := s3.Writing{StorageClass: types.StorageClass(c.StorageClass), ACL: types.ObjectCannedACL(c.ACL),
		Checksum: c.Checksum}
	if e := c.Encryption; e != nil {
		w.Encryption, w.KMSKey, w.BucketKey = types.ServerSideEncryption(e.Type), e.Key, e.BucketKey
	}
	return objects.NewOutput(&c.Target, func(ctx context.Context) (objects.Store, error) {
		s, err := c.Open(ctx, w, over)
		if err != nil {
			return nil, err
		}
		return s, nil
	})
}
