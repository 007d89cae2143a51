package mqtt

import (
	"math/rand/v2"
	"time"

	"github.com/flowd-io/flowd/engine/cause"
)

// Rivals keeps two clients with one client id from taking the session from each other as fast as they can.
type Rivals struct {
	losses int
	since  time.Time // of the connection
	until  time.Time // when to connect again
	sure   bool      // the server has said that there is another client
}

// How long to wait: at first and at most, where the server says that another client has come, and where it only closes
// connections; and how long a connection must last for its loss to be the first again.
const (
	firstWait, longestWait   = 2 * time.Second, 2 * time.Minute
	firstGuess, longestGuess = 100 * time.Millisecond, 5 * time.Second
	peace                    = 5 * time.Minute
)

// RivalsText says what goes on, and what to do about it.
const RivalsText = "the server ends this client's connections: another client may have the same client_id " +
	"(give each client its own, or stop the other one)"

// Connected says that there is a connection now.
func (r *Rivals) Connected(now time.Time) { r.since = now }

// Lost is told why a connection was lost, and says how long to wait before the next one, and whether a rival is the
// reason. Not all servers say so (those of version 3.1.1 can't), so one that closes several connections in a short time
// without a reason is waited for, too.
func (r *Rivals) Lost(err error, now time.Time) (wait time.Duration, sure bool) {
	r.sure = TakenOver(err)
	if !r.sure && !cause.HungUp(err) {
		return 0, false
	}
	if now.Sub(r.since) > peace {
		r.losses = 0
	}
	doublings := min(r.losses, 10)
	r.losses++
	switch {
	case r.sure:
		wait = min(firstWait<<doublings, longestWait)
	case doublings > 0:
		wait = min(firstGuess<<(doublings-1), longestGuess)
	default:
		return 0, false
	}
	wait = wait/2 + rand.N(wait/2+1)
	r.until = now.Add(wait)
	return wait, r.sure
}

// Wait is how long to wait before connecting, and whether a rival is the reason.
func (r *Rivals) Wait(now time.Time) (wait time.Duration, sure bool) {
	return max(0, r.until.Sub(now)), r.sure
}
