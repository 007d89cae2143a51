package httpx

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestBelow(t *testing.T) {
	tests := []struct {
		path string // of the configuration
		url  string
		want bool
	}{
		{"/events", "/events", true},
		{"/events", "/event%73", true},
		{"/events", "/events/", false},
		{"/events", "/events?a=/..", true},
		{"/", "/", true},
		{"/", "/a", true},
		{"/", "/a/", true},
		{"/", "/a//b", false},
		{"/", "//a", false},
		{"/", "/../a", false},
		{"/events/", "/events/", true},
		{"/events/", "/events/a/b", true},
		{"/events/", "/events/a%2Fb", true},
		{"/events/", "/events/...", true},
		{"/events/", "/events/a..b", true},
		{"/events/", "/events", false},
		{"/events/", "/events/../admin", false},
		{"/events/", "/events/..", false},
		{"/events/", "/events/./a", false},
		{"/events/", "/events/%2e%2E/admin", false},
		{"/events/", "/events/.%2e/admin", false},
		{"/events/", "/events/..%2fadmin", false},
		{"/events/", "/events%2F../admin", false},
		{"/events/", "/events%2fa", false},
		{"/events/", "/events/..;a/admin", false},
		{"/events/", "/events/;a/b", false},
		{"/events/", `/events/..\admin`, false},
		{"/events/", "/events/..%5cadmin", false},
		{"/events/", "//events/a", false},
		{"/a/b/", "/a%2fb/c", false},
		{"/a/b/", "/a/b/c", true},
		{"/é/", "/%C3%A9/x", true},
		{"/é/", "/%c3%a9/x", true},
	}
	for _, tt := range tests {
		u, err := url.ParseRequestURI(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := Below(u, tt.path); got != tt.want {
			t.Errorf("%s below %s: %v", tt.url, tt.path, got)
		}
	}
}

func TestAPanicOfAHandlerIsAnError(t *testing.T) {
	var out bytes.Buffer
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }))
	s.Config.ErrorLog = ErrorLog(slog.New(slog.NewTextHandler(&out, nil)))
	s.Start()
	if res, err := http.Get(s.URL); err == nil {
		res.Body.Close()
		t.Error("it is answered")
	}
	s.Close() // waits for what it logs
	if got := out.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "oh") ||
		!strings.Contains(got, "server_test.go") {
		t.Error(got)
	}
}
