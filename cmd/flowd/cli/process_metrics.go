package cli

import (
	"context"
	"net"
	"reflect"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/internal/operations/metrics"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/telemetry"
	"github.com/prometheus/client_golang/prometheus"
)

// serveMetrics opens the listener for scrapers where a configuration wants it, and closes the previous one. If it can't
// be opened, the previous one stays. It is called at the start, and with p.reloading held.
func (p *process) serveMetrics(c config.Service) error {
	at := ""
	if c.Metrics != nil {
		at = c.Metrics.Listen
	}
	if at == p.metricsAt {
		return nil
	}
	if port(at) != "" && port(at) == port(p.metricsAt) { // the previous listener has the port
		was := p.metricsAt
		if err := p.closeMetrics(); err != nil {
			p.log.Warn("error while closing the metrics listener", "err", err)
		}
		err := p.openMetrics(at)
		if err != nil {
			if err := p.openMetrics(was); err != nil {
				p.log.Error("metrics listener can't be opened again", "err", err)
			}
		}
		return err
	}
	old := p.metrics
	if at == "" {
		return p.closeMetrics()
	}
	if err := p.openMetrics(at); err != nil || old == nil {
		return err
	}
	return closeServer(old)
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func (p *process) openMetrics(at string) error {
	info := version()
	s, err := service.StartMetrics(context.WithoutCancel(p.stop),
		service.Config{Listen: at, Version: info.Version, Revision: info.Revision, Metrics: processMetrics(),
			Exemplars: p.sight.exemplars}, p, p.log)
	if err != nil {
		return err
	}
	p.metrics, p.metricsAt = s, at
	return nil
}

func (p *process) closeMetrics() error {
	s := p.metrics
	p.metrics, p.metricsAt = nil, ""
	if s == nil {
		return nil
	}
	return closeServer(s)
}

// processMetrics are metrics of this process that don't come from its pipelines.
func processMetrics() []prometheus.Collector { return []prometheus.Collector{telemetry.Dropped()} }

// sendMetrics sends metrics by OTLP where a configuration wants it. It is called as serveMetrics is.
func (p *process) sendMetrics(c config.Service) error {
	var to *config.MetricsOTLP
	if c.Metrics != nil && !otlp.Disabled() {
		to = c.Metrics.OTLP
	}
	if reflect.DeepEqual(to, p.sendsTo) {
		return nil
	}
	var sender *telemetry.Metrics
	if to != nil {
		info := version()
		all := service.Gatherer(service.Config{Version: info.Version, Revision: info.Revision, Metrics: processMetrics(),
			Exemplars: p.sight.exemplars}, p, metrics.Registry(p.set.Shared))
		var err error
		if sender, err = telemetry.NewMetrics(to.Sender, to.Interval, info.Version, all, p.log); err != nil {
			return err
		}
	}
	p.stopSending()
	p.sender, p.sendsTo = sender, to
	return nil
}

// stopSending sends the last metrics.
func (p *process) stopSending() {
	if p.sender != nil {
		p.sender.Close()
	}
}

// closeServer closes a listener. Its running requests have a second.
func closeServer(s *service.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Close(ctx)
}
