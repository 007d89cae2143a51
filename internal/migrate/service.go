package migrate

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// topLevel translates the sections of the process.
func (t *translator) topLevel(root *yaml.Node) {
	for _, p := range pairsOf(root) {
		switch p.key.Value {
		case "http":
			t.http(p)
		case "logger":
			log := mapping()
			switch level := strings.ToLower(text(p.value, "level")); level {
			case "", "info", "all":
			case "debug", "warn", "error":
				put(log, "level", scalar(level))
			case "trace":
				put(log, "level", scalar("debug"))
			default:
				put(log, "level", scalar("error"))
			}
			if text(p.value, "format") == "json" {
				put(log, "format", scalar("json"))
			}
			if len(log.Content) > 0 {
				put(t.service, "log", log)
			}
			for _, f := range []string{"file", "static_fields"} {
				if v := lookup(p.value, f); !empty(v) {
					t.says(v, f+" of logger is left out: the log goes to stderr")
				}
			}
		case "metrics":
			for _, m := range pairsOf(p.value) {
				switch m.key.Value {
				case "none", "prometheus", "json_api", "logger":
				case "mapping":
					t.says(m.key, "flowd's metrics have names of their own: the mapping is left out")
				default:
					t.says(m.key, fmt.Sprintf("metrics are read from service.listen, not sent to %s", m.key.Value))
				}
			}
		case "tracer":
			for _, m := range pairsOf(p.value) {
				switch m.key.Value {
				case "none":
				case "open_telemetry_collector":
					t.tracing(m)
				default:
					t.says(m.key, fmt.Sprintf("traces are sent by OTLP, not to %s: set service.tracing.endpoint to a receiver", m.key.Value))
				}
			}
		case "shutdown_timeout":
			put(t.engine, "drain", mapping("timeout", code(p.value.Value)))
		case "shutdown_delay":
			t.says(p.key, "a stop begins at once")
		default:
			if !slices.Contains(sectionsKnown, p.key.Value) && !strings.HasPrefix(p.key.Value, "x-") && !anchorsOnly(p) {
				t.extra = append(t.extra, p)
				t.note(Untranslated, p.key, fmt.Sprintf("section %s is not known", p.key.Value))
			}
		}
	}
}

// tracing translates where traces are sent: to the first address.
func (t *translator) tracing(p pair) {
	conf := mapping()
	for _, protocol := range []string{"grpc", "http"} {
		all := lookup(p.value, protocol)
		if all == nil || len(all.Content) == 0 {
			continue
		}
		if len(conf.Content) > 0 || len(all.Content) > 1 {
			t.says(all, "spans are sent to one receiver, the first one")
		}
		if len(conf.Content) > 0 {
			continue
		}
		scheme := "http://"
		if text(all.Content[0], "secure") == "true" {
			scheme = "https://"
		}
		address := text(all.Content[0], "address")
		if address == "" {
			address = text(all.Content[0], "url")
		}
		put(conf, "endpoint", scalar(scheme+address))
		put(conf, "protocol", scalar(protocol))
	}
	if sampling := lookup(p.value, "sampling"); text(sampling, "enabled") == "true" {
		put(conf, "sample", code(text(sampling, "ratio")))
	}
	if tags := lookup(p.value, "tags"); !empty(tags) {
		t.says(tags, "tags are left out: set them in the variable OTEL_RESOURCE_ATTRIBUTES")
	}
	put(t.service, "tracing", conf)
}

// anchorsOnly reports whether a top-level key only contains anchors.
func anchorsOnly(p pair) bool {
	return strings.HasPrefix(p.key.Value, ".") || strings.HasPrefix(p.key.Value, "_")
}

// ownPort gives an http_server without an address the address of the process, with which all of them share a server
// in the source system.
func (t *translator) ownPort(c *component) {
	http := lookup(t.src.root, "http")
	address := text(http, "address")
	if address != "" {
		put(c.out, "listen", scalar(address))
	}
	if t.sharesHTTP {
		t.lostField(c.out, pair{c.key, c.config}, "an address is for one input, and another one has that of http: listen")
		return
	}
	t.sharesHTTP = true
	if address == "" {
		t.says(c.key, "it has a port of its own, apart from that of metrics and health")
	}
	if cert := text(http, "cert_file"); cert != "" {
		put(c.out, "tls", mapping("cert", cert, "key", text(http, "key_file")))
	}
	if basic := pairOf(http, "basic_auth"); basic.key != nil && text(basic.value, "enabled") != "false" {
		t.lostField(c.out, basic, "auth.basic has a password, rather than its hash")
	}
}

// http translates the server for metrics and health.
func (t *translator) http(p pair) {
	if text(p.value, "enabled") == "false" {
		return
	}
	address := text(p.value, "address")
	if address == "" {
		return
	}
	if t.sharesHTTP {
		t.says(p.key, "metrics and health have no address, since the input http_server has that of http: service.listen")
		return
	}
	listen := scalar(address)
	host, port, ok := strings.Cut(address, ":")
	if ok && host != "127.0.0.1" && host != "localhost" && !t.src.env.has(address) {
		listen.Value = "127.0.0.1:" + port
		put(t.service, "listen", listen)
		t.differs(listen, p.key, "the admin API only listens on loopback, unless it has TLS and a token")
		return
	}
	put(t.service, "listen", listen)
}
