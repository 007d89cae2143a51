package hub

import (
	"time"

	"github.com/flowd-io/flowd/internal/pool/wire"
)

// refusal is a rejected worker, which keeps asking.
type refusal struct {
	version string
	times   int       // since it was last logged
	told    time.Time // when it was last logged
}

const (
	tellAgain    = time.Hour // for a worker that still asks
	mostRefusals = 1000      // remembered refusals
)

// refuse logs a worker of another version: at once, and then every hour with the number of requests.
func (r *remote) refuse(j *wire.Join, now time.Time) {
	r.mu.Lock()
	known := r.refused[j.Worker]
	if known == nil || known.version != j.Version {
		if len(r.refused) >= mostRefusals {
			clear(r.refused)
		}
		known = &refusal{version: j.Version}
		r.refused[j.Worker] = known
	}
	known.times++
	times, tell := known.times, known.told.IsZero() || now.Sub(known.told) >= tellAgain
	if tell {
		known.times, known.told = 0, now
	}
	r.mu.Unlock()
	if tell {
		r.log.Warn("a worker of another version was refused", "pool", r.name, "worker", j.Worker, "its", j.Version,
			"ours", wire.Version(), "times", times)
	}
}
