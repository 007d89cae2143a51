package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/prometheus/client_golang/prometheus"
)

// Kind is "counter", "gauge" or "histogram".
type Kind string

// The kinds of a metric.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Spec describes a metric. Everyone who names the same metric must describe it in the same way.
type Spec struct {
	Name      string
	Kind      Kind
	Labels    []string  // names, sorted
	MaxSeries int       // at least 1
	Buckets   []float64 // upper bounds of a histogram, ascending; nil: Prometheus's defaults
}

var (
	// reserved are the prefixes of the process's other metrics: two metrics with the same name would break the whole
	// scrape.
	reserved = []string{"flowd_", "go_", "process_", "promhttp_"}

	// parts are the suffixes of a histogram's series.
	parts = []string{"_bucket", "_count", "_sum"}
)

// letters may begin a name; digits may follow.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

func named(name, letters string) bool {
	return name != "" && strings.Contains(letters, name[:1]) && strings.TrimLeft(name, letters+"0123456789") == ""
}

// CheckName returns an error if a metric can't have this name.
func CheckName(name string) error {
	if !named(name, letters+":") {
		return fmt.Errorf("%q is not a valid metric name (use letters, digits and _, as in orders_total)",
			clipped(name))
	}
	for _, prefix := range reserved {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("metrics that begin with %s are flowd's own (put your service's name before it: shop_%s)",
				prefix, name)
		}
	}
	return nil
}

// CheckLabel returns an error if a label of a metric of this kind can't have this name.
func CheckLabel(name string, kind Kind) error {
	switch {
	case !named(name, letters):
		return fmt.Errorf("%q is not a valid label name (use letters, digits and _)", clipped(name))
	case strings.HasPrefix(name, "__"):
		return fmt.Errorf("labels that begin with __ are Prometheus' own (write %s)", strings.TrimLeft(name, "_"))
	case kind == Histogram && name == "le":
		return errors.New("the label le is the bound of a histogram's buckets (use another name)")
	}
	return nil
}

// CheckBuckets returns an error if a histogram can't have these bounds.
func CheckBuckets(bounds []float64) error {
	for i, b := range bounds {
		switch {
		case math.IsNaN(b) || math.IsInf(b, 0):
			return fmt.Errorf("bucket %v is not a valid bound (+Inf is always the last one)", b)
		case i > 0 && b <= bounds[i-1]:
			return fmt.Errorf("bucket %v is not greater than %v (write the bounds in ascending order)", b, bounds[i-1])
		}
	}
	return nil
}

func clipped(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Declare adds a metric to the registry of a process, or returns the one with the same description. The names in s
// must have passed the checks.
func Declare(shared *engine.Shared, s Spec) (*Metric, error) {
	all := of(shared)
	all.mu.Lock()
	defer all.mu.Unlock()
	if m := all.byName[s.Name]; m != nil {
		if err := m.spec.agrees(s); err != nil {
			return nil, err
		}
		return m, nil
	}
	if err := all.clash(s); err != nil {
		return nil, err
	}
	m := &Metric{spec: s, series: map[string]Record{}}
	c := m.collector()
	if err := all.registry.Register(c); err != nil {
		return nil, fmt.Errorf("metric %s: %w", s.Name, err)
	}
	all.byName[s.Name] = m
	return m, nil
}

// collector makes what Prometheus reads, and sets m.child.
func (m *Metric) collector() prometheus.Collector {
	s := &m.spec
	help := "A " + string(s.Kind) + " of a step `metric`."
	switch s.Kind {
	case Counter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: s.Name, Help: help}, s.Labels)
		m.child = children(v.GetMetricWithLabelValues, func(c prometheus.Counter) Record { return c.Add })
		return v
	case Gauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: s.Name, Help: help}, s.Labels)
		m.child = children(v.GetMetricWithLabelValues, func(g prometheus.Gauge) Record { return g.Set })
		return v
	}
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: s.Name, Help: help, Buckets: s.Buckets}, s.Labels)
	m.child = children(v.GetMetricWithLabelValues, func(h prometheus.Observer) Record { return h.Observe })
	return v
}

// children returns the record of each series of a vector.
func children[T any](series func(labels ...string) (T, error), record func(T) Record) func([]string) (Record, error) {
	return func(labels []string) (Record, error) {
		one, err := series(labels...)
		if err != nil {
			return nil, err
		}
		return record(one), nil
	}
}

// agrees returns an error if another description of the metric differs.
func (s *Spec) agrees(o Spec) error {
	differ := func(what string, here, there any) error {
		return fmt.Errorf("metric %s has %s %v here and %v in another step (make them agree, or rename one)", s.Name,
			what, here, there)
	}
	switch {
	case s.Kind != o.Kind:
		return fmt.Errorf("metric %s is a %s here and a %s in another step (rename one of them)", s.Name, o.Kind,
			s.Kind)
	case !slices.Equal(s.Labels, o.Labels):
		return differ("labels", o.Labels, s.Labels)
	case s.MaxSeries != o.MaxSeries:
		return differ("max_series", o.MaxSeries, s.MaxSeries)
	case !slices.Equal(s.Buckets, o.Buckets):
		return differ("buckets", o.Buckets, s.Buckets)
	}
	return nil
}

// clash rejects a name that is also a part of a histogram: the whole scrape would fail.
func (a *set) clash(s Spec) error {
	for _, part := range parts {
		if base, ok := strings.CutSuffix(s.Name, part); ok && a.byName[base] != nil &&
			a.byName[base].spec.Kind == Histogram {
			return fmt.Errorf("metric %s has a name that belongs to the histogram %s (use another name)", s.Name, base)
		}
		if s.Kind == Histogram && a.byName[s.Name+part] != nil {
			return fmt.Errorf("the histogram %s has a part %s%s, and another step has a metric of that name (use another name)", s.Name, s.Name,
				part)
		}
	}
	return nil
}
