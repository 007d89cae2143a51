package otlp

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Signal is a kind of telemetry, as it is called in paths.
type Signal string

// The signals.
const (
	Traces  Signal = "traces"
	Metrics Signal = "metrics"
	Logs    Signal = "logs"
)

// For returns the settings for one signal, all of them set: those that c leaves open are from the environment, or the defaults.
// With HTTP, the endpoint has the path of the signal.
func (c Client) For(s Signal) (Client, error) {
	if c.Protocol == "" {
		switch protocol := s.variable("PROTOCOL"); protocol {
		case "", "grpc":
			c.Protocol = GRPC
		case "http/protobuf":
			c.Protocol = HTTP
		default:
			return c, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, which is not supported (set it to grpc or http/protobuf)", protocol)
		}
	}
	endpoint, path := c.Endpoint, "/v1/"+string(s)
	if endpoint == "" {
		endpoint = s.variable("ENDPOINT")
		if s.own("ENDPOINT") != "" {
			path = "" // the variable of one signal is the whole URL
		}
		if endpoint != "" && !strings.Contains(endpoint, "://") {
			scheme := "https"
			if insecure, _ := strconv.ParseBool(s.variable("INSECURE")); insecure {
				scheme = "http"
			}
			endpoint = scheme + "://" + endpoint
		}
	}
	c.Endpoint = cmp.Or(endpoint, "http://localhost")
	u, err := c.parse()
	if err != nil {
		return c, fmt.Errorf(`%w (write a URL such as "http://127.0.0.1:4317")`, err)
	}
	if c.Protocol == HTTP && path != "" {
		u = u.JoinPath(path)
	}
	c.Endpoint = u.String()

	if c.Headers.Len() == 0 {
		if c.Headers, err = parseHeaders(s.variable("HEADERS")); err != nil {
			return c, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
		}
	}
	if c.Compression == "" {
		c.Compression = cmp.Or(s.variable("COMPRESSION"), "none")
		if c.Compression != "gzip" && c.Compression != "none" {
			return c, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q, which is not supported (set it to gzip or none)", c.Compression)
		}
	}
	if c.Timeout == 0 {
		text := cmp.Or(s.variable("TIMEOUT"), "10000")
		ms, err := strconv.ParseInt(text, 10, 32)
		if err != nil || ms <= 0 {
			return c, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q, which is not a number of milliseconds (such as 10000)", text)
		}
		c.Timeout = time.Duration(ms) * time.Millisecond
	}
	c.TLS.CA = cmp.Or(c.TLS.CA, s.variable("CERTIFICATE"))
	if c.TLS.Cert == "" {
		c.TLS.Cert, c.TLS.Key = s.variable("CLIENT_CERTIFICATE"), schema.NewSecret(s.variable("CLIENT_KEY"))
	}
	return c, nil
}

// variable returns a variable's value for this signal, or the one for all signals.
func (s Signal) variable(name string) string {
	return cmp.Or(s.own(name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

func (s Signal) own(name string) string {
	return os.Getenv("OTEL_EXPORTER_OTLP_" + strings.ToUpper(string(s)) + "_" + name)
}

// parseHeaders reads `name=value,name=value` with percent-encoded values.
func parseHeaders(text string) (schema.Map[schema.Secret], error) {
	var headers []schema.Entry[schema.Secret]
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" {
			// The text may be a secret.
			return schema.Map[schema.Secret]{}, fmt.Errorf("header %d is not name=value (percent-encode %% and commas)", len(headers)+1)
		}
		headers = append(headers, schema.Entry[schema.Secret]{Key: name, Value: schema.NewSecret(value)})
	}
	return schema.MapOf(headers...), nil
}

// Disabled reports whether the variable OTEL_SDK_DISABLED switches off all telemetry that flowd sends about itself.
func Disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }
