package main

import (
	"fmt"
	"slices"
	"strings"
)

// program is the first word of a contestant's command.
func (c *contestant) isFlowd() bool {
	return strings.HasPrefix(c.command, "$flowd ") || strings.HasPrefix(c.command, "$before ")
}

// rows are the table of work: those that end with their input are in this file. Goals are ratios to the limit or to a peer where there
// is one, since times drift with the machine and ratios taken in one run do not.
var rows = complete(fileRows, languageRows, httpRows, brokerRows, kafkaRows, mqttRows, natsRows, redisRows,
	objectRows, sqlRows, houseRows, poisonRows, pollRows, stdinRows, poolRows, parquetRows, memoryRows)

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
		name: "filter", does: "file → filter, 2 set → file; a third passes", check: becomes(graded, failed),
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
		name: "stdin", does: "stdin → filter, 2 set → stdout", check: becomes(graded, failed), data: events,
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
		name: "map", does: "file → decode and encode all of it → file", check: becomes(wrapped, every), data: events,
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
		name: "keyed", does: "file → one open batch for each of a million keys → drop", check: counted,
		data:        keyed(1_000_000),
		contestants: []contestant{inFlowd("keyed"), theLimit("split lines", "split $in")},
		goals:       []goal{{atLeast: 500}, {metric: peak, atMost: 150}},
	},
	{
		name: "order", does: "8 lanes that keep the order of 997 keys", check: becomes(graded, failed), data: events,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/order.flowd.yaml", check: inOrder(becomes(graded, failed))},
			{name: "unordered", command: "$flowd -c $conf/unordered.flowd.yaml", limit: true},
		},
		goals: []goal{{than: "unordered", atLeast: 0.85}},
	},
	{
		name: "tax", does: "the engine alone: an identity step, acks on", metric: tax, run: alone, times: 5,
		contestants: []contestant{{name: "flowd", command: "$self baseline identity $n"}},
		goals:       []goal{{atMost: 100}},
	},
}

// alone is the runner of a row in which flowd's engine runs in a process that says what
// the messages alone have cost: the start of a program would be most of it.
func alone(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	used, err := w.once(r, c, n)
	if err != nil {
		return s, err
	}
	var came int
	if _, err := fmt.Sscan(used.stderr, &came, (*int64)(&s.CPU)); err != nil || came != n {
		return s, fmt.Errorf("%d messages of %d came out: %s", came, n, used.stderr)
	}
	s.Messages, s.Wall, s.Peak = n, used.wall, used.peak
	return s, nil
}

// inFlowd is flowd with one of the pipelines beside this file.
func inFlowd(pipeline string) contestant {
	return contestant{name: "flowd", command: flowdRuns + " $conf/" + pipeline + ".flowd.yaml"}
}

// inBenthos is its peer, which does the same.
func inBenthos(pipeline string) contestant {
	return contestant{name: "benthos", command: "$benthos -c $conf/" + pipeline + ".benthos.yaml"}
}

// theLimit is the one of our baselines that ratios are taken to.
func theLimit(name, baseline string) contestant {
	return contestant{name: name, command: "$self baseline " + baseline, limit: true}
}

// complete fills in what most rows have in common.
func complete(tables ...[]row) []row {
	all := slices.Concat(tables...)
	for i := range all {
		r := &all[i]
		if r.metric.of == nil {
			r.metric = rate
		}
		if r.run == nil {
			r.run = files
		}
	}
	return all
}
