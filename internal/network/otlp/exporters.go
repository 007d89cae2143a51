//go:build !no_otel && (!slim || otel)

package otlp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// TraceClient returns what sends spans, for otlptrace.New. It does not connect yet.
func (c Client) TraceClient() (otlptrace.Client, error) {
	s, err := c.settings(Traces)
	if err != nil {
		return nil, err
	}
	if s.protocol == HTTP {
		compression := otlptracehttp.NoCompression
		if s.gzip {
			compression = otlptracehttp.GzipCompression
		}
		return otlptracehttp.NewClient(append(options(s, otlptracehttp.WithEndpointURL, otlptracehttp.WithHeaders,
			otlptracehttp.WithTimeout, otlptracehttp.WithTLSClientConfig), otlptracehttp.WithCompression(compression))...), nil
	}
	return otlptracegrpc.NewClient(append(options(s, otlptracegrpc.WithEndpointURL, otlptracegrpc.WithHeaders,
		otlptracegrpc.WithTimeout, credentialsOf(otlptracegrpc.WithTLSCredentials)), otlptracegrpc.WithDialOption(s.dial()))...), nil
}

// MetricExporter returns what sends metrics. It does not connect yet.
func (c Client) MetricExporter(ctx context.Context) (metric.Exporter, error) {
	s, err := c.settings(Metrics)
	if err != nil {
		return nil, err
	}
	if s.protocol == HTTP {
		compression := otlpmetrichttp.NoCompression
		if s.gzip {
			compression = otlpmetrichttp.GzipCompression
		}
		return otlpmetrichttp.New(ctx, append(options(s, otlpmetrichttp.WithEndpointURL, otlpmetrichttp.WithHeaders,
			otlpmetrichttp.WithTimeout, otlpmetrichttp.WithTLSClientConfig), otlpmetrichttp.WithCompression(compression))...)
	}
	return otlpmetricgrpc.New(ctx, append(options(s, otlpmetricgrpc.WithEndpointURL, otlpmetricgrpc.WithHeaders,
		otlpmetricgrpc.WithTimeout, credentialsOf(otlpmetricgrpc.WithTLSCredentials)), otlpmetricgrpc.WithDialOption(s.dial()))...)
}

// LogExporter returns what sends log records. It does not connect yet.
func (c Client) LogExporter(ctx context.Context) (log.Exporter, error) {
	s, err := c.settings(Logs)
	if err != nil {
		return nil, err
	}
	if s.protocol == HTTP {
		compression := otlploghttp.NoCompression
		if s.gzip {
			compression = otlploghttp.GzipCompression
		}
		return otlploghttp.New(ctx, append(options(s, otlploghttp.WithEndpointURL, otlploghttp.WithHeaders,
			otlploghttp.WithTimeout, otlploghttp.WithTLSClientConfig), otlploghttp.WithCompression(compression))...)
	}
	return otlploggrpc.New(ctx, append(options(s, otlploggrpc.WithEndpointURL, otlploggrpc.WithHeaders,
		otlploggrpc.WithTimeout, credentialsOf(otlploggrpc.WithTLSCredentials)), otlploggrpc.WithDialOption(s.dial()))...)
}

// settings are a [Client] in the terms of the exporters, whose options have the same names and different types.
type settings struct {
	protocol Protocol
	url      string
	headers  map[string]string
	gzip     bool
	timeout  time.Duration
	tls      *tls.Config // nil without TLS
}

func (c Client) settings(signal Signal) (settings, error) {
	c, err := c.For(signal)
	if err != nil {
		return settings{}, err
	}
	s := settings{protocol: c.Protocol, url: c.Endpoint, headers: map[string]string{}, gzip: c.Compression == "gzip", timeout: c.Timeout}
	for name, value := range c.Headers.All() {
		s.headers[name] = value.Reveal()
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return settings{}, fmt.Errorf("endpoint: %w", err)
	}
	if u.Scheme == "https" {
		s.tls, err = c.TLS.Config()
	}
	return s, err
}

// options returns the options of one exporter.
func options[O any](s settings, url func(string) O, headers func(map[string]string) O, timeout func(time.Duration) O,
	tls func(*tls.Config) O,
) []O {
	all := []O{url(s.url), headers(s.headers), timeout(s.timeout)}
	if s.tls != nil {
		all = append(all, tls(s.tls))
	}
	return all
}

func credentialsOf[O any](option func(credentials.TransportCredentials) O) func(*tls.Config) O {
	return func(conf *tls.Config) O { return option(credentials.NewTLS(conf)) }
}

// dial sets the compression of gRPC. The exporters' own option can't switch off what the environment switches on.
func (s settings) dial() grpc.DialOption {
	name := encoding.Identity
	if s.gzip {
		name = gzip.Name
	}
	return grpc.WithDefaultCallOptions(grpc.UseCompressor(name))
}
