package main

import "fmt"

type row struct {
	title  string // a question of the operator
	panels []panel
}

type panel struct {
	title, kind, unit string // kind and unit are Grafana's words
	width             int
	queries           []query
	alarm             float64  // of a stat: red from this value on; 0: never
	states            [2]state // of a state-timeline: good, bad
}

// query is a PromQL expression and how its series are called. In it, {S} selects the chosen jobs, instances and pipelines,
// {P} the chosen jobs and instances, and [R] is the interval for rates.
type query struct{ expr, legend string }

type state struct{ value, text string }

func number(title, unit, expr string, alarm float64) panel {
	return panel{title: title, kind: "stat", unit: unit, width: 4, queries: []query{{expr, ""}}, alarm: alarm}
}

func graph(title, unit string, queries ...query) panel {
	return panel{title: title, kind: "timeseries", unit: unit, width: 8, queries: queries}
}

func timeline(title string, good, bad state, q query) panel {
	return panel{title: title, kind: "state-timeline", width: 12, queries: []query{q}, states: [2]state{good, bad}}
}

// quantile is of a histogram with classic buckets, or else of a native one.
func quantile(q float64, histogram, by, legend string) query {
	return query{fmt.Sprintf("histogram_quantile(%[1]v, sum by (%[3]s, le) (rate(%[2]s_bucket{S}[R]))) or "+
		"histogram_quantile(%[1]v, sum by (%[3]s) (rate(%[2]s{S}[R])))", q, histogram, by), legend}
}

const (
	byPipeline = "{{pipeline}}"
	byInput    = "{{pipeline}} {{input}}"
	byOutput   = "{{pipeline}} {{output}}"
	byStep     = "{{pipeline}} {{place}} {{step}}"
	byBatcher  = "{{pipeline}} {{batcher}}"
	byInstance = "{{job}} {{instance}}"
)

var rows = []row{
	{"Is it healthy?", []panel{
		number("Processes", "none", `count(flowd_build_info{P})`, 0),
		number("Pipelines not ready", "none", `count(flowd_pipeline_ready{S} == 0) or vector(0)`, 1),
		number("Pipelines failed", "none", `sum(flowd_pipeline_failed{S})`, 1),
		number("Breakers not closed", "none", `sum(flowd_output_breaker_state{S,state!="closed"})`, 1),
		number("Stuck calls", "none", `sum(flowd_stuck_calls{S})`, 1),
		number("Oldest message in flight", "s", `max(flowd_oldest_unsettled_seconds{S})`, 0),
		timeline("Ready", state{"1", "ready"}, state{"0", "not ready"},
			query{`min by (instance, pipeline) (flowd_pipeline_ready{S})`, "{{instance}} {{pipeline}}"}),
		timeline("Breakers", state{"0", "closed"}, state{"1", "open"},
			query{`max by (instance, pipeline, output) (flowd_output_breaker_state{S,state!="closed"})`, "{{instance}} {{pipeline}} {{output}}"}),
	}},
	{"How much, and how fast?", []panel{
		graph("Messages read, by input", "cps", query{`sum by (pipeline, input) (rate(flowd_input_messages_total{S}[R]))`, byInput}),
		graph("Messages written, by output", "cps", query{`sum by (pipeline, output) (rate(flowd_output_messages_total{S}[R]))`, byOutput}),
		graph("Messages ended, by fate", "cps", query{`sum by (pipeline, fate) (rate(flowd_messages_total{S}[R]))`, "{{pipeline}} {{fate}}"}),
		graph("Latency, from read to settled", "s",
			quantile(0.5, "flowd_message_latency_seconds", "pipeline", byPipeline+" p50"),
			quantile(0.99, "flowd_message_latency_seconds", "pipeline", byPipeline+" p99")),
		graph("Latency, from read to written, by output", "s",
			quantile(0.5, "flowd_output_message_latency_seconds", "pipeline, output", byOutput+" p50"),
			quantile(0.99, "flowd_output_message_latency_seconds", "pipeline, output", byOutput+" p99")),
		graph("Bytes read, by input", "Bps", query{`sum by (pipeline, input) (rate(flowd_input_bytes_total{S}[R]))`, byInput}),
		graph("Lag in messages, by input", "short", query{`sum by (pipeline, input) (flowd_input_lag_messages{S})`, byInput}),
		graph("Lag in bytes, by input", "bytes", query{`sum by (pipeline, input) (flowd_input_lag_bytes{S})`, byInput}),
		graph("Lag in time, by input", "s", query{`max by (pipeline, input) (flowd_input_lag_seconds{S})`, byInput}),
		graph("Oldest message in flight", "s", query{`max by (pipeline) (flowd_oldest_unsettled_seconds{S})`, byPipeline}),
	}},
	{"What fails?", []panel{
		graph("Failures, by class", "cps", query{`sum by (pipeline, class) (rate(flowd_failures_total{S}[R])) > 0`, "{{pipeline}} {{class}}"}),
		graph("Failures, by step", "cps", query{`sum by (pipeline, place, step) (rate(flowd_step_failures_total{S}[R])) > 0`, byStep}),
		graph("Failures, by output", "cps", query{`sum by (pipeline, output) (rate(flowd_output_failures_total{S}[R]))`, byOutput}),
		graph("Retries", "cps",
			query{`sum by (pipeline, output) (rate(flowd_output_retries_total{S}[R]))`, byOutput},
			query{`sum by (pipeline, place, step) (rate(flowd_step_retries_total{S}[R])) > 0`, byStep}),
		graph("Dead letters, and dropped messages", "cps",
			query{`sum by (pipeline) (rate(flowd_dead_letters_total{S}[R]))`, byPipeline + " dead letters"},
			query{`sum by (pipeline) (rate(flowd_messages_total{S,fate="dropped"}[R]))`, byPipeline + " dropped"}),
		graph("Restarts of inputs", "short", query{`sum by (pipeline, input) (increase(flowd_input_restarts_total{S}[R]))`, byInput}),
		graph("Writes abandoned", "short", query{`sum by (pipeline, output) (increase(flowd_output_abandoned_writes_total{S}[R]))`, byOutput}),
		graph("Stuck calls", "short", query{`sum by (pipeline) (flowd_stuck_calls{S})`, byPipeline}),
		graph("Failed reloads of tables", "short",
			query{`sum by (pipeline, table) (increase(flowd_table_reload_failures_total{S}[R]))`, "{{pipeline}} {{table}}"}),
	}},
	{"What limits it?", []panel{
		graph("Credits in use: reading pauses at 100 %", "percentunit",
			query{`max by (pipeline) (flowd_credit_messages{S} / flowd_credit_messages_max{S})`, byPipeline + " messages"},
			query{`max by (pipeline) (flowd_credit_bytes{S} / flowd_credit_bytes_max{S})`, byPipeline + " bytes"}),
		graph("Messages in flight", "short", query{`sum by (pipeline) (flowd_messages_in_flight{S})`, byPipeline}),
		graph("Messages that wait", "short",
			query{`sum by (pipeline) (flowd_waiting_messages{S})`, byPipeline},
			query{`sum by (pipeline) (flowd_retrying_messages{S})`, byPipeline + " for a retry"}),
		graph("Lanes in use", "percentunit", query{`max by (pipeline) (flowd_lanes_busy{S} / flowd_lanes{S})`, byPipeline}),
		graph("Mean calls in flight, by step", "short",
			query{`sum by (pipeline, place, step) (rate(flowd_step_duration_seconds_sum{S}[R]))`, byStep}),
		graph("Messages in open batches", "short", query{`sum by (pipeline, batcher) (flowd_batcher_open_messages{S})`, byBatcher}),
		graph("Queue, by output", "short", query{`sum by (pipeline, output) (flowd_output_queued_messages{S})`, byOutput}),
		graph("Writes in flight, of those allowed", "percentunit",
			query{`max by (pipeline, output) (flowd_output_writes_in_flight{S} / flowd_output_concurrency{S})`, byOutput}),
		graph("Duration of writes", "s",
			quantile(0.5, "flowd_output_write_duration_seconds", "pipeline, output", byOutput+" p50"),
			quantile(0.99, "flowd_output_write_duration_seconds", "pipeline, output", byOutput+" p99")),
		graph("Batch size", "short", quantile(0.5, "flowd_batcher_batch_messages", "pipeline, batcher", byBatcher+" p50")),
		graph("Waits for rate limits", "cps",
			query{`sum by (pipeline, limit) (rate(flowd_limit_waits_total{S}[R]))`, "{{pipeline}} {{limit}}"}),
		graph("Oldest message that waits", "s", query{`max by (pipeline) (flowd_oldest_waiting_seconds{S})`, byPipeline}),
	}},
	{"The process", []panel{
		graph("CPU cores in use", "short", query{`sum by (job, instance) (rate(process_cpu_seconds_total{P}[R]))`, byInstance}),
		graph("Memory", "bytes",
			query{`sum by (job, instance) (process_resident_memory_bytes{P})`, byInstance + " resident"},
			query{`sum by (job, instance) (go_memstats_heap_alloc_bytes{P})`, byInstance + " heap"}),
		graph("Open files, of those allowed", "percentunit",
			query{`max by (job, instance) (process_open_fds{P} / process_max_fds{P})`, byInstance}),
	}},
}
