package main

import "testing"

// Batches have the same messages as before the translation, and steps see the same batches.
func TestBatchesOfInputs(t *testing.T) {
	testTranslated(t, []completeCase{
		{"steps of a batch come before those of the pipeline", `
input:
  broker:
    inputs: [{file: {paths: [in.txt], codec: lines}}]
    batching: {count: 2, period: 1s, processors: [{archive: {format: json_array}}]}
pipeline: {processors: [{mapping: root.n = this.length()}]}
output: ` + fileOutput("o"),
			lines(three), map[string]string{"o.txt": `{"n":2} {"n":1}`}, nil},
		{"steps of a batch that work on single messages", `
input:
  broker:
    inputs: [{file: {paths: [in.txt], codec: lines}}]
    batching: {count: 2, period: 1s, processors: [{mutation: root.a = this.id}]}
pipeline: {processors: [{mapping: root.n = this.a}]}
output: ` + fileOutput("o"),
			lines(three), map[string]string{"o.txt": `{"n":1} {"n":2} {"n":3}`}, nil},
		{"steps of an input do not apply to another input", `
input:
  broker:
    inputs:
      - {file: {paths: [in.txt], codec: lines}, processors: [{mapping: root.i = batch_index()}]}
      - {file: {paths: [more.txt], codec: lines}}
output: ` + fileOutput("o"),
			map[string]string{"in.txt": `{"id":1}`, "more.txt": `{"id":2}`},
			map[string]string{"o.txt": `{"i":0} {"id":2}`}, nil},
		{"an archive of one input has no messages of another", `
input:
  broker:
    inputs:
      - broker:
          inputs: [{file: {paths: [in.txt], codec: lines}}]
          batching: {count: 2, period: 1s, processors: [{archive: {format: json_array}}]}
      - {file: {paths: [more.txt], codec: lines}}
output: ` + fileOutput("o"),
			map[string]string{"in.txt": `{"id":1} {"id":2}`, "more.txt": `{"id":3} {"id":4}`},
			map[string]string{"o.txt": `[{"id":1},{"id":2}] {"id":3} {"id":4}`}, nil},
		{"each input has its own batches", `
input:
  broker:
    inputs:
      - broker:
          inputs: [{file: {paths: [in.txt], codec: lines}}]
          batching: {count: 2, period: 1s}
      - broker:
          inputs: [{file: {paths: [more.txt], codec: lines}}]
          batching: {count: 3, period: 1s}
pipeline: {processors: [{archive: {format: json_array}}]}
output: ` + fileOutput("o"),
			map[string]string{"in.txt": `1 2 3`, "more.txt": `4 5 6 7`},
			map[string]string{"o.txt": `[1,2] [3] [4,5,6] [7]`}, nil},
		{"each input has its own batches up to the output", `
input:
  broker:
    inputs:
      - broker:
          inputs: [{file: {paths: [in.txt], codec: lines}}]
          batching: {count: 2, period: 1s}
      - broker:
          inputs: [{file: {paths: [more.txt], codec: lines}}]
          batching: {count: 3, period: 1s}
output:
  label: o
  file: {path: o.txt, codec: lines}
  processors: [{archive: {format: json_array}}]`,
			map[string]string{"in.txt": `1 2 3`, "more.txt": `4 5 6 7`},
			map[string]string{"o.txt": `[1,2] [3] [4,5,6] [7]`}, nil},
		{"groups are written once, with a strict switch after them", `
input:
  broker:
    inputs: [{file: {paths: [in.txt], codec: lines}}]
    batching: {count: 3, period: 1s}
pipeline:
  processors:
    - group_by: [{check: this.id < 3, processors: [{archive: {format: json_array}}]}]
output:
  switch:
    strict_mode: true
    cases: [{check: this.id == 9, output: ` + fileOutput("nine") + `}, {continue: true, output: ` + fileOutput("o") + `}]`,
			lines(three), map[string]string{"o.txt": `[{"id":1},{"id":2}] {"id":3}`}, nil},
		{"groups have messages of one batch of the input", `
input:
  broker:
    inputs: [{file: {paths: [in.txt], codec: lines}}]
    batching: {count: 8, period: 1s}
pipeline: {processors: [{group_by_value: {value: '${! this.k }'}}, {archive: {format: json_array}}]}
output: {broker: {outputs: [` + fileOutput("o") + `], batching: {count: 2, period: 1s}}}`,
			lines(`{"k":1} {"k":2} {"k":1} {"k":2} {"k":1} {"k":2} {"k":1} {"k":2}`), map[string]string{
				"o.txt": `[{"k":1},{"k":1},{"k":1},{"k":1}] [{"k":2},{"k":2},{"k":2},{"k":2}]`}, []string{"Differs: "}},
		{"conditions see the results of a broker's batch steps", `
output:
  broker:
    batching: {count: 2, period: 1s, processors: [{archive: {format: json_array}}]}
    outputs:
      - ` + fileOutput("a") + `
      - switch: {cases: [{check: this.length() == 1, output: ` + fileOutput("one") + `}, {output: ` + fileOutput("two") + `}]}`,
			lines(`1 2 3`), map[string]string{"a.txt": "[1,2] [3]", "one.txt": "[3]", "two.txt": "[1,2]"}, nil},
		{"each input has its own groups", `
input:
  broker:
    inputs:
      - broker: {inputs: [{file: {paths: [in.txt], codec: lines}}], batching: {count: 2, period: 1s}}
      - file: {paths: [more.txt], codec: lines}
pipeline: {processors: [{group_by_value: {value: '${! this.k }'}}, {archive: {format: json_array}}]}
output: ` + fileOutput("o"),
			map[string]string{"in.txt": `{"k":1} {"k":1}`, "more.txt": `{"k":1} {"k":1}`},
			map[string]string{"o.txt": `[{"k":1},{"k":1}] [{"k":1}] [{"k":1}]`}, nil},
		{"steps of an output see the batches of the input", `
input:
  broker:
    inputs:
      - broker: {inputs: [{file: {paths: [in.txt], codec: lines}}], batching: {count: 2, period: 1s}}
      - file: {paths: [more.txt], codec: lines}
output:
  fallback:
    - {label: o, file: {path: o.txt, codec: lines}, processors: [{archive: {format: json_array}}]}
    - ` + fileOutput("p"),
			map[string]string{"in.txt": `1 2 3`, "more.txt": `4 5`}, map[string]string{"o.txt": `[1,2] [3] [4] [5]`}, nil},
		{"steps that keep a batch together pass it on", `
input: {broker: {inputs: [{file: {paths: [in.txt], codec: lines}}], batching: {count: 2, period: 1s}}}
pipeline: {processors: [{mutation: root.i = batch_index()}]}
output: {label: o, file: {path: o.txt, codec: lines}, processors: [{archive: {format: json_array}}]}`,
			lines(three), map[string]string{"o.txt": `[{"id":1,"i":0},{"id":2,"i":1}] [{"id":3,"i":0}]`}, nil},
		{"a buffer batches the messages of all inputs", `
input: {broker: {inputs: [{file: {paths: [in.txt], codec: lines}}, {file: {paths: [more.txt], codec: lines}}]}}
buffer:
  memory:
    batch_policy: {enabled: true, count: 4, period: 1s, processors: [{archive: {format: json_array}}]}
pipeline: {processors: [{mapping: root = this.length()}]}
output: ` + fileOutput("o"),
			map[string]string{"in.txt": `1 2`, "more.txt": `3 4`}, map[string]string{"o.txt": `4`}, nil},
		{"a batch by key that differs from the input's has a note", `
input:
  broker:
    inputs: [{file: {paths: [in.txt], codec: lines}}]
    batching: {count: 2, period: 1s}
pipeline: {processors: [{group_by_value: {value: '${! this.k }'}}, {archive: {format: json_array}}]}
output: ` + fileOutput("o"),
			lines(`{"k":1} {"k":1}`), map[string]string{"o.txt": `[{"k":1},{"k":1}]`},
			[]string{"Differs: a batch has as many messages of one key; there it had those of a key among as many of all"}},
		{"groups of an input without batches have one message", `
pipeline: {processors: [{group_by_value: {value: '${! this.k }'}}, {archive: {format: json_array}}]}
output: ` + fileOutput("o"),
			lines(`{"k":1} {"k":2} {"k":1}`), map[string]string{"o.txt": `[{"k":1}] [{"k":2}] [{"k":1}]`}, nil},
		{"groups of the parts of one message", `
pipeline:
  processors:
    - unarchive: {format: json_array}
    - group_by_value: {value: '${! this.k }'}
    - archive: {format: json_array}
output: ` + fileOutput("o"),
			lines(`[{"k":1},{"k":2},{"k":1}]`), map[string]string{"o.txt": `[{"k":1},{"k":1}] [{"k":2}]`},
			[]string{"Differs: "}},
	})
}
