package host

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/flowd-io/flowd/internal/operations/metrics"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// Limits of the metrics of a program.
const (
	maxMetrics = 100
	maxSeries  = 1000 // of each metric
)

// report handles a frame with which the program reports something beside its work.
func (s *Process) report(sent *frame.Sent) error {
	switch sent.Type {
	case "log":
		return s.log(sent)
	case "metric":
		m, err := sent.Metric()
		if err != nil {
			return err
		}
		if err := s.record(m); err != nil {
			s.prog.lines.Record(slog.LevelWarn, []byte("a metric of the program is not valid"), "metric", m.Name, "error", err)
		}
		return nil
	}
	ready, reason, err := sent.State()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.unready; ready {
		s.unready = ""
	} else if s.unready = s.prog.Secrets.Mask(reason); s.unready == "" {
		s.unready = "it gives no reason"
	} else if was == "" {
		s.since = time.Now()
	}
	return nil
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// log logs a line of the program.
func (s *Process) log(sent *frame.Sent) error {
	level, text, fields, err := sent.Log()
	if err != nil {
		return err
	}
	var args []any
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		args = append(args, slog.Any(name, fields[name]))
	}
	s.prog.lines.Record(levels[level], []byte(text), args...)
	return nil
}

// record records a value of a metric.
func (s *Process) record(m frame.Metric) error {
	spec := metrics.Spec{Name: m.Name, Kind: metrics.Kind(m.Kind), Labels: slices.Sorted(maps.Keys(m.Labels)), MaxSeries: maxSeries}
	if err := metrics.CheckName(m.Name); err != nil {
		return err
	}
	for _, name := range spec.Labels {
		if err := metrics.CheckLabel(name, spec.Kind); err != nil {
			return err
		}
	}
	switch spec.Kind {
	case metrics.Gauge, metrics.Histogram:
	case metrics.Counter:
		if m.Value < 0 {
			return errors.New("a counter can't decrease")
		}
	default:
		return errors.New("its kind is not counter, gauge or histogram")
	}
	if err := s.prog.newMetric(m.Name); err != nil {
		return err
	}
	metric, err := metrics.Declare(s.prog.env.Shared, spec)
	if err != nil {
		return err
	}
	var key []byte
	for i, name := range spec.Labels {
		if i > 0 {
			key = append(key, 0xff)
		}
		key = append(key, metrics.ClipLabel([]byte(m.Labels[name]))...)
	}
	record, err := metric.Series(key, s.prog.env.Log)
	if err == nil {
		record(m.Value)
	}
	return err
}

// newMetric limits how many metrics the program has, since messages may choose their names.
func (p *Program) newMetric(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.metrics[name] && len(p.metrics) >= maxMetrics {
		return fmt.Errorf("the program already has %d metrics", maxMetrics)
	}
	if p.metrics == nil {
		p.metrics = map[string]bool{}
	}
	p.metrics[name] = true
	return nil
}

// Unready returns why the program says that it is not ready, and since when; "": it is ready.
func (s *Process) Unready() (why string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unready, s.since
}
