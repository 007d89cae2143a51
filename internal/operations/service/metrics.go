package service

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// metricsHandler answers scrapes: metrics of the pipelines, of the process, and of `metric` steps.
func metricsHandler(cfg Config, p Process, user prometheus.Gatherer, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(gatherer(cfg, p, user, false), promhttp.HandlerOpts{
		// One bad series of a `metric` step must not hide the others.
		ErrorHandling: promhttp.ContinueOnError,
		// Only this format has exemplars. In it, counters that are not called _total get another name, so it is not the usual one.
		EnableOpenMetrics:   cfg.Exemplars != nil,
		ErrorLog:            &onceLog{log: log},
		MaxRequestsInFlight: 8,
		Timeout:             readTimeout,
	})
}

// Gatherer gathers the metrics of a process, for those that send them elsewhere. Histograms have the classic buckets only. user are
// the metrics of `metric` steps. Of cfg, Metrics, Exemplars and the build count.
func Gatherer(cfg Config, p Process, user prometheus.Gatherer) prometheus.Gatherer {
	return gatherer(cfg, p, user, true)
}

func gatherer(cfg Config, p Process, user prometheus.Gatherer, classic bool) prometheus.Gatherer {
	own := prometheus.NewRegistry()
	own.MustRegister(append([]prometheus.Collector{collector{p.Snapshots, cfg.Version, cfg.Revision, classic, cfg.Exemplars},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}, cfg.Metrics...)...)
	all := prometheus.Gatherers{own}
	if user != nil {
		all = append(all, user)
	}
	return all
}

// onceLog logs errors of scrapes when they change, not at each scrape.
type onceLog struct {
	log *slog.Logger

	mu   sync.Mutex // guards last
	last string
}

func (l *onceLog) Println(v ...any) {
	text := strings.TrimSuffix(fmt.Sprintln(v...), "\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	if text != l.last {
		l.last = text
		l.log.Warn("some metrics can't be shown", "error", shorten(text))
	}
}

// collector turns snapshots into metrics at each scrape. Components that are no longer in a snapshot have no metrics.
// Labels are names from the configuration, or words from fixed lists, so that data can't create series. Names of
// positions come from brokers and from paths of files, and their number is limited.
type collector struct {
	snapshots         func() []engine.Snapshot
	version, revision string
	classic           bool // histograms have no native buckets
	exemplars         *Exemplars
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range allMetrics {
		ch <- m.desc
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	emitter{ch: ch}.put(buildInfo, 1, c.version, c.revision, runtime.Version())
	snapshots := c.snapshots()
	unready := map[string]bool{}
	for _, check := range Ready(snapshots).Checks {
		unready[check.Pipeline] = true
	}
	for _, s := range snapshots {
		e := emitter{ch, []string{s.Pipeline}, c.classic, c.exemplars.get(s.Pipeline)}
		e.pipeline(s)
		e.put(pipelineReady, truth(!unready[s.Pipeline]))
		e.steps("processors", s.Steps)
		for _, in := range s.Inputs {
			e.input(in)
			e.steps("input "+in.Name, in.Steps)
		}
		for _, b := range s.Batchers {
			e.batcher(b)
			e.steps("batcher "+b.Name, b.Steps)
		}
		for _, out := range s.Outputs {
			e.output(out)
			e.steps("output "+out.Name, out.Steps)
		}
		for _, l := range limitsOf(s) {
			e.put(limitMessages, float64(l.Messages), l.Name)
			e.put(limitPeriod, l.Per.Seconds(), l.Name)
			e.put(limitKeys, float64(l.Keys), l.Name)
			e.put(limitWaits, float64(l.Limited), l.Name)
		}
		for _, t := range s.Tables {
			e.put(tableRows, float64(t.Rows), t.Name)
			e.put(tableBytes, float64(t.Bytes), t.Name)
			if !t.Read.IsZero() {
				e.put(tableRead, float64(t.Read.UnixMilli())/1e3, t.Name)
			}
			e.put(tableReloads, float64(t.Reloads), t.Name)
			e.put(tableFailures, float64(t.Failed), t.Name)
		}
	}
}

// emitter sends the metrics of one pipeline.
type emitter struct {
	ch   chan<- prometheus.Metric
	base []string // label values of all metrics

	classic   bool // see collector
	exemplars []prometheus.Exemplar
}

func (e emitter) pipeline(s engine.Snapshot) {
	e.oneOf(pipelineState, string(s.State), pipelineStates)
	e.put(hasFailed, truth(s.State == engine.Stopped && s.Err != ""))
	if !s.Started.IsZero() {
		e.put(startTime, float64(s.Started.UnixMilli())/1e3)
	}

	e.put(received, float64(s.Stats.Roots.Received))
	e.put(inFlight, float64(s.Stats.Roots.InFlight))
	e.put(piecesReceived, float64(s.Stats.Pieces.Received))
	e.put(piecesMade, float64(s.Stats.Pieces.Made))
	e.put(piecesConsumed, float64(s.Stats.Pieces.Consumed))
	e.put(piecesInFlight, float64(s.Stats.Pieces.InFlight))
	for f := range s.Stats.Roots.Ended {
		fate := engine.Fate(f).String()
		e.put(ended, float64(s.Stats.Roots.Ended[f]), fate)
		e.put(piecesEnded, float64(s.Stats.Pieces.Ended[f]), fate)
	}
	e.put(deadLetters, float64(s.DeadLettered))
	counts(e, failures, classes, s.Failed)

	e.put(creditMessages, float64(s.Messages))
	e.put(creditMessagesMax, float64(s.MaxMessages))
	e.put(creditBytes, float64(s.Bytes))
	e.put(creditBytesMax, float64(s.MaxBytes))
	e.put(lanes, float64(s.Lanes))
	e.put(lanesBusy, float64(s.LanesBusy))
	e.put(waiting, float64(s.Waiting))
	e.put(retrying, float64(s.Retries))
	e.put(oldest, s.OldestUnsettled.Seconds())
	if s.Held != nil {
		e.put(oldestWaiting, s.Held.Age.Seconds())
	} else {
		e.put(oldestWaiting, 0)
	}
	e.histogram(messageLatency, s.Latency)
	e.put(stuckCalls, float64(len(s.Stuck)))
}

func (e emitter) input(in engine.InputState) {
	e.put(component, 1, "input", in.Name, in.Type)
	e.oneOf(inputState, in.State, inputStates, in.Name)
	e.put(inputFailing, truth(in.Err != ""), in.Name)
	e.put(inputMessages, float64(in.Received), in.Name)
	e.put(inputBytes, float64(in.Bytes), in.Name)
	e.put(inputRestarts, float64(in.Restarts), in.Name)
	e.put(inputUnacked, float64(in.Unacked), in.Name)
	if in.Behind != nil {
		e.put(inputLagSeconds, in.Behind.Seconds(), in.Name)
	}
	if in.Progress != nil {
		e.progress(in.Name, in.Progress)
	}
}

// progress sends the lag of each position. Beyond a limit, positions share the name "other".
func (e emitter) progress(input string, p *engine.Progress) {
	e.put(inputPositions, float64(len(p.Positions)), input)
	e.put(inputRevoked, float64(p.Revoked), input)
	e.put(inputTakenAway, float64(p.TakenAway), input)
	lag := inputLag
	if p.Bytes {
		lag = inputLagBytes
	}
	most := min(len(p.Positions), mostPositions)
	for _, at := range p.Positions[:most] {
		if at.Settled >= 0 {
			e.put(lag, float64(at.Lag()), input, at.Name)
		}
	}
	if rest := (engine.Progress{Positions: p.Positions[most:]}); len(rest.Positions) > 0 {
		e.put(lag, float64(rest.Lag()), input, "other")
	}
}

// steps sends the metrics of a list of steps. Steps with the same name, by default their type, are numbered: filter,
// filter 2.
func (e emitter) steps(place string, list []engine.StepState) {
	taken := map[string]bool{}
	for _, s := range list {
		name := s.Name
		for n := 2; taken[name]; n++ {
			name = s.Name + " " + strconv.Itoa(n)
		}
		taken[name] = true
		e.put(stepMessages, float64(s.In), place, name)
		e.put(stepFailed, float64(s.Failed), place, name)
		e.put(stepRetries, float64(s.Retries), place, name)
		e.histogram(stepDuration, s.Latency, place, name)
	}
}

func (e emitter) batcher(b engine.BatcherState) {
	e.put(batcherOpen, float64(b.Open), b.Name)
	counts(e, batches, triggers, b.Batches, b.Name)
	e.histogram(batchFill, b.Fill, b.Name)
}

func (e emitter) output(out engine.OutputState) {
	e.put(component, 1, "output", out.Name, out.Type)
	e.put(outputFailingNow, truth(out.Err != ""), out.Name)
	e.oneOf(breaker, out.Breaker, breakerStates, out.Name)
	e.put(outputQueued, float64(out.Queued), out.Name)
	e.put(outputQueuedBytes, float64(out.QueuedBytes), out.Name)
	e.put(outputWriting, float64(out.Writing), out.Name)
	e.put(outputConcurrency, float64(out.Concurrency), out.Name)
	e.put(outputWritten, float64(out.Written), out.Name)
	e.put(outputFailed, float64(out.Failed), out.Name)
	e.put(outputRetries, float64(out.Retries), out.Name)
	e.put(outputAbandoned, float64(out.Abandoned), out.Name)
	e.histogram(outputDuration, out.Latency, out.Name)
	e.histogram(outputLatency, out.Delivery, out.Name)
}

func (e emitter) put(m metric, v float64, labels ...string) {
	got, err := prometheus.NewConstMetric(m.desc, m.kind, v, e.labels(labels)...)
	e.send(m, got, err)
}

// oneOf sends 1 for the current state, and 0 for the others.
func (e emitter) oneOf(m metric, state string, states []string, labels ...string) {
	for _, s := range states {
		e.put(m, truth(s == state), append(slices.Clone(labels), s)...)
	}
}

// histogram sends h. Its count is the sum of the buckets, even if messages arrive meanwhile.
func (e emitter) histogram(m metric, h engine.Histogram, labels ...string) {
	buckets := make(map[float64]uint64, len(h.Bounds))
	var sum uint64
	for i, n := range h.Counts {
		sum += n
		if i < len(h.Bounds) {
			buckets[h.Bounds[i]] = sum
		}
	}
	got, err := prometheus.NewConstHistogram(m.desc, sum, h.Sum, buckets, e.labels(labels)...)
	if err == nil && h.Native != nil && !e.classic {
		var native prometheus.Metric
		native, err = prometheus.NewConstNativeHistogram(m.desc, sum, h.Sum, h.Native, nil, 0, engine.NativeSchema, 0, time.Time{},
			e.labels(labels)...)
		got = bothHistograms{got, native}
	}
	if err == nil && m == messageLatency && len(e.exemplars) > 0 {
		got, err = prometheus.NewMetricWithExemplars(got, e.exemplars...)
	}
	e.send(m, got, err)
}

// bothHistograms has classic buckets for scrapers that ask for text, and a native histogram for the others.
type bothHistograms struct{ classic, native prometheus.Metric }

func (b bothHistograms) Desc() *prometheus.Desc { return b.classic.Desc() }

func (b bothHistograms) Write(to *dto.Metric) error {
	var classic dto.Metric
	if err := errors.Join(b.classic.Write(&classic), b.native.Write(to)); err != nil {
		return err
	}
	to.Histogram.Bucket, to.Histogram.CreatedTimestamp = classic.Histogram.Bucket, nil
	return nil
}

func (e emitter) send(m metric, got prometheus.Metric, err error) {
	if err != nil {
		got = prometheus.NewInvalidMetric(m.desc, err)
	}
	e.ch <- got
}

func (e emitter) labels(more []string) []string {
	all := slices.Concat(e.base, more)
	for i, l := range all {
		all[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return all
}

// counts sends the counts of known words, and the rest together as "other": plugins choose such words, and could take
// them from data.
func counts[K ~string](e emitter, m metric, known []K, n map[K]int64, labels ...string) {
	var other int64
	for word, c := range n {
		if !slices.Contains(known, word) {
			other += c
		}
	}
	for _, word := range known {
		e.put(m, float64(n[word]), append(slices.Clone(labels), string(word))...)
	}
	e.put(m, float64(other), append(slices.Clone(labels), "other")...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
