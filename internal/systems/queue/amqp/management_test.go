package amqp

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

func TestQueueName(t *testing.T) {
	tests := []struct {
		text, name string
		pattern    bool
	}{
		{"orders", "orders", false},
		{"", "", false},
		{"orders-*", "orders-*", true},
		{"what?", "what?", true},
		{"[a]", "[a]", true},
		{`what\?`, "what?", false},
		{`a\\b\*\[c]`, `a\b*[c]`, false},
		{`a\*-*`, `a\*-*`, true},
		{`end\`, `end\`, false},
	}
	for _, tt := range tests {
		if name, pattern := QueueName(tt.text); name != tt.name || pattern != tt.pattern {
			t.Errorf("%q: got %q, %v", tt.text, name, pattern)
		}
	}
}

func TestManagementIsOnTheHostOfTheBrokerByDefault(t *testing.T) {
	tests := []struct{ broker, management, want string }{
		{"amqp://h", "", "http://h:15672"},
		{"amqp://h:5672/v", "", "http://h:15672"},
		{"amqps://h", "", "https://h:15671"},
		{"amqp://[::1]:99", "", "http://[::1]:15672"},
		{"amqps://h", "http://m:80/x", "http://m:80/x"},
		{"amqp://h", "m:80", "management is not a URL (write http://HOST:15672, or https://HOST:15671)"},
	}
	for _, tt := range tests {
		uri, err := parse(tt.broker)
		if err != nil {
			t.Fatal(err)
		}
		d := directory{uri: uri, management: tt.management}
		got := ""
		if u, err := d.base(); err != nil {
			got = err.Error()
		} else {
			got = u.String()
		}
		if got != tt.want {
			t.Errorf("%s and %q: got %s, want %s", tt.broker, tt.management, got, tt.want)
		}
	}
}

func TestQueuesComeInPagesWithUserAndPassword(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		asked = append(asked, user+":"+password+" "+r.URL.EscapedPath()+" "+r.URL.Query().Get("page"))
		items := `[{"name": "a-1", "type": "classic"}, {"name": "b-1", "type": "classic"}, {"name": "a-x", "type": "classic", "exclusive": true}]`
		if r.URL.Query().Get("page") == "2" {
			items = `[{"name": "a-2", "type": "quorum"}, {"name": "a-s", "type": "stream"}]`
		}
		_, _ = w.Write([]byte(`{"page_count": 2, "items": ` + items + `}`))
	}))
	defer s.Close()
	c := Connect{URL: schema.URLs{schema.NewSecret("amqp://u:p@h/a%2Fb"), schema.NewSecret("amqp://other")}}
	got, err := c.Queues(t.Context(), schema.NewSecret(s.URL), "a-*", false)
	if err != nil || !slices.Equal(got, []string{"a-1", "a-2"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if want := []string{"u:p /api/queues/a%2Fb 1", "u:p /api/queues/a%2Fb 2"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if got, err := c.Queues(t.Context(), schema.NewSecret(strings.Replace(s.URL, "//", "//m:n@", 1)), "a-*",
		true); err != nil || !slices.Equal(got, []string{"a-s"}) || !strings.HasPrefix(asked[2], "m:n ") {
		t.Errorf("got %q, %v, asked %q", got, err, asked)
	}
}
