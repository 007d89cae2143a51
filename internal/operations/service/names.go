package service

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/prometheus/client_golang/prometheus"
)

// metric is one family of flowd's metrics.
type metric struct {
	name string
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// allMetrics has all families that the functions below have made.
var allMetrics []metric

func family(kind prometheus.ValueType, name, help string, labels []string) metric {
	m := metric{"flowd_" + name, prometheus.NewDesc("flowd_"+name, help, labels, nil), kind}
	allMetrics = append(allMetrics, m)
	return m
}

func counter(name, help string, labels ...string) metric {
	return family(prometheus.CounterValue, name, help, append([]string{"pipeline"}, labels...))
}

func gauge(name, help string, labels ...string) metric {
	return family(prometheus.GaugeValue, name, help, append([]string{"pipeline"}, labels...))
}

// histogram makes a family of histograms. Its kind is not used: emitter.histogram sends histograms.
func histogram(name, help string, labels ...string) metric { return gauge(name, help, labels...) }

var buildInfo = family(prometheus.GaugeValue, "build_info", "The running build; always 1.",
	[]string{"version", "revision", "goversion"})

// Metrics of pipelines.
var (
	pipelineState = gauge("pipeline_state", "1 for the current state of the pipeline, 0 for the others.", "state")
	pipelineReady = gauge("pipeline_ready", "1 if the pipeline is ready, as /ready says; 0 if it is not.")
	hasFailed     = gauge("pipeline_failed", "1 if the pipeline has ended with an error; 0 otherwise.")
	startTime     = gauge("pipeline_start_time_seconds", "Start time of the pipeline, in seconds since the Unix epoch.")

	received       = counter("messages_received_total", "Messages read.")
	ended          = counter("messages_total", "Messages that have ended, by fate, which is the worst fate of their pieces.", "fate")
	inFlight       = gauge("messages_in_flight", "Messages that were read and have not ended.")
	piecesReceived = counter("pieces_received_total", "Pieces read; each message is one.")
	piecesMade     = counter("pieces_made_total", "Pieces created by splits, merges and copies.")
	piecesConsumed = counter("pieces_consumed_total", "Pieces replaced by others that were made from them.")
	piecesEnded    = counter("pieces_total", "Pieces that have ended, by fate.", "fate")
	piecesInFlight = gauge("pieces_in_flight", "Pieces that have not ended.")
	deadLetters    = counter("dead_letters_total", "Messages written to a dead-letter output.")
	failures       = counter("failures_total", "Failures of messages, by class, including those that were repaired or retried.",
		"class")

	creditMessages    = gauge("credit_messages", "Messages in flight that count towards credit_messages_max.")
	creditMessagesMax = gauge("credit_messages_max", "Maximum number of messages in flight: engine.max_in_flight.messages.")
	creditBytes       = gauge("credit_bytes", "Bytes in flight that count towards credit_bytes_max.")
	creditBytesMax    = gauge("credit_bytes_max", "Maximum number of bytes in flight: engine.max_in_flight.bytes.")
	lanes             = gauge("lanes", "Lanes that run steps.")
	lanesBusy         = gauge("lanes_busy", "Lanes that are busy.")
	waiting           = gauge("waiting_messages", "Messages that wait for a retry, a key or a limit.")
	retrying          = gauge("retrying_messages", "Messages that wait for a retry.")
	oldest            = gauge("oldest_unsettled_seconds", "Age of the oldest message in flight; 0 if there is none.")
	oldestWaiting     = gauge("oldest_waiting_seconds",
		"Age of the oldest message that waits for a retry or a limit; 0 if there is none.")
	messageLatency = histogram("message_latency_seconds", "Time from when a message is read until it is settled.")
	stuckCalls     = gauge("stuck_calls", "Loops, steps and writes that have exceeded their own deadline.")

	component = gauge("component_info", "The type of an input or output; always 1.", "kind", "name", "type")
)

// Metrics of inputs.
var (
	inputState    = gauge("input_state", "1 for the current state of the input, 0 for the others.", "input", "state")
	inputFailing  = gauge("input_failing", "1 if the input's last attempt failed.", "input")
	inputMessages = counter("input_messages_total", "Messages read.", "input")
	inputBytes    = counter("input_bytes_total", "Bytes read.", "input")
	inputRestarts = counter("input_restarts_total", "Restarts of the input after failures.", "input")
	inputUnacked  = gauge("input_unacked_messages", "Messages whose result has not been reported to the source.",
		"input")
)

// Metrics of inputs that know the end of their source.
var (
	inputPositions = gauge("input_positions", "Parts of the source that the input currently reads, such as partitions.",
		"input")
	inputLag = gauge("input_lag_messages", "Messages between the settled position of a part of the source and its end.",
		"input", "position")
	inputLagBytes = gauge("input_lag_bytes",
		"Bytes between the settled position and the end of a followed file, or of the log of a PostgreSQL server.", "input", "position")
	inputLagSeconds = gauge("input_lag_seconds",
		"Age of the last message when it was read, by its source's timestamp; while nothing is read, its age now.", "input")
	inputRevoked = counter("input_revoked_positions_total", "Parts of the source that have moved to other readers.",
		"input")
	inputTakenAway = counter("input_taken_away_messages_total",
		"Messages of moved parts that other readers read again.", "input")
)

// mostPositions limits the parts of a source with metrics of their own, since brokers choose their names.
const mostPositions = 1000

// Metrics of steps.
var (
	stepMessages = counter("step_messages_total", "Messages that reached the step.", "place", "step")
	stepFailed   = counter("step_failures_total", "Messages that failed in the step.", "place", "step")
	stepRetries  = counter("step_retries_total", "Messages that the step retried.", "place", "step")
	stepDuration = histogram("step_duration_seconds", "Duration of calls of the step; one call has several messages.",
		"place", "step")
)

// Metrics of batchers.
var (
	batcherOpen = gauge("batcher_open_messages", "Messages in open batches.", "batcher")
	batches     = counter("batcher_batches_total", "Batches sent, by trigger.", "batcher", "trigger")
	batchFill   = histogram("batcher_batch_messages", "Messages per batch sent.", "batcher")
)

// Metrics of outputs.
var (
	outputFailingNow = gauge("output_failing", "1 if the output's last write or probe failed.", "output")
	breaker          = gauge("output_breaker_state", "1 for the current state of the output's breaker, 0 for the others.", "output",
		"state")
	outputQueued      = gauge("output_queued_messages", "Messages that wait to be written.", "output")
	outputQueuedBytes = gauge("output_queued_bytes", "Bytes that wait to be written.", "output")
	outputWriting     = gauge("output_writes_in_flight", "Writes in flight.", "output")
	outputConcurrency = gauge("output_concurrency", "Maximum number of writes in flight.", "output")
	outputWritten     = counter("output_messages_total", "Messages written.", "output")
	outputFailed      = counter("output_failures_total", "Messages that failed in a write, including those retried.",
		"output")
	outputRetries   = counter("output_retries_total", "Messages that were written again after a failure.", "output")
	outputAbandoned = counter("output_abandoned_writes_total", "Writes that did not return in time and were abandoned.", "output")
	outputDuration  = histogram("output_write_duration_seconds", "Duration of writes.", "output")
	outputLatency   = histogram("output_message_latency_seconds",
		"Time from when a message is read until the output has written it.", "output")
)

// Metrics of limits.
var (
	limitMessages = gauge("limit_messages", "Messages that the limit allows in each period.", "limit")
	limitPeriod   = gauge("limit_period_seconds", "The period of the limit.", "limit")
	limitKeys     = gauge("limit_keys", "Keys with an allowance of their own.", "limit")
	limitWaits    = counter("limit_waits_total", "Times that a read, a message in a step, or the rest of a write waited for the limit.",
		"limit")
)

// Metrics of tables.
var (
	tableRows     = gauge("table_rows", "Rows of the table; 0 if unknown.", "table")
	tableBytes    = gauge("table_bytes", "Approximate memory use of the table, in bytes.", "table")
	tableRead     = gauge("table_read_time_seconds", "When the version in use was read, in seconds since the Unix epoch.", "table")
	tableReloads  = counter("table_reloads_total", "Versions of the table that were read after the first.", "table")
	tableFailures = counter("table_reload_failures_total", "New versions of the table that could not be used.", "table")
)

// The values of labels.
var (
	pipelineStates = []string{string(engine.Starting), string(engine.Running), string(engine.Paused),
		string(engine.Draining), string(engine.Stopped)}
	inputStates   = []string{"reading", "waiting", "limited", "paused", "restarting", "ended"}
	breakerStates = []string{"closed", "open", "probing", "auth"}

	classes = []engine.Class{
		engine.Transient, engine.Permanent, engine.Auth, engine.Rejected, engine.Expression,
		engine.Decode, engine.Unrouted, engine.Timeout, engine.Late, engine.TooLarge, engine.Panicked,
	}
	triggers = []engine.Trigger{
		engine.BySize, engine.ByBytes, engine.ByTimeout, engine.ByFlush,
		engine.ByEnd, engine.ByDrain, engine.ByEvicted, engine.ByPressure, engine.ByRevoke, engine.ByKey,
	}
)
