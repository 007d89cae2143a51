package mqtt

import (
	"errors"
	"io"
	"math/rand/v2"
	"time"
)

// Rivals keeps two clients with one client id from taking the session from each other as fast as they can.
type Rivals struct {
	losses int
	since  time.Time // of the connection
	until  time.Time // when to connect again
}

// The wait after the first loss, after many, and how long a connection must last for the next loss to be the first.
const (
	firstWait   = 2 * time.Second
	longestWait = 2 * time.Minute
	peace       = 5 * time.Minute
)

// Connected says that there is a connection now.
func (r *Rivals) Connected(now time.Time) { r.since = now }

// RivalsText says what goes on, and what to do about it.
const RivalsText = "the server ends this client's connections: another client may have the same client_id " +
	"(give each client its own, or stop the other one)"

// Lost is told why a connection was lost, and says how long to wait before the next one: 0 unless a rival took it. Not
// all servers say that one did (those of version 3.1.1 can't), so a second connection in a short time that the server
// closes without a reason is taken for it.
func (r *Rivals) Lost(err error, now time.Time) time.Duration {
	taken := TakenOver(err)
	if !taken && !errors.Is(err, io.EOF) {
		return 0
	}
	if now.Sub(r.since) > peace {
		r.losses = 0
	}
	r.losses++
	doublings := r.losses - 1
	if !taken {
		doublings--
	}
	if doublings < 0 {
		return 0
	}
	wait := min(firstWait<<min(doublings, 10), longestWait)
	wait = wait/2 + rand.N(wait/2+1)
	r.until = now.Add(wait)
	return wait
}

// Wait is how long to wait before connecting.
func (r *Rivals) Wait(now time.Time) time.Duration { return max(0, r.until.Sub(now)) }
