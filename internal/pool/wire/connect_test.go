package wire

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestAnAddressIsShownWithoutItsPassword(t *testing.T) {
	for url, want := range map[string]string{
		"hub:5019":                               "hub:5019",
		"nats://hub:4222":                        "nats://hub:4222",
		"nats://user:hush@hub:4222":              "nats://***@hub:4222",
		"hush@hub:4222":                          "***@hub:4222",
		"nats://a:1,tls://u:hu@sh@b:2, ws://c:3": "nats://a:1,tls://***@b:2, ws://c:3",
	} {
		if got := (&Target{URL: url}).String(); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

func TestErrorsDoNotShowPasswords(t *testing.T) {
	for _, url := range []string{"nats://user:hush@127.0.0.1:1", "nats://user:hush/more@127.0.0.1:1",
		"nats://user:hush@%zz:1"} {
		_, err := (&Target{URL: url, Token: "hush"}).Connect("test", nats.RetryOnFailedConnect(false),
			nats.NoReconnect())
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}
