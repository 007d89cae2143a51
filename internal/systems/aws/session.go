// Package aws has what the components for Amazon's services share: [Config] for endpoint, region and credentials, [Session]
// for clients, [Explain] for errors, [Requests] for batch calls, and [Attributes] for metadata.
package aws

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config says where a service is and which credentials to use. Fields that are not set come from the environment
// (AWS_REGION, AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …), the shared configuration files, or the machine's role, as with any
// other AWS tool.
type Config struct {
	Region      string         `yaml:"region" doc:"Region, such as eu-central-1; by default the one in a queue's ARN or URL, AWS_REGION, or the profile's."`
	Endpoint    string         `yaml:"endpoint" doc:"URL of the service, for emulators and private endpoints; by default the region's, or AWS_ENDPOINT_URL."`
	Profile     string         `yaml:"profile" doc:"Profile of the shared configuration files; AWS_PROFILE by default."`
	Credentials *Credentials   `yaml:"credentials" doc:"Keys to use instead of those from the environment, the profile or the machine."`
	Role        *Role          `yaml:"role" doc:"Role to assume with these credentials."`
	TLS         tlsconf.Client `yaml:"tls" doc:"Certificates to trust and to present."`
}

// Credentials are an access key.
type Credentials struct {
	AccessKeyID     string        `yaml:"access_key_id" check:"required,nonempty" doc:"Access key id."`
	SecretAccessKey schema.Secret `yaml:"secret_access_key" check:"required,nonempty" doc:"Secret access key."`
	SessionToken    schema.Secret `yaml:"session_token" doc:"Session token of temporary keys."`
}

// Role is a role to assume.
type Role struct {
	ARN        string        `yaml:"arn,main" check:"required,nonempty" doc:"ARN of the role."`
	ExternalID schema.Secret `yaml:"external_id" doc:"External id that the role's owner requires."`
}

// CheckConfig reports an endpoint that is not valid.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Endpoint == "" {
		return
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		report("endpoint", "is not a service URL", `write "http://localhost:4566" or "https://HOST"`)
	} else if u.User != nil {
		report("endpoint", "contains credentials", "write them in `credentials`")
	}
}

// Words returns what users of other systems may write, and what to write instead.
func Words() map[string]string {
	return map[string]string{
		"access_key_id":     "write `credentials: {access_key_id, secret_access_key}`",
		"secret_access_key": "write `credentials: {access_key_id, secret_access_key}`",
		"aws_access_key_id": "write `credentials: {access_key_id, secret_access_key}`",
		"endpoint_url":      "write `endpoint`", "aws_region": "write `region`",
		"role_arn": "write `role`", "assume_role": "write `role`", "queue_url": "write `queue`",
		"queue_name": "write `queue`", "queue_arn": "write `queue`", "url": "write `queue`",
		"wait_time": "write `wait`", "wait_time_seconds": "write `wait`", "visibility_timeout": "write `visibility`",
		"max_number_of_messages": "write `max`", "max_messages": "write `max`",
		"auto_visibility_timeout": "leases are renewed unless `lease: {renew: false}`",
		"delete_message":          "write `delete`", "auto_delete": "write `delete`",
		"message_group_id": "write `group_id`", "message_deduplication_id": "write `dedupe_id`",
		"delay_seconds": "write `delay`", "topic_arn": "write `topic`",
		"max_in_flight":   "write `concurrency` beside the component",
		"retry_intervals": "write `engine.on_failure.retry.intervals`",
	}
}

// Session makes clients of services, with the credentials that were found. It is safe for concurrent use.
type Session struct {
	cfg      aws.Config
	http     *http.Client
	own      bool // Close closes the connections of http
	endpoint *string
}

// Open finds the region and the credentials. region is used if the configuration has none. A client that is not nil replaces
// the session's own HTTP client, for tests.
func (c *Config) Open(ctx context.Context, region string, client *http.Client) (*Session, error) {
	s := &Session{http: client, endpoint: Optional(c.Endpoint)}
	conf, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	network := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.TLSClientConfig, t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = conf, 64, httpx.MostHeader
	})
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(network), config.WithLogger(logging.Nop{}),
		config.WithAPIOptions([]func(*middleware.Stack) error{bound}),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 3, 2*time.Second })
		}),
	}
	if r := cmp.Or(c.Region, region); r != "" {
		options = append(options, config.WithRegion(r))
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	if k := c.Credentials; k != nil {
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(k.AccessKeyID,
			k.SecretAccessKey.Reveal(), k.SessionToken.Reveal())))
	}
	if s.cfg, err = config.LoadDefaultConfig(ctx, options...); err != nil {
		return nil, fmt.Errorf("AWS configuration: %w", err)
	}
	if s.http == nil {
		s.http, s.own = direct(s.cfg.HTTPClient), true
	}
	s.http = markUnsent(s.http)
	s.cfg.HTTPClient = s.http
	if s.cfg.Region == "" {
		if c.Endpoint == "" {
			return nil, engine.Errorf(engine.Permanent,
				"the region is unknown (set `region`, AWS_REGION, or a profile that has one)")
		}
		s.cfg.Region = "us-east-1" // what emulators expect
	}
	if r := c.Role; r != nil {
		s.cfg.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(s.cfg), r.ARN,
			func(o *stscreds.AssumeRoleOptions) {
				o.RoleSessionName = "flowd"
				if !r.ExternalID.IsZero() {
					o.ExternalID = aws.String(r.ExternalID.Reveal())
				}
			}))
	}
	if _, err := s.cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, Explain(&noCredentials{err}, "")
	}
	return s, nil
}

// Keys returns the current credentials and the region in use, for other services that accept Amazon's credentials, such as
// Kafka brokers with IAM. region is used if the configuration has none.
func (c *Config) Keys(ctx context.Context, region string) (keys aws.Credentials, inUse string, err error) {
	s, err := c.Open(ctx, region, nil)
	if err != nil {
		return keys, "", err
	}
	defer s.Close()
	keys, err = s.cfg.Credentials.Retrieve(ctx)
	return keys, s.cfg.Region, err
}

// direct returns a client with the transport that the SDK has configured from the environment (AWS_CA_BUNDLE). It follows no
// redirects, since the signature of a request is valid for one host only.
func direct(client aws.HTTPClient) *http.Client {
	d := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if b, ok := client.(*awshttp.BuildableClient); ok {
		d.Transport = b.GetTransport()
	}
	return d
}

// mostAnswer bounds the bytes of an answer, which the client copies several times. It suffices for one of the largest
// messages with the escapes of JSON, and for a page of 1000 long keys.
const mostAnswer = 4 << 20

// bound limits the size of the answers of all services, including those that issue credentials. Without it, the client would
// read an answer of any size into memory.
func bound(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("BoundAnswer", func(ctx context.Context,
		in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput,
		about middleware.Metadata, err error) {
		_, err = httpx.Bound(ctx, mostAnswer, func(ctx context.Context) (*http.Response, error) {
			out, about, err = next.HandleDeserialize(ctx, in)
			res, ok := out.RawResponse.(*smithyhttp.Response)
			if err == nil && !ok {
				err = fmt.Errorf("unexpected answer %T", out.RawResponse)
			}
			if err != nil {
				return nil, err
			}
			return res.Response, nil
		})
		return out, about, err
	}), middleware.After)
}

// markUnsent returns a client whose errors show whether any part of the request was sent ([httpx.IsUnsent]).
func markUnsent(client *http.Client) *http.Client {
	c := *client
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = httpx.Transport{RoundTripper: withoutWriteTo{c.Transport}}
	return &c
}

// withoutWriteTo hides the WriteTo method of request bodies. Amazon's client closes a body as soon as the answer begins, when
// the transport may not yet have reached the end of the body. WriteTo of a closed body returns [io.EOF], which the transport
// takes for a failure: it closes the connection in the middle of the answer. The client then repeats a request that the
// service has already carried out.
type withoutWriteTo struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (p withoutWriteTo) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody {
		r := *req
		r.Body = struct{ io.ReadCloser }{req.Body}
		req = &r
	}
	return p.RoundTripper.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (p withoutWriteTo) CloseIdleConnections() {
	if c, ok := p.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Region returns the region of the session's services.
func (s *Session) Region() string { return s.cfg.Region }

// Config returns the configuration from which the client of a service is made. The client must also be given
// [Session.Endpoint], unless that is nil.
func (s *Session) Config() aws.Config { return s.cfg }

// Endpoint returns the URL of the service, or nil if the configuration names none.
func (s *Session) Endpoint() *string { return s.endpoint }

// SQS returns a client of SQS.
func (s *Session) SQS() *sqs.Client {
	return sqs.NewFromConfig(s.cfg, func(o *sqs.Options) { o.BaseEndpoint = cmp.Or(s.endpoint, o.BaseEndpoint) })
}

// Queues returns a client of SQS with another region or endpoint. "" means that of the session.
func (s *Session) Queues(region, endpoint string) *sqs.Client {
	return sqs.NewFromConfig(s.cfg, func(o *sqs.Options) {
		o.BaseEndpoint, o.Region = cmp.Or(Optional(endpoint), o.BaseEndpoint), cmp.Or(region, o.Region)
	})
}

// Close closes idle connections. Calls that are still running are not disturbed. Closing a nil Session does nothing.
func (s *Session) Close() {
	if s != nil && s.own {
		s.http.CloseIdleConnections()
	}
}
