package service

import (
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// endpoint is a request that the listener answers, and what the OpenAPI document says about it.
type endpoint struct {
	pattern string // of http.ServeMux
	serve   http.Handler
	token   bool // required

	summary string
	query   []string    // parameters, which are whole numbers
	texts   []string    // parameters, which are text
	body    any         // a value of the type of the JSON body, or a media; nil: there is none
	answers map[int]any // likewise, by status; any other answer is a refusal
}

// media is a body that is not JSON: its media type.
type media string

// documented returns the endpoints with one more, which serves their OpenAPI document.
func documented(all []endpoint, version string) []endpoint {
	var document map[string]any
	all = append(all, endpoint{pattern: "GET /openapi.json", summary: "This document.",
		answers: map[int]any{http.StatusOK: map[string]any(nil)},
		serve: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			respond(w, http.StatusOK, document)
		})})
	document = openAPI(all, version)
	return all
}

// openAPI returns the OpenAPI document of endpoints, which follows from their Go types.
func openAPI(all []endpoint, version string) map[string]any {
	s := schemas{}
	paths := map[string]map[string]any{}
	for _, e := range all {
		method, path, _ := strings.Cut(e.pattern, " ")
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = s.operation(e, method, path)
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "flowd admin API", "version": version,
			"description": "See docs/operations.md, or `flowd docs operations`."},
		"paths": paths,
		"components": map[string]any{
			"schemas": s,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer",
				"description": "The content of the token file, whose path flowd logs when it starts."}},
		},
	}
}

// schemas are the JSON Schemas of Go types, by their names in the document.
type schemas map[string]any

var inPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{(\w+)\}`) })

// operation describes one endpoint.
func (s schemas) operation(e endpoint, method, path string) map[string]any {
	answers := map[string]any{"default": answerOf("The request is refused, or has failed.", s.content(refusal{}))}
	for status, body := range e.answers {
		answers[strconv.Itoa(status)] = answerOf(http.StatusText(status), s.content(body))
	}
	words := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/{}.", r) })
	o := map[string]any{"summary": e.summary, "responses": answers,
		"operationId": strings.Join(append([]string{strings.ToLower(method)}, words...), "_")}
	var parameters []any
	for _, m := range inPath().FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, map[string]any{"name": m[1], "in": "path", "required": true,
			"schema": map[string]any{"type": "string"}})
	}
	for _, name := range e.query {
		parameters = append(parameters, map[string]any{"name": name, "in": "query",
			"schema": map[string]any{"type": "integer", "minimum": 0}})
	}
	for _, name := range e.texts {
		parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string"}})
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	if e.body != nil {
		o["requestBody"] = map[string]any{"required": true, "content": s.content(e.body)}
	}
	if e.token {
		o["security"] = []any{map[string]any{"token": []any{}}}
	}
	return o
}

func answerOf(description string, content any) map[string]any {
	return map[string]any{"description": description, "content": content}
}

// content describes a body.
func (s schemas) content(body any) map[string]any {
	if m, ok := body.(media); ok {
		return map[string]any{string(m): map[string]any{}}
	}
	return map[string]any{"application/json": map[string]any{"schema": s.of(reflect.TypeOf(body))}}
}

// of returns the schema of a type. It adds those of structs to s, and refers to them.
func (s schemas) of(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	}
	if t == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	if t.Name() == "" { // struct{}
		return map[string]any{"type": "object"}
	}
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if s[name] == nil {
		s[name] = map[string]any{} // for types that contain themselves
		s[name] = s.object(t)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// object returns the schema of a struct. Fields that may be left out are not required.
func (s schemas) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		properties[name] = s.of(field.Type)
		if !slices.Contains([]string{"omitempty", "omitzero"}, options) {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}
