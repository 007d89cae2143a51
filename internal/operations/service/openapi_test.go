package service

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/history"
	"github.com/flowd-io/flowd/schema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fakePipelines has the pipeline orders, and rejects any change of the pipeline bad.
type fakePipelines struct{}

func (fakePipelines) List() []PipelineFile {
	return []PipelineFile{{Name: "orders", State: "running", File: "orders.yaml"}}
}

func (fakePipelines) Text(name string) ([]byte, error) {
	if name != "orders" {
		return nil, NoPipeline(name, []string{"orders"})
	}
	return []byte("name: orders\n"), nil
}

func (fakePipelines) Put(name string, _ []byte) (bool, []schema.Problem, error) {
	switch name {
	case "locked":
		return false, nil, Unavailable([]schema.Problem{{Code: "secret-unavailable", Message: "sealed"}})
	case "bad":
		return false, nil, Invalid([]schema.Problem{{Code: "required", Message: "required", Pos: schema.Pos{File: "bad.yaml", Line: 1, Col: 1}}})
	}
	return name != "orders", []schema.Problem{{Code: "unused-cache", Warning: true}}, nil
}

func (fakePipelines) change(name string) error {
	if name != "orders" {
		return errors.New("the disk is full")
	}
	return nil
}

func (f fakePipelines) Remove(name string) error  { return f.change(name) }
func (f fakePipelines) Start(name string) error   { return f.change(name) }
func (f fakePipelines) Stop(name string) error    { return f.change(name) }
func (f fakePipelines) Restart(name string) error { return f.change(name) }

// closeObjects makes objects that have properties accept no others.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["properties"] != nil {
			v["additionalProperties"] = false
		}
		for _, x := range v {
			closeObjects(x)
		}
	case []any:
		for _, x := range v {
			closeObjects(x)
		}
	}
}

func TestTheDocumentIsValidOpenAPI(t *testing.T) {
	s := serve(t, Config{Pipelines: fakePipelines{}}, &fake{snapshots: twoPipelines()})
	_, text, _ := send(t, s, http.MethodGet, "/openapi.json", "")
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile("testdata/openapi-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Errorf("%v", err)
	}
}

// TestAnswersAreAsDocumented sends each documented request, valid and not, and checks the answers against the document.
func TestAnswersAreAsDocumented(t *testing.T) {
	all := twoPipelines()
	all[0].State, all[1].State = engine.Stopped, engine.Stopped // so that /ready fails
	push := func(context.Context, string, string, *engine.Batch) ([]*engine.Result, error) {
		return []*engine.Result{{Fate: engine.Returned, Err: engine.Errorf(engine.Rejected, "no such table")}}, nil
	}
	trace := func(id string) (history.Trace, error) {
		if id == "none" {
			return history.Trace{}, history.ErrOff
		}
		return history.Trace{Messages: []history.Message{{ID: id, Events: []history.Event{{Name: "filter"}}}}}, nil
	}
	taps := 0
	tap := func(w http.ResponseWriter, _ *http.Request) error {
		if taps++; taps > 1 {
			return errors.New("too many")
		}
		w.Header().Set("Content-Type", linesType)
		return nil
	}
	s := serve(t, Config{Pipelines: fakePipelines{}, Tap: tap, Trace: trace}, &fake{snapshots: all, push: push})
	_, text, _ := send(t, s, http.MethodGet, "/openapi.json", "")
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	closeObjects(document)
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	type operation struct {
		OperationID string
		Security    []any
		RequestBody struct{ Content map[string]any }
		Responses   map[string]struct{ Content map[string]any }
	}
	var api struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal([]byte(text), &api); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{"post_api_v1_limit": `{"name": "api", "messages": 5, "per": "1s"}`,
		"post_api_v1_pipelines_name_messages":              `{"payload": 1}`,
		"post_api_v1_pipelines_name_inputs_input_messages": `{"payload": 1}`}
	seen := map[string]bool{} // operations with the status of an answer
	ask := func(method, path, at string, o operation, name, body, media string) {
		t.Helper()
		if path == "/api/v1/trace" {
			path += map[string]string{"orders": "?id=1", "bad": "?id=none"}[name]
		}
		path = strings.NewReplacer("{name}", name, "{profile}", name, "{input}", "web").Replace(path)
		headers := []string{"Content-Type", media}
		if status, _, _ := send(t, s, method, path, body, headers...); (status == http.StatusUnauthorized) != (len(o.Security) > 0) {
			t.Errorf("%s %s: %d without the token, but its security is %v", method, path, status, o.Security)
		}
		status, answer, header := send(t, s, method, path, body, append(headers, "Authorization", "Bearer "+tokenText)...)
		key := strconv.Itoa(status)
		if _, ok := o.Responses[key]; !ok {
			key = "default"
		}
		seen[o.OperationID+" "+key] = true
		got, _, _ := strings.Cut(header.Get("Content-Type"), ";")
		if o.Responses[key].Content[got] == nil {
			t.Errorf("%s %s: %d with the content type %s, which is not documented", method, path, status, got)
			return
		}
		if got != "application/json" {
			return
		}
		schema, err := compiler.Compile("openapi.json#" + at + "/responses/" + key + "/content/application~1json/schema")
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s %s: %d %s\n%v", method, path, status, answer, err)
		}
	}
	for path, operations := range api.Paths {
		for method, o := range operations {
			at := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method
			method = strings.ToUpper(method)
			media, body := "", ""
			for m := range o.RequestBody.Content {
				media, body = m, bodies[o.OperationID]
			}
			if media == "application/json" && body == "" {
				body = "{}"
			}
			names := []string{"orders", "bad", "locked", "new"}
			if strings.Contains(path, "{profile}") {
				names = []string{"heap", "bad"}
			}
			for _, name := range names {
				ask(method, path, at, o, name, body, media)
			}
			if media != "" {
				ask(method, path, at, o, "orders", "not JSON", "text/plain")
			}
		}
	}
	for path, operations := range api.Paths {
		for _, o := range operations {
			for status := range o.Responses {
				unreached := status == "default" && o.RequestBody.Content == nil && !strings.Contains(path, "{") ||
					o.OperationID == "get_live" && status == "503" || o.OperationID == "get_ready" && status == "200"
				if !seen[o.OperationID+" "+status] && !unreached {
					t.Errorf("%s never answers %s (it answers %v)", o.OperationID, status, slices.Sorted(maps.Keys(seen)))
				}
			}
		}
	}
}
