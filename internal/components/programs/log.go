package programs

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/operations/logsum"
	"github.com/flowd-io/flowd/schema"
)

// Limits that keep a program which floods its output from flooding the log: bytes per line, and lines per second.
const (
	maxLogged = 2 << 10
	perSecond = 20
)

// Log logs the lines that the processes of a program write to standard output or standard error. It limits their length,
// and their rate across all processes. It is safe for concurrent use.
type Log struct {
	log     *slog.Logger
	secrets *schema.Secrets
	limit   *rate.Limiter
	left    atomic.Int64 // lines left out since the last logged line
}

// NewLog returns a Log whose records name the program, and in which secrets are masked.
func NewLog(log *slog.Logger, program string, secrets *schema.Secrets) *Log {
	return &Log{log: log.With("program", program), secrets: secrets, limit: rate.NewLimiter(perSecond, 5*perSecond)}
}

// Writer returns a writer for one output of one process. It must be flushed when the process has ended. It never fails.
func (l *Log) Writer() *Lines { return &Lines{Max: maxLogged, Handle: l.line} }

func (l *Log) line(line []byte, _ bool) error {
	if len(line) > 0 {
		l.Record(slog.LevelInfo, line)
	}
	return nil
}

// Record logs a text of the program, with attributes.
func (l *Log) Record(level slog.Level, text []byte, args ...any) {
	if !l.limit.Allow() {
		l.left.Add(1)
		return
	}
	l.ReportLeftOut()
	l.log.Log(logsum.Each, level, call.Head(text, maxLogged, l.secrets), args...)
}

// ReportLeftOut logs how many lines were left out since the last logged line. It is called when a process has ended.
func (l *Log) ReportLeftOut() {
	if n := l.left.Swap(0); n > 0 {
		l.log.Warn("the program logs too many lines: some were left out", "lines", n)
	}
}
