package httpx

import (
	"net/http/httptest"
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
	got := Meta(r).Map()
	want := map[string]any{"http_method": "POST", "http_path": "/a", "http_query": "b", "http_remote": "192.0.2.1:1234", "x-trace": "1"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %v, want %v", k, got[k], v)
		}
	}
}
