package main

import "testing"

const failsTwo = `
pipeline: {processors: [{mapping: 'root = if this.id == 2 { throw("bad") } else { this }'}]}`

// What has failed goes where it went.
func TestWaysOfFailures(t *testing.T) {
	testWhole(t, []whole{
		{"what steps have failed goes to the next output of a fallback", failsTwo + `
output: {fallback: [{reject_errored: ` + to("f") + `}, ` + to("dlq") + `]}`,
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"id":2}`}, nil},
		{"to the next one that does not reject it", failsTwo + `
output:
  fallback:
    - reject_errored: ` + to("f") + `
    - reject_errored: ` + to("g") + `
    - ` + to("dlq") + `
    - ` + to("last"),
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"id":2}`}, nil},
		{"to the next one behind a switch that rejects it", failsTwo + `
output:
  fallback:
    - switch: {cases: [{check: errored(), output: {reject: no}}, {output: ` + to("f") + `}]}
    - ` + to("dlq"),
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"id":2}`}, nil},
		{"with why it has failed", failsTwo + `
output:
  fallback:
    - reject_errored: ` + to("f") + `
    - label: dlq
      file: {path: dlq.txt, codec: lines}
      processors: [{mapping: 'root.why = @fallback_error'}]`,
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"why":"bad"}`}, nil},
		{"an output that refuses all is passed", `
output: {fallback: [{reject: "x"}, ` + to("f") + `]}`,
			lines(three), map[string]string{"f.txt": three}, nil},
		{"between two others as well", `
output: {fallback: [` + to("f") + `, {reject: "x"}, ` + to("g") + `]}`,
			lines(three), map[string]string{"f.txt": three}, nil},
		{"what an output may lose does not go to the next one", `
output:
  fallback:
    - drop_on: {error: true, output: {label: a, file: {path: /proc/none/a.txt}, processors: []}}
    - ` + to("b"),
			lines(""), map[string]string{}, []string{"never get a message"}},
		{"nor if several of them may lose it", `
output:
  fallback:
    - drop_on: {error: true, output: {broker: {pattern: round_robin, outputs: [` + to("a") + `, ` + to("b") + `]}}}
    - ` + to("c"),
			lines("x y"), map[string]string{"a.txt": "x", "b.txt": "y"}, []string{"never get a message"}},
		{"an output that two fallbacks name has its steps once", `
output:
  switch:
    cases:
      - {check: this.id == 1, output: {fallback: [{reject: no}, {resource: dlq}, ` + to("last") + `]}}
      - output: {fallback: [{reject: no}, {resource: dlq}, {resource: more}]}
output_resources:
  - label: dlq
    file: {path: dlq.txt, codec: lines, batching: {count: 1, processors: [{mutation: 'root.id = this.id + 10'}]}}
  - label: more
    file: {path: more.txt, codec: lines}`,
			lines(`{"id":1} {"id":2}`), map[string]string{"dlq.txt": `{"id":11} {"id":12}`}, nil},
		{"steps around an output of a fallback are run before its own", `
output:
  fallback:
    - retry: {output: {label: f, file: {path: f.txt, codec: lines}, processors: [{mutation: root.b = this.a}]}}
      processors: [{mutation: root.a = this.id}]
    - ` + to("g"),
			lines(`{"id":1}`), map[string]string{"f.txt": `{"id":1,"a":1,"b":1}`}, nil},
		{"steps of a dead letter know why", failsTwo + `
output:
  switch:
    cases:
      - check: errored()
        output:
          label: dead
          file: {path: dead.txt, codec: lines}
          processors: [{mapping: 'root.why = error()'}]
      - output: ` + to("f"),
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dead.txt": `{"why":"bad"}`}, nil},
	})
}
