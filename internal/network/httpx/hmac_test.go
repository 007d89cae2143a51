package httpx

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Examples that GitHub and Slack give in their documentation.
func TestSignaturesThatOthersHavePublished(t *testing.T) {
	tests := []struct {
		name           string
		hmac           HMAC
		at, body, want string
	}{
		{"GitHub", HMAC{Secret: schema.NewSecret("It's a Secret to Everybody"), Algorithm: "sha256"}, "",
			"Hello, World!",
			"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
		{"Slack", HMAC{Secret: schema.NewSecret("8f742231b10e8888abcd99yyyzzz85a5"), Algorithm: "sha256",
			Timestamp: &Timestamp{Signed: "v0:{timestamp}:{body}"}}, "1531420618",
			"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&" +
				"user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885" +
				"554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			"a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.hmac.sum(tt.at, []byte(tt.body))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestHMAC(t *testing.T) {
	github := HMAC{Header: "X-Hub-Signature-256", Prefix: "sha256=", Algorithm: "sha256", Encoding: "hex"}
	shopify := HMAC{Header: "X-Shopify-Hmac-Sha256", Algorithm: "sha256", Encoding: "base64"}
	slack := HMAC{Header: "X-Slack-Signature", Prefix: "v0=", Algorithm: "sha256", Encoding: "hex",
		Timestamp: &Timestamp{Header: "X-Slack-Request-Timestamp", Signed: "v0:{timestamp}:{body}",
			Window: 5 * time.Minute}}
	stripe := HMAC{Header: "Stripe-Signature", Prefix: "v1=", Algorithm: "sha256", Encoding: "hex",
		Timestamp: &Timestamp{Field: "t", Signed: "{timestamp}.{body}", Window: 5 * time.Minute}}
	const body, now = "the body", 946684800 // when synctest's clock begins
	// printf 'the body' | openssl dgst -sha256 -hmac secret
	const plain = "cb3d9b26cc954ff9c9a7d7c6bd8ecd8c3dba0be07e83a297c6adb45a4f805832"
	tests := []struct {
		name    string
		hmac    HMAC
		headers string // with SUM for the signature of the body
		after   time.Duration
		want    bool
	}{
		{"GitHub", github, "X-Hub-Signature-256: sha256=SUM", 0, true},
		{"as OpenSSL signs", github, "X-Hub-Signature-256: sha256=" + plain, 0, true},
		{"long after, without a time", github, "X-Hub-Signature-256: sha256=SUM", time.Hour, true},
		{"in capital letters", github, "X-Hub-Signature-256: sha256=SUMUP", 0, true},
		{"without the prefix", github, "X-Hub-Signature-256: SUM", 0, false},
		{"several in one header that is whole", github, "X-Hub-Signature-256: sha256=SUM,sha256=SUM", 0, false},
		{"a letter less", github, "X-Hub-Signature-256: sha256=SUMCUT", 0, false},
		{"no header", github, "", 0, false},
		{"another header", github, "X-Hub-Signature: sha256=SUM", 0, false},
		{"base64", shopify, "X-Shopify-Hmac-Sha256: SUM", 0, true},
		{"hexadecimal where base64 is asked for", shopify, "X-Shopify-Hmac-Sha256: " + plain, 0, false},
		{"Slack", slack, "X-Slack-Signature: v0=SUM\nX-Slack-Request-Timestamp: 946684800", 0, true},
		{"at the end of the window", slack, "X-Slack-Signature: v0=SUM\nX-Slack-Request-Timestamp: 946684800",
			5 * time.Minute, true},
		{"behind it", slack, "X-Slack-Signature: v0=SUM\nX-Slack-Request-Timestamp: 946684800",
			5*time.Minute + time.Second, false},
		{"another time", slack, "X-Slack-Signature: v0=SUM\nX-Slack-Request-Timestamp: 946684801", 0, false},
		{"no time", slack, "X-Slack-Signature: v0=SUM", 0, false},
		{"a time that is none", slack, "X-Slack-Signature: v0=SUM\nX-Slack-Request-Timestamp: now", 0, false},
		{"a time beyond all", slack, "X-Slack-Signature: v0=SUM\nX-Slack-Request-Timestamp: 9223372036854775807", 0,
			false},
		{"Stripe", stripe, "Stripe-Signature: t=946684800,v1=SUM,v0=6ffb", 0, true},
		{"a second key", stripe, "Stripe-Signature: t=946684800, v1=6ffb, v1=SUM", 0, true},
		{"an older scheme", stripe, "Stripe-Signature: t=946684800,v0=SUM", 0, false},
		{"too old", stripe, "Stripe-Signature: t=946684800,v1=SUM", time.Hour, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.hmac.Secret = schema.NewSecret("secret")
				sum := tt.hmac.sum(fmt.Sprint(now), []byte(body))
				text := hex.EncodeToString(sum)
				if tt.hmac.Encoding == "base64" {
					text = base64.StdEncoding.EncodeToString(sum)
				}
				r := httptest.NewRequest("POST", "/", nil)
				headers := strings.NewReplacer("SUMUP", strings.ToUpper(text), "SUMCUT", text[1:], "SUM",
					text).Replace(tt.headers)
				for line := range strings.SplitSeq(headers, "\n") {
					name, value, _ := strings.Cut(line, ": ")
					r.Header.Set(name, value)
				}
				time.Sleep(tt.after) // virtual
				a := ServerAuth{HMAC: &tt.hmac}
				if got := a.Allows(r) && a.Signed(r, []byte(body)); got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
				if a.Allows(r) && a.Signed(r, []byte("another body")) {
					t.Error("another body has the same signature")
				}
			})
		})
	}
}

func TestAServerThatAsksForNoSignature(t *testing.T) {
	token := schema.NewSecret("tok")
	r := httptest.NewRequest("POST", "/", nil)
	a := ServerAuth{Auth: Auth{Bearer: &token}}
	if a.Allows(r) || !a.Signed(r, nil) || a.IsZero() {
		t.Error("the token is not asked for")
	}
	a.Set(r)
	if !a.Allows(r) || !new(ServerAuth).Allows(r) || !new(ServerAuth).IsZero() {
		t.Error("the token does not suffice")
	}
}
