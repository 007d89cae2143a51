package exec

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/operations/logsum"
	"github.com/flowd-io/flowd/schema"
)

// Limits that keep a program which floods its standard error from flooding the log: bytes per line, and lines per
// second.
const (
	maxLogged = 2 << 10
	perSecond = 20
)

// stderrLog logs what the programs of a step write to standard error.
type stderrLog struct {
	log     *slog.Logger
	secrets *schema.Secrets
	limit   *rate.Limiter
	left    atomic.Int64 // lines left out since the last logged line
}

func newStderrLog(p *program) *stderrLog {
	return &stderrLog{log: p.log.With("program", p.Command[0]), secrets: p.Secrets,
		limit: rate.NewLimiter(perSecond, 5*perSecond)}
}

// writer returns a writer for the output of one program.
func (l *stderrLog) writer() *splitter { return &splitter{max: maxLogged, handle: l.line} }

func (l *stderrLog) line(line []byte, _ bool) error {
	if len(line) == 0 {
		return nil
	}
	if !l.limit.Allow() {
		l.left.Add(1)
		return nil
	}
	l.logLeftOut()
	l.log.InfoContext(logsum.Each, call.Head(line, maxLogged, l.secrets))
	return nil
}

// logLeftOut logs how many lines were left out.
func (l *stderrLog) logLeftOut() {
	if n := l.left.Swap(0); n > 0 {
		l.log.Warn("too many lines of standard error: some were left out", "lines", n)
	}
}
