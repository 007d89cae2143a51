package mqtt

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestConfig(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{"one filter", `"topics": "a/+/b", "client_id": "c"`, ""},
		{"several", `"topics": ["a/#", "$share/g/b", "#", "+", "/"], "client_id": "c"`, ""},
		{"each with its QoS", `"topics": {"a": 2, "b": 0}, "client_id": "c"`, ""},
		{"version 3.1.1", `"topics": "a", "client_id": "c", "version": "3.1.1"`, ""},
		{"neither a session nor a client id", `"topics": "a", "session_expiry": "0s"`, ""},
		{"nothing is acknowledged without QoS", `"topics": "a", "qos": 0`, ""},
		{"no topics", `"client_id": "c"`, "topics: required"},
		{"no filter", `"topics": [], "client_id": "c"`, "must not be empty"},
		{"an empty filter", `"topics": "", "client_id": "c"`, "is empty"},
		{"# in the middle", `"topics": "a/#/b", "client_id": "c"`, "a # that is not at the end"},
		{"+ in a level", `"topics": ["a/b+"], "client_id": "c"`, `"a/b+" has a wildcard that is not a level of its own`},
		{"a group without a filter", `"topics": "$share/g", "client_id": "c"`, "write $share/GROUP/FILTER"},
		{"two groups", `"topics": "$share/g/a", "share": "h", "client_id": "c"`, "and share names another"},
		{"a group with a slash", `"topics": "a", "share": "g/h", "client_id": "c"`, "contains /"},
		{"a filter twice", `"topics": ["a", "a"], "client_id": "c"`, "occurs twice"},
		{"QoS 3", `"topics": {"a": 3}, "client_id": "c"`, "QoS 3"},
		{"no client id", `"topics": "a"`, "give this client a name"},
		{"share with 3.1.1", `"topics": "a", "share": "g", "client_id": "c", "version": "3.1.1"`,
			"version 3.1.1 has no shared subscriptions"},
		{"max_packet with 3.1.1", `"topics": "a", "client_id": "c", "version": "3.1.1", "max_packet": 1000`,
			"can't be sent to the server"},
		{"version 4", `"topics": "a", "client_id": "c", "version": 4`, "version"},
		{"a fraction of a second", `"topics": "a", "client_id": "c", "session_expiry": "1500ms"`, "whole seconds"},
		{"a field of another product", `"topic": "a", "topics": "a", "client_id": "c"`, "write `topics`"},
		{"a will with a wildcard", `"topics": "a", "client_id": "c", "will": {"topic": "a/#"}`, "wildcard"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := enginetest.Problems(t, engine.Inputs, `{"mqtt": {"url": "mqtt://h", `+tt.config+`}}`)
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) || tt.want != "" && len(got) != 1 {
				t.Errorf("got %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestURL(t *testing.T) {
	const rest = `, "topics": "a", "client_id": "c"`
	tests := []struct{ name, config, want string }{
		{"TLS", `"url": "mqtts://u:p@h:1", "tls": {"ca": "x"}, "alpn": "mqtt"`, ""},
		{"several, and a WebSocket", `"url": ["mqtt://h", "wss://h/mqtt", "ws://h"]`, ""},
		{"tcp", `"url": "tcp://h:1883"`, "write mqtt:// instead of tcp://"},
		{"ssl", `"url": "ssl://h"`, "write mqtts:// instead of ssl://"},
		{"no scheme", `"url": "localhost:1883"`, "does not begin with mqtt://"},
		{"no URL", `"url": []`, "must not be empty"},
		{"no host", `"url": "mqtt://:1883"`, "has no host"},
		{"a path", `"url": "mqtt://h/topic"`, "has a path"},
		{"parameters", `"url": "mqtt://h?qos=1"`, "has parameters"},
		{"the second is wrong", `"url": ["mqtt://h", "http://h"]`, "the second of them does not begin"},
		{"TLS of a plain URL", `"url": "mqtt://h", "tls": {"ca": "x"}`, "does not ask for TLS"},
		{"a password alone", `"url": "mqtt://h", "password": "x"`, "needs a user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := enginetest.Problems(t, engine.Inputs, `{"mqtt": {`+tt.config+rest+`}}`)
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) || tt.want != "" && len(got) != 1 {
				t.Errorf("got %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestTraits(t *testing.T) {
	tests := []struct {
		config string
		want   engine.TakesBack
	}{
		{`"client_id": "c"`, engine.TakesPosition},
		{`"client_id": "c", "qos": 0`, engine.TakesNothing},
		{`"session_expiry": "0s"`, engine.TakesNothing},
	}
	for _, tt := range tests {
		in := enginetest.New(t, engine.Inputs, `{"mqtt": {"url": "mqtt://h", "topics": "a", `+tt.config+`}}`)
		if got := engine.TraitsOf(in).TakesBack; got != tt.want {
			t.Errorf("%s: takes back %v, want %v", tt.config, got, tt.want)
		}
	}
}
