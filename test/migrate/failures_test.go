package main

import "testing"

const failsTwo = `
pipeline: {processors: [{mapping: 'root = if this.id == 2 { throw("bad") } else { this }'}]}`

// Failed messages must go to the same outputs as before the translation.
func TestRoutesOfFailures(t *testing.T) {
	testTranslated(t, []completeCase{
		{"messages failed by steps go to the next output of a fallback", failsTwo + `
output: {fallback: [{reject_errored: ` + fileOutput("f") + `}, ` + fileOutput("dlq") + `]}`,
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"id":2}`}, nil},
		{"to the next output that does not reject them", failsTwo + `
output:
  fallback:
    - reject_errored: ` + fileOutput("f") + `
    - reject_errored: ` + fileOutput("g") + `
    - ` + fileOutput("dlq") + `
    - ` + fileOutput("last"),
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"id":2}`}, nil},
		{"to the next output after a switch that rejects them", failsTwo + `
output:
  fallback:
    - switch: {cases: [{check: errored(), output: {reject: no}}, {output: ` + fileOutput("f") + `}]}
    - ` + fileOutput("dlq"),
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"id":2}`}, nil},
		{"with the error", failsTwo + `
output:
  fallback:
    - reject_errored: ` + fileOutput("f") + `
    - label: dlq
      file: {path: dlq.txt, codec: lines}
      processors: [{mapping: 'root.why = @fallback_error'}]`,
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dlq.txt": `{"why":"bad"}`}, nil},
		{"an output that rejects all messages is skipped", `
output: {fallback: [{reject: "x"}, ` + fileOutput("f") + `]}`,
			lines(three), map[string]string{"f.txt": three}, nil},
		{"an output that rejects all messages, between two others", `
output: {fallback: [` + fileOutput("f") + `, {reject: "x"}, ` + fileOutput("g") + `]}`,
			lines(three), map[string]string{"f.txt": three}, nil},
		{"messages that an output may lose do not go to the next one", `
output:
  fallback:
    - drop_on: {error: true, output: {label: a, file: {path: /proc/none/a.txt}, processors: []}}
    - ` + fileOutput("b"),
			lines(""), map[string]string{}, []string{"never get a message"}},
		{"messages that several outputs may lose do not go to the next one", `
output:
  fallback:
    - drop_on: {error: true, output: {broker: {pattern: round_robin, outputs: [` + fileOutput("a") + `, ` + fileOutput("b") + `]}}}
    - ` + fileOutput("c"),
			lines("x y"), map[string]string{"a.txt": "x", "b.txt": "y"}, []string{"never get a message"}},
		{"an output that two fallbacks name has its steps once", `
output:
  switch:
    cases:
      - {check: this.id == 1, output: {fallback: [{reject: no}, {resource: dlq}, ` + fileOutput("last") + `]}}
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
    - ` + fileOutput("g"),
			lines(`{"id":1}`), map[string]string{"f.txt": `{"id":1,"a":1,"b":1}`}, nil},
		{"steps of a dead letter can read the error", failsTwo + `
output:
  switch:
    cases:
      - check: errored()
        output:
          label: dead
          file: {path: dead.txt, codec: lines}
          processors: [{mapping: 'root.why = error()'}]
      - output: ` + fileOutput("f"),
			lines(three), map[string]string{"f.txt": `{"id":1} {"id":3}`, "dead.txt": `{"why":"bad"}`}, nil},
	})
}
