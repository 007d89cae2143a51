package httpx

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

func TestAuth(t *testing.T) {
	token := schema.NewSecret("tok")
	bearer := Auth{Bearer: &token}
	basic := Auth{Basic: &Basic{User: "u", Password: schema.NewSecret("p")}}
	tests := []struct {
		name   string
		auth   Auth
		header string
		want   bool
	}{
		{"nothing is asked for", Auth{}, "", true},
		{"the token", bearer, "Bearer tok", true},
		{"the scheme's case is free", bearer, "bearer tok", true},
		{"another token", bearer, "Bearer toc", false},
		{"a longer token", bearer, "Bearer tok ", false},
		{"no header", bearer, "", false},
		{"another scheme", bearer, "Basic tok", false},
		{"name and password", basic, "Basic dTpw", true},
		{"another password", basic, "Basic dTpx", false},
		{"nonsense", basic, "Basic !!", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", nil)
			if tt.header != "" {
				r.Header.Set("Authorization", tt.header)
			}
			if got := tt.auth.Allows(r); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWhatIsSetIsAllowed(t *testing.T) {
	token := schema.NewSecret("tok")
	for _, a := range []Auth{{}, {Bearer: &token}, {Basic: &Basic{User: "u", Password: token}}} {
		r := httptest.NewRequest("POST", "/", nil)
		a.Set(r)
		if !a.Allows(r) {
			t.Errorf("%+v does not allow what it sets", a)
		}
	}
}

func TestMetaLeavesCredentialsOut(t *testing.T) {
	r := httptest.NewRequest("POST", "/a?b", nil)
	r.Header.Set("Authorization", "x")
	r.Header.Set("Cookie", "x")
	r.Header["Http_path"] = []string{"posing"}
	r.Header.Set("X-Trace", "1")
	got := new(Metas).Of(r).Map()
	want := map[string]any{"http_method": "POST", "http_path": "/a", "http_query": "b", "http_remote": "192.0.2.1:1234",
		"x-trace": "1"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %v, want %v", k, got[k], v)
		}
	}
}

func TestRequestsOfAConnectionShareMetadata(t *testing.T) {
	long := strings.Repeat("x", maxKept)
	tests := []struct {
		name   string
		before func(*http.Request) // what the first request has; nil: as the second
		after  func(*http.Request)
		shared bool
	}{
		{"the same", nil, nil, true},
		{"what is no metadata changes", nil, func(r *http.Request) {
			r.Header.Set("Content-Length", "7")
			r.Header.Set("Cookie", "c")
		}, true},
		{"another method", nil, func(r *http.Request) { r.Method = "PUT" }, false},
		{"another path", nil, func(r *http.Request) { r.URL.Path = "/b" }, false},
		{"another query", nil, func(r *http.Request) { r.URL.RawQuery = "c" }, false},
		{"another client", nil, func(r *http.Request) { r.RemoteAddr = "192.0.2.2:1" }, false},
		{"another value", nil, func(r *http.Request) { r.Header.Set("X-Trace", "2") }, false},
		{"one more value", nil, func(r *http.Request) { r.Header.Add("X-Trace", "2") }, false},
		{"one header more", nil, func(r *http.Request) { r.Header.Set("X-More", "1") }, false},
		{"one header less", nil, func(r *http.Request) { r.Header.Del("X-Trace") }, false},
		{"another header", nil, func(r *http.Request) { r.Header.Del("X-Trace"); r.Header.Set("X-More", "1") }, false},
		{"much", func(r *http.Request) { r.Header.Set("X-Trace", long) },
			func(r *http.Request) { r.Header.Set("X-Trace", long) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request := func(with func(*http.Request)) *http.Request {
				r := httptest.NewRequest("POST", "/a?b", nil)
				r.Header.Set("X-Trace", "1")
				r.Header.Set("Content-Type", "text/plain")
				if with != nil {
					with(r)
				}
				return r
			}
			var c Metas
			first, r := c.Of(request(tt.before)), request(tt.after)
			got := c.Of(r)
			if (got == first) != tt.shared {
				t.Errorf("shared: %v", got == first)
			}
			if want := new(Metas).Of(r).Map(); !reflect.DeepEqual(got.Map(), want) {
				t.Errorf("got %v, want %v", got.Map(), want)
			}
		})
	}
}

func TestTheContextOfATraceTravelsOn(t *testing.T) {
	r := httptest.NewRequest("POST", "/a", nil)
	r.Header = http.Header{"X-Id": {"7"}, "Tracestate": {"a=1", "b=2"}, "Traceparent": {"00-1-2-01"}, "Baggage": {"k=v"}, "A": {"b"}}
	m := new(Metas).Of(r)
	got := map[string]any{}
	for name, v := range m.Added() {
		got[name] = v
	}
	want := map[string]any{"traceparent": "00-1-2-01", "tracestate": "a=1, b=2", "baggage": "k=v"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if v, _ := m.Get("x-id"); v != "7" {
		t.Errorf("x-id is %v", v)
	}
}
