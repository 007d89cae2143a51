package cli

import (
	"context"
	"net"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/service"
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
		service.Config{Listen: at, Version: info.Version, Revision: info.Revision}, p, p.log)
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

// closeServer closes a listener. Its running requests have a second.
func closeServer(s *service.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Close(ctx)
}
