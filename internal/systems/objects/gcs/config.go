// Package gcs is the [objects.Store] for Google Cloud Storage. Start at [Config.Open]. It
// speaks the JSON API itself: Google's clients bring gRPC with them, which takes more memory
// at start than all else here.
package gcs

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/flowd-io/flowd/internal/systems/google"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// Config says where a bucket is.
type Config struct {
	Bucket        string `yaml:"bucket" check:"required,nonempty" doc:"Name of the bucket."`
	google.Config `yaml:",inline"`
	UserProject   string `yaml:"user_project" doc:"Project that pays for the requests, for buckets that require one."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	switch {
	case strings.HasPrefix(c.Bucket, "gs://"):
		report("bucket", "is a URL", "write only the bucket's name, and what follows it as `prefix` or `key`")
	case strings.ContainsAny(c.Bucket, "/ \t\n?#%"):
		report("bucket", "is not the name of a bucket", "write what follows the name as `prefix` or `key`")
	}
}

// Words returns what users of other systems may write, and what to write instead.
func Words() map[string]string {
	words := objects.Words()
	words["credentials_json"], words["credentials_file"] = "write `credentials`", "write `credentials`"
	words["kms_key_name"], words["encryption"] = "write `kms_key`", "write `kms_key`"
	words["predefined_acl"] = "write `acl`"
	return words
}

// Writing is how objects are written. The zero Writing leaves all to the bucket.
type Writing struct {
	StorageClass string
	KMSKey       string
	ACL          string
	Checksum     string // crc32c; none and "" are none
}

// Store is a bucket.
type Store struct {
	Writing
	bucket  string
	project string
	base    string // of all URLs
	client  *google.Client
}

var _ objects.Store = (*Store)(nil)

// emulator names an emulator to all clients of Cloud Storage.
const emulator = "STORAGE_EMULATOR_HOST"

// Open finds the credentials, and that the bucket exists. An emulator that the environment
// names gets none.
func (c *Config) Open(ctx context.Context, w Writing) (*Store, error) {
	identity := c.Config
	if host := os.Getenv(emulator); identity.Endpoint == "" && host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		identity.Endpoint, identity.Anonymous = host, true
	}
	client, err := identity.Open(ctx)
	if err != nil {
		return nil, err
	}
	base := strings.TrimRight(cmp.Or(identity.Endpoint, "https://storage.googleapis.com"), "/")
	s := &Store{Writing: w, bucket: c.Bucket, project: c.UserProject, client: client,
		base: strings.TrimSuffix(base, "/storage/v1")}
	if err := s.Probe(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close drops idle connections.
func (s *Store) Close() { s.client.Close() }
