package main

import (
	"fmt"
	"slices"
	"strings"
)

// isFlowd reports whether the contestant is flowd, whichever binary.
func (c *contestant) isFlowd() bool {
	return strings.HasPrefix(c.command, "$flowd ") || strings.HasPrefix(c.command, "$before ")
}

// rows has all benchmarks. The ones in this file end with their input. Where possible, goals
// are ratios to the limit or to a peer: unlike times, ratios within a run don't drift with
// the machine.
var rows = complete(fileRows, languageRows, httpRows, brokerRows, kafkaRows, mqttRows, natsRows, otlpRows, redisRows,
	objectRows, sqlRows, clickhouseRows, poisonRows, pollRows, stdinRows, poolRows, parquetRows, memoryRows, programRows)

var fileRows = []row{
	{
		name: "drop", does: "file → drop", check: counted, data: events, times: 4,
		contestants: []contestant{inFlowd("drop"), theLimit("split lines", "split $in"), inBenthos("drop")},
		goals:       []goal{{atLeast: 5000}, {than: "split lines", atLeast: 0.3}, {than: "benthos", atLeast: 40}},
	},
	{
		name: "copy", does: "file → file", check: copied, data: events,
		contestants: []contestant{inFlowd("copy"), theLimit("line copy", "copy $in $out"), inBenthos("copy")},
		goals:       []goal{{atLeast: 2000}, {than: "line copy", atLeast: 0.5}, {than: "benthos", atLeast: 18}},
	},
	{
		name: "filter", does: "file → filter, 2 × set → file; a third passes", check: transformed(graded, failed),
		data: events,
		contestants: []contestant{
			inFlowd("filter"), theLimit("scan and splice", "splice $in $out"),
			{name: "encoding/json", command: "$self baseline json $in $out"},
			{name: "benthos", command: "$benthos -c $conf/filter.benthos.yaml",
				vars: map[string]string{"threads": "-1"}},
			{name: "benthos, 1 thread", command: "$benthos -c $conf/filter.benthos.yaml",
				vars: map[string]string{"threads": "1"}},
			{name: "jq", command: "$jq -c -f $conf/filter.jq $in > $out"},
		},
		goals: []goal{{atLeast: 1000}, {than: "scan and splice", atLeast: 0.77}, {than: "benthos", atLeast: 20},
			{than: "jq", atLeast: 12}, {metric: peak, atMost: 60}},
	},
	{
		name: "stdin", does: "stdin → filter, 2 × set → stdout", check: transformed(graded, failed), data: events,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/stdin.flowd.yaml < $in > $out"},
			theLimit("scan and splice", "splice - < $in > $out"),
			{name: "benthos", command: "$benthos -c $conf/stdin.benthos.yaml < $in > $out"},
			{name: "jq", command: "$jq -c -f $conf/filter.jq < $in > $out"},
		},
		goals: []goal{{atLeast: 1000}, {than: "scan and splice", atLeast: 0.77}, {than: "benthos", atLeast: 20},
			{than: "jq", atLeast: 7}},
	},
	{
		name: "map", does: "file → decode and encode each message → file", check: transformed(wrapped, every), data: events,
		contestants: []contestant{
			inFlowd("map"), theLimit("encoding/json", "json-wrap $in $out"), inBenthos("map"),
			{name: "jq", command: "$jq -c -f $conf/map.jq $in > $out"},
		},
		goals: []goal{{atLeast: 300}, {than: "encoding/json", atLeast: 3.6}, {than: "benthos", atLeast: 6}},
	},
	{
		name: "generate", does: "generate → 2 steps → drop", check: counted, times: 3,
		contestants: []contestant{
			inFlowd("generate"), theLimit("scan and splice", "generate $n"), inBenthos("generate"),
		},
		goals: []goal{{atLeast: 3000}, {than: "benthos", atLeast: 13.7}},
	},
	{
		name: "keyed", does: "file → an open batch for each of a million keys → drop", check: counted,
		data:        keyed(1_000_000),
		contestants: []contestant{inFlowd("keyed"), theLimit("split lines", "split $in")},
		goals:       []goal{{atLeast: 500}, {metric: peak, atMost: 150}},
	},
	{
		name: "order", does: "file → filter, 2 × set → file, 8 lanes, in order for each of 997 keys",
		check: transformed(graded, failed), data: events,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/order.flowd.yaml", check: inOrder(transformed(graded, failed))},
			{name: "unordered", command: "$flowd -c $conf/unordered.flowd.yaml", limit: true},
		},
		goals: []goal{{than: "unordered", atLeast: 0.85}},
	},
	{
		name: "tax", does: "CPU time of the engine alone: a step that does nothing, with acknowledgements",
		metric: tax, run: runEngineAlone, times: 5,
		contestants: []contestant{{name: "flowd", command: "$self baseline identity $n"}},
		goals:       []goal{{atMost: 100}},
	},
}

// runEngineAlone is the runner of a row whose contestant reports the CPU time of the messages
// itself, since most of a process's CPU time would be startup.
func runEngineAlone(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	used, err := w.runToEnd(r, c, n)
	if err != nil {
		return s, err
	}
	var came int
	if _, err := fmt.Sscan(used.stderr, &came, (*int64)(&s.CPU)); err != nil || came != n {
		return s, fmt.Errorf("%d of %d messages were delivered: %s", came, n, used.stderr)
	}
	s.Messages, s.Wall, s.Peak = n, used.wall, used.peak
	return s, nil
}

// inFlowd is flowd with a pipeline from the directory configs.
func inFlowd(pipeline string) contestant {
	return contestant{name: "flowd", command: flowdRuns + " $conf/" + pipeline + ".flowd.yaml"}
}

// inBenthos is benthos with the configuration that does the same.
func inBenthos(pipeline string) contestant {
	return contestant{name: "benthos", command: "$benthos -c $conf/" + pipeline + ".benthos.yaml"}
}

// theLimit is a baseline of this program, as the limit of its row.
func theLimit(name, baseline string) contestant {
	return contestant{name: name, command: "$self baseline " + baseline, limit: true}
}

// complete concatenates the tables and sets defaults.
func complete(tables ...[]row) []row {
	all := slices.Concat(tables...)
	for i := range all {
		r := &all[i]
		if r.metric.value == nil {
			r.metric = rate
		}
		if r.run == nil {
			r.run = runFiles
		}
	}
	return all
}
