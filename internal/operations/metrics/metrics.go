// Package metrics holds the metrics that pipelines define with steps `metric`. Start at [Registry], which a process
// exposes. [Declare] adds a metric to it.
package metrics

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/prometheus/client_golang/prometheus"
)

// Registry returns the registry of all metrics that pipelines of a process define. It contains nothing else, and is
// safe for concurrent use.
func Registry(shared *engine.Shared) *prometheus.Registry { return of(shared).registry }

// set is the metrics of one process.
type set struct {
	registry *prometheus.Registry

	mu     sync.Mutex // guards the field below
	byName map[string]*Metric
}

func of(shared *engine.Shared) *set {
	return engine.Common(shared, setKey{}, func() *set {
		return &set{registry: prometheus.NewRegistry(), byName: map[string]*Metric{}}
	})
}

type setKey struct{}

// Record records one value: a counter adds it, a gauge takes it, a histogram observes it. It is safe for concurrent
// use. A counter panics on a negative value.
type Record func(value float64)

// Metric is one metric with all its series. Any number of steps may share it. It is safe for concurrent use.
type Metric struct {
	spec  Spec
	child func(labels []string) (Record, error)

	mu     sync.RWMutex // guards the fields below
	series map[string]Record
	rest   Record // of label sets beyond the limit; nil: none yet
}

// separator separates the label values in a key. UTF-8 text can't contain it.
const separator = "\xff"

// other is the value of all labels of the last series.
const other = "other"

// maxLabel is the maximum length of a label's value, in bytes.
const maxLabel = 256

// ClipLabel shortens the value of a label, and makes it valid UTF-8.
func ClipLabel(raw []byte) []byte {
	if n := maxLabel; len(raw) > n {
		for n > 0 && !utf8.RuneStart(raw[n]) {
			n--
		}
		raw = raw[:n]
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	return raw
}

// Series returns the record for values with these labels. key is their values in the order of Spec.Labels, each valid
// UTF-8, joined with the byte 0xff. Beyond MaxSeries, all share one series, which is logged once.
func (m *Metric) Series(key []byte, log *slog.Logger) (Record, error) {
	m.mu.RLock()
	r, rest := m.series[string(key)], m.rest
	m.mu.RUnlock()
	switch {
	case r != nil:
		return r, nil
	case rest != nil:
		return rest, nil
	}
	return m.add(string(key), log)
}

func (m *Metric) add(key string, log *slog.Logger) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.series[key]; r != nil {
		return r, nil
	}
	if m.rest != nil {
		return m.rest, nil
	}
	labels := strings.SplitN(key, separator, len(m.spec.Labels)) // nil if there are none
	full := len(m.series) >= m.spec.MaxSeries
	if full {
		labels = slices.Repeat([]string{other}, len(labels))
	}
	r, err := m.child(labels)
	switch {
	case err != nil:
		return nil, err
	case full:
		m.rest = r
		log.Warn("a metric has reached its limit of series: other label values count as \"other\"", "metric",
			m.spec.Name, "max_series", m.spec.MaxSeries)
	default:
		m.series[key] = r
	}
	return r, nil
}
