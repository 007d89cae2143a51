// Package s3 is the [objects.Store] for Amazon S3 and what speaks its protocol. Start at
// [Config.Open].
package s3

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// Config says where a bucket is.
type Config struct {
	Bucket     string `yaml:"bucket" check:"required,nonempty" doc:"Name of the bucket, or the ARN of an access point."`
	aws.Config `yaml:",inline"`
	PathStyle  *bool `yaml:"path_style" doc:"Put the bucket in the path of URLs, not in the host name; the default if endpoint is an address or a name without a dot."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	switch {
	case strings.HasPrefix(c.Bucket, "s3://"):
		report("bucket", "is a URL", "write only the bucket's name, and what follows it as `prefix` or `key`")
	case strings.HasPrefix(c.Bucket, "arn:"):
	case strings.ContainsAny(c.Bucket, "/ \t\n?#%"):
		report("bucket", "is not the name of a bucket", "write what follows the name as `prefix` or `key`")
	}
}

// pathStyle reports whether URLs have the bucket in their path.
func (c *Config) pathStyle() bool {
	if c.PathStyle != nil {
		return *c.PathStyle
	}
	u, err := url.Parse(c.Endpoint)
	if c.Endpoint == "" || err != nil {
		return false
	}
	return net.ParseIP(u.Hostname()) != nil || !strings.Contains(u.Hostname(), ".")
}

// Words returns what users of other systems may write, and what to write instead.
func Words() map[string]string {
	words := aws.Words()
	for _, queue := range []string{"queue_url", "queue_name", "queue_arn", "url", "max_in_flight"} {
		delete(words, queue)
	}
	for name, remedy := range objects.Words() {
		words[name] = remedy
	}
	return words
}

// Writing is how objects are written. The zero Writing leaves all to the bucket.
type Writing struct {
	StorageClass types.StorageClass
	Encryption   types.ServerSideEncryption
	KMSKey       string
	BucketKey    bool
	ACL          types.ObjectCannedACL
	Checksum     string // crc32c, crc32, sha256; none and "" are none
}

// Store is a bucket.
type Store struct {
	Writing
	bucket  string
	session *aws.Session
	client  *awss3.Client
	signed  bool // payloads are part of the signature, since nothing else protects them
}

var _ objects.Store = (*Store)(nil)

// Open finds region and credentials, and that the bucket exists. Over, when not nil, carries
// the requests: it is for tests.
func (c *Config) Open(ctx context.Context, w Writing, over *http.Client) (*Store, error) {
	session, err := c.Config.Open(ctx, "", over)
	if err != nil {
		return nil, err
	}
	s := &Store{Writing: w, bucket: c.Bucket, session: session, client: clientOf(session, c.pathStyle()),
		signed: strings.HasPrefix(c.Endpoint, "http://")}
	if err := s.Probe(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Session is that of the store.
func (s *Store) Session() *aws.Session { return s.session }

// Close drops idle connections.
func (s *Store) Close() { s.session.Close() }

// clientOf returns a client for buckets. With pathStyle, the path of URLs names the bucket, and not the host.
func clientOf(session *aws.Session, pathStyle bool) *awss3.Client {
	return awss3.NewFromConfig(session.Config(), func(o *awss3.Options) {
		o.BaseEndpoint, o.UsePathStyle = cmp.Or(session.Endpoint(), o.BaseEndpoint), pathStyle
		o.RequestChecksumCalculation = awssdk.RequestChecksumCalculationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
	})
}
