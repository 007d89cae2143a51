// Package otlp connects to OpenTelemetry: the settings of a connection ([Client]), and what follows from them for the exporters
// of traces, metrics and logs, and for the output otlp.
package otlp

import (
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Protocol is how OTLP is transported.
type Protocol string

// The protocols.
const (
	GRPC Protocol = "grpc"
	HTTP Protocol = "http" // protobuf in the body
)

// Client is where OTLP is sent. What is not set follows from the variables OTEL_EXPORTER_OTLP_*, as their specification says.
type Client struct {
	Endpoint    string                    `yaml:"endpoint,main" doc:"URL of the receiver, such as http://127.0.0.1:4317; with http as the protocol, also with a path before /v1/traces. By default that of the variable OTEL_EXPORTER_OTLP_ENDPOINT, else localhost. The variables for one signal, such as OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, precede those for all, here and below."`
	Protocol    Protocol                  `yaml:"protocol" check:"oneof=grpc|http" doc:"grpc (port 4317 by default) or http (protobuf in POST requests, port 4318). By default that of OTEL_EXPORTER_OTLP_PROTOCOL, else grpc."`
	Headers     schema.Map[schema.Secret] `yaml:"headers" doc:"Headers by name, such as an API key. By default those of OTEL_EXPORTER_OTLP_HEADERS."`
	Compression string                    `yaml:"compression" check:"oneof=gzip|none" doc:"gzip or none. By default that of OTEL_EXPORTER_OTLP_COMPRESSION, else none, as the specification says."`
	Timeout     time.Duration             `yaml:"timeout" check:"min=1ms,max=5m" doc:"Time limit for one request, with its retries. By default that of OTEL_EXPORTER_OTLP_TIMEOUT (in milliseconds), else 10s."`
	TLS         tlsconf.Client            `yaml:"tls" doc:"TLS settings other than the system's defaults, for an https:// endpoint."`
}

// Sender is where flowd sends its own telemetry.
type Sender struct {
	Client     `yaml:",inline"`
	Attributes schema.Map[string] `yaml:"attributes" doc:"Attributes of the resource, by name, such as deployment.environment.name. They precede those of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME. By default service.name is flowd; service.version, service.instance.id, host and process are set, too."`
}

// CheckConfig reports an endpoint that is not a URL.
func (c *Client) CheckConfig(report func(path, message, remedy string)) {
	if c.Endpoint == "" {
		return
	}
	if _, err := c.parse(); err != nil {
		report("endpoint", err.Error(), `write a URL such as "http://127.0.0.1:4317"`)
	}
}

// parse returns the endpoint with a port.
func (c *Client) parse() (*url.URL, error) {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not the URL of a receiver", c.Endpoint)
	case u.Port() == "" && c.Protocol == HTTP:
		u.Host = net.JoinHostPort(u.Hostname(), "4318")
	case u.Port() == "":
		u.Host = net.JoinHostPort(u.Hostname(), "4317")
	}
	return u, nil
}
