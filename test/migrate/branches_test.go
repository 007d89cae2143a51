package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The steps of a branch run on the result of its request_map.
func TestBranches(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write([]byte(`{"got":` + string(quoteJSON(body)) + `}`)) //nolint:errcheck // the client may be gone
	}))
	defer server.Close()
	call := func(request string) string {
		return `
pipeline:
  processors:
    - branch:
        request_map: '` + request + `'
        processors: [{http: {url: "` + server.URL + `", verb: POST}}]
        result_map: root.r = this.got
output: ` + fileOutput("o")
	}
	array := func(do string) string {
		return `
pipeline:
  processors:
    - branch:
        request_map: root = this.items
        processors: [{unarchive: {format: json_array}}, ` + do + `{archive: {format: json_array}}]
        result_map: root.items = this
output: ` + fileOutput("o")
	}
	double := `{mapping: 'root.v = this.v * 2'}, `
	testTranslated(t, []completeCase{
		{"a text is sent as it is", call("root = this.name"), lines(`{"name":"Ann"}`),
			map[string]string{"o.txt": `{"name":"Ann","r":"Ann"}`}, nil},
		{"a field that is an object is JSON", call("root = this.o"), lines(`{"o":{"a":1}}`),
			map[string]string{"o.txt": `{"o":{"a":1},"r":"{\"a\":1}"}`}, nil},
		{"the payload as a text", call("root = content().string()"), lines(`{"a":1}`),
			map[string]string{"o.txt": `{"a":1,"r":"{\"a\":1}"}`}, nil},
		{"nothing at all", call(`root = ""`), lines(`{"a":1}`), map[string]string{"o.txt": `{"a":1,"r":""}`}, nil},
		{"a conditional text", call(`root = if this.a == 1 { this.b } else { deleted() }`),
			lines(`{"a":1,"b":"x"} {"a":2}`), map[string]string{"o.txt": `{"a":1,"b":"x","r":"x"} {"a":2}`}, nil},
		{"steps for each element of an array", array(double), lines(`{"items":[{"v":1},{"v":2},{"v":3}]} {"items":[]}`),
			map[string]string{"o.txt": `{"items":[{"v":2},{"v":4},{"v":6}]} {"items":[]}`}, nil},
		{"an array that is split and archived again", array(""), lines(`{"items":[1,2]}`),
			map[string]string{"o.txt": `{"items":[1,2]}`}, nil},
		{"a program gets a text as it is", strings.NewReplacer("http: {url: \""+server.URL+"\", verb: POST}",
			`subprocess: {name: cat}`, "this.got", "content().string()").Replace(call("root = this.name")),
			lines(`{"name":"Ann"}`), map[string]string{"o.txt": `{"name":"Ann","r":"Ann"}`}, nil},
		{"a text in a workflow is sent as it is", `
pipeline:
  processors:
    - workflow:
        meta_path: ""
        branches:
          a:
            request_map: root = this.name
            processors: [{http: {url: "` + server.URL + `", verb: POST}}]
            result_map: root.r = this.got
output: ` + fileOutput("o"), lines(`{"name":"Ann"}`), map[string]string{"o.txt": `{"name":"Ann","r":"Ann"}`}, nil},
	})
}

func quoteJSON(b []byte) []byte { return text(string(b)) }
