package registry_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/registry"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

const order = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`

// fake is a registry that takes requests down, and the client under test.
type fake struct {
	*srfake.Registry
	engine.SchemaRegistry

	mu  sync.Mutex // guards the field below
	got []string
}

func start(t *testing.T, answer srfake.Interceptor) *fake {
	t.Helper()
	f := &fake{Registry: srfake.New()}
	t.Cleanup(f.Close)
	f.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		f.mu.Lock()
		f.got = append(f.got, r.Method+" "+r.URL.RequestURI())
		f.mu.Unlock()
		return answer != nil && answer(w, r)
	})
	f.SchemaRegistry = open(t, registry.Config{URL: registry.URLs{f.URL()}, Timeout: 2 * time.Second})
	return f
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func open(t *testing.T, c registry.Config) engine.SchemaRegistry {
	t.Helper()
	c.Refresh, c.AskAgain = time.Hour, time.Hour
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	r := c.New(engine.Env{Secrets: &schema.Secrets{}})
	if err := r.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.(engine.Closer).Close(t.Context()) })
	return r
}

func add(t *testing.T, f *fake, subject string, s sr.Schema) int {
	t.Helper()
	id, _, err := f.RegisterSchema(subject, s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestASchemaIsAskedForOnceWithAllThatItNeeds(t *testing.T) {
	f := start(t, nil)
	add(t, f, "money", sr.Schema{Schema: `{"type":"fixed","name":"Money","size":8}`})
	add(t, f, "item", sr.Schema{Schema: `{"type":"record","name":"Item","fields":[{"name":"m","type":"Money"}]}`,
		References: []sr.SchemaReference{{Name: "Money", Subject: "money", Version: 1}}})
	id := add(t, f, "orders", sr.Schema{Schema: `{"type":"array","items":"Item"}`, References: []sr.SchemaReference{
		{Name: "Item", Subject: "item", Version: 1}, {Name: "Money", Subject: "money", Version: 1}}})
	for range 3 {
		s, err := f.Schema(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		want := &engine.Schema{ID: id, Type: "AVRO", Text: `{"type":"array","items":"Item"}`, Needs: []engine.NamedSchema{
			{Name: "Money", Text: `{"type":"fixed","name":"Money","size":8}`},
			{Name: "Item", Text: `{"type":"record","name":"Item","fields":[{"name":"m","type":"Money"}]}`}}}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := f.requests(); len(got) != 3 {
		t.Errorf("the registry was asked %q", got)
	}
}

func TestSubjectsAreFoundAndAdded(t *testing.T) {
	f := start(t, nil)
	own := engine.Schema{Type: "AVRO", Text: order}
	if _, err := f.Find(t.Context(), "a/b-value", own); classOf(err) != engine.Permanent ||
		!strings.Contains(err.Error(), "register: true") {
		t.Errorf("a schema that is not there: %v", err)
	}
	made, err := f.Register(t.Context(), "a/b-value", own)
	if err != nil || made.ID == 0 {
		t.Fatalf("%v, %v", made, err)
	}
	newest, err := f.Newest(t.Context(), "a/b-value")
	if err != nil || newest.ID != made.ID || newest.Text != order {
		t.Errorf("the newest is %v, %v, want id %d", newest, err, made.ID)
	}
	again, err := f.Register(t.Context(), "a/b-value", own)
	if err != nil || again.ID != made.ID {
		t.Errorf("%v, %v, want id %d", again, err, made.ID)
	}
	want := []string{"POST /subjects/a%2Fb-value", "POST /subjects/a%2Fb-value",
		"POST /compatibility/subjects/a%2Fb-value/versions?verbose=true", "POST /subjects/a%2Fb-value/versions",
		"GET /subjects/a%2Fb-value/versions/latest"}
	if diff := cmp.Diff(want, f.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAnIncompatibleSchemaIsNotAdded(t *testing.T) {
	f := start(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/compatibility/") {
			return false
		}
		_, _ = w.Write([]byte(`{"is_compatible": false, "messages": ["READER_FIELD_MISSING_DEFAULT_VALUE: /fields/1"]}`))
		return true
	})
	add(t, f, "orders-value", sr.Schema{Schema: `"string"`})
	_, err := f.Register(t.Context(), "orders-value", engine.Schema{Type: "AVRO", Text: order})
	if classOf(err) != engine.Permanent || !strings.Contains(err.Error(), "READER_FIELD_MISSING_DEFAULT_VALUE: /fields/1") {
		t.Errorf("%v", err)
	}
	if _, ok := f.GetSchema("orders-value", 2); ok {
		t.Error("the schema was added")
	}
}

func TestWhatARegistrySaysHasAClass(t *testing.T) {
	says := func(status int, body string) srfake.Interceptor {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	tests := []struct {
		name   string
		answer srfake.Interceptor
		class  engine.Class
		want   string
	}{
		{"an id that it does not know", nil, engine.Decode, "does not know schema id 7"},
		{"no credentials", says(401, `{"error_code":40101,"message":"who?"}`), engine.Auth, "401 Unauthorized: "},
		{"no permission", says(403, `<html>`), engine.Auth, "403 Forbidden: "},
		{"too many requests", says(429, ``), engine.Transient, "429 Too Many Requests"},
		{"a failure of its own", says(500, `{"error_code":50001,"message":"store"}`), engine.Transient,
			"500 Internal Server Error: "},
		{"a failure of a proxy", says(502, `<html>bad gateway</html>`), engine.Transient, "502 Bad Gateway"},
		{"another server's 404", says(404, `<html>`), engine.Transient, "404 Not Found"},
		{"a redirect to where credentials have no business", says(307, ``), engine.Transient, "307 Temporary Redirect"},
		{"a page", says(200, `<html>Welcome</html>`), engine.Transient, "the response is not that of a schema registry"},
		{"an answer without end", says(200, `{"schema":"`+strings.Repeat("x", 5<<20)+`"}`), engine.Decode, "longer than 4 MiB"},
		{"an error without end", says(500, strings.Repeat("x", 1<<20)), engine.Transient, "500 Internal"},
		{"nothing in time", func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
			engine.Timeout, "registry http://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, tt.answer)
			for range 2 { // the second from memory
				_, err := f.Schema(t.Context(), 7)
				if classOf(err) != tt.class || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 600 {
					t.Errorf("class %s: %.700v, want %s with %q", classOf(err), err, tt.class, tt.want)
				}
			}
			if got := f.requests(); len(got) != 1 {
				t.Errorf("the registry was asked %q", got)
			}
		})
	}
}

func TestTheNextRegistryIsAskedWhenOneCantBeReached(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	f := srfake.New(srfake.WithAuth("Bearer sesame"))
	t.Cleanup(f.Close)
	id, _, err := f.RegisterSchema("s", sr.Schema{Schema: order})
	if err != nil {
		t.Fatal(err)
	}
	token := schema.NewSecret("sesame")
	with := httpx.Auth{Bearer: &token}
	both := open(t, registry.Config{URL: registry.URLs{gone.URL, f.URL()}, Auth: with})
	if _, err := both.Schema(t.Context(), id); err != nil {
		t.Error(err)
	}
	_, err = open(t, registry.Config{URL: registry.URLs{gone.URL}, Auth: with}).Schema(t.Context(), id)
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || e.Class != engine.Transient || !e.Holds || strings.Contains(fmt.Sprint(err), "sesame") {
		t.Errorf("none can be reached: %v", err)
	}
}

func TestReferencesAreBounded(t *testing.T) {
	f := start(t, func(w http.ResponseWriter, r *http.Request) bool {
		n := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/subjects/s%d/", &n)
		fmt.Fprintf(w, `{"id":1,"schema":"\"int\"","references":[{"name":"n","subject":"s%d","version":1}]}`, n+1)
		return true
	})
	_, err := f.Schema(t.Context(), 1)
	if classOf(err) != engine.Decode || !strings.Contains(err.Error(), "refers to more than 256 schemas") {
		t.Errorf("%v", err)
	}
}

func classOf(err error) engine.Class {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return e.Class
	}
	return ""
}
