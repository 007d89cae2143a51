package exec

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/operations/logsum"
	"github.com/flowd-io/flowd/schema"
)

// A program that floods its standard error does not flood the log: only this much of a line
// is logged, and this many lines a second.
const (
	maxLogged = 2 << 10
	perSecond = 20
)

// stderrLog logs what the programs of a step write to standard error.
type stderrLog struct {
	log     *slog.Logger
	secrets *schema.Secrets
	limit   *rate.Limiter
	left    atomic.Int64 // lines left out since the last that was logged
}

func newStderrLog(p *program) *stderrLog {
	return &stderrLog{log: p.log.With("program", p.cfg.Command[0]), secrets: p.secrets,
		limit: rate.NewLimiter(perSecond, 5*perSecond)}
}

// writer takes what one program writes.
func (l *stderrLog) writer() *splitter { return &splitter{max: maxLogged, take: l.line} }

func (l *stderrLog) line(line []byte, _ bool) error {
	if len(line) == 0 {
		return nil
	}
	if !l.limit.Allow() {
		l.left.Add(1)
		return nil
	}
	l.end()
	l.log.InfoContext(logsum.Each, call.Head(line, maxLogged, l.secrets))
	return nil
}

// end logs how many lines were left out.
func (l *stderrLog) end() {
	if n := l.left.Swap(0); n > 0 {
		l.log.Warn("lines of standard error were left out: there were too many at once", "lines", n)
	}
}
