package otlp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/schema"
)

func TestSettingsAreFromTheConfigurationThenTheEnvironment(t *testing.T) {
	const common, own = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for _, tt := range []struct {
		name   string
		client Client
		env    map[string]string
		want   string // protocol, endpoint, compression, timeout, headers, CA
	}{
		{name: "defaults", want: "grpc http://localhost:4317 none 10s"},
		{name: "http has a path", client: Client{Protocol: HTTP}, want: "http http://localhost:4318/v1/traces none 10s"},
		{name: "a path before that of the signal", client: Client{Protocol: HTTP, Endpoint: "https://x.example/otlp/"},
			want: "http https://x.example:4318/otlp/v1/traces none 10s"},
		{name: "the configuration precedes the environment",
			client: Client{Endpoint: "http://a:1", Protocol: GRPC, Compression: "none", Timeout: time.Second,
				Headers: schema.MapOf(schema.Entry[schema.Secret]{Key: "k", Value: schema.NewSecret("v")})},
			env: map[string]string{common + "ENDPOINT": "http://b:2", common + "PROTOCOL": "http/protobuf", common + "COMPRESSION": "gzip",
				common + "TIMEOUT": "5000", common + "HEADERS": "a=b"}, want: "grpc http://a:1 none 1s k=v"},
		{name: "variables", env: map[string]string{common + "ENDPOINT": "http://b:2/p", common + "PROTOCOL": "http/protobuf",
			common + "COMPRESSION": "gzip", common + "TIMEOUT": "5000", common + "HEADERS": "a=b%2Cc , d=e=f", common + "CERTIFICATE": "ca.pem"},
			want: "http http://b:2/p/v1/traces gzip 5s a=b,c d=e=f ca.pem"},
		{name: "variables of the signal precede those of all", env: map[string]string{common + "ENDPOINT": "http://b:2",
			own + "ENDPOINT": "http://c:3/x", own + "PROTOCOL": "http/protobuf", common + "PROTOCOL": "grpc"}, want: "http http://c:3/x none 10s"},
		{name: "without a scheme", env: map[string]string{common + "ENDPOINT": "b:2"}, want: "grpc https://b:2 none 10s"},
		{name: "without a scheme, insecure", env: map[string]string{common + "ENDPOINT": "b:2", common + "INSECURE": "TRUE"},
			want: "grpc http://b:2 none 10s"},
		{name: "JSON", env: map[string]string{common + "PROTOCOL": "http/json"},
			want: `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json", which is not supported (set it to grpc or http/protobuf)`},
		{name: "no URL", env: map[string]string{common + "ENDPOINT": "ftp://x"},
			want: `"ftp://x" is not the URL of a receiver (write a URL such as "http://127.0.0.1:4317")`},
		{name: "no headers", env: map[string]string{common + "HEADERS": "a=b,secret"},
			want: "OTEL_EXPORTER_OTLP_HEADERS: header 2 is not name=value (percent-encode % and commas)"},
		{name: "no timeout", env: map[string]string{common + "TIMEOUT": "10s"},
			want: `OTEL_EXPORTER_OTLP_TIMEOUT is "10s", which is not a number of milliseconds (such as 10000)`},
		{name: "no compression", env: map[string]string{common + "COMPRESSION": "zstd"},
			want: `OTEL_EXPORTER_OTLP_COMPRESSION is "zstd", which is not supported (set it to gzip or none)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			c, err := tt.client.For(Traces)
			got := fmt.Sprint(c.Protocol, " ", c.Endpoint, " ", c.Compression, " ", c.Timeout)
			for name, value := range c.Headers.All() {
				got += " " + name + "=" + value.Reveal()
			}
			if got = strings.TrimSpace(got + " " + c.TLS.CA); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
