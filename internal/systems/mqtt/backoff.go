package mqtt

import (
	"math/rand/v2"
	"time"

	"github.com/flowd-io/flowd/engine/cause"
)

// Rivals delays connecting while another client uses the same client id. Each connection of one client makes the server
// close the connection of the other, so without delays both would reconnect as fast as they can. It is not safe for
// concurrent use.
type Rivals struct {
	losses int       // losses in a row that a rival may have caused
	since  time.Time // when the connection began
	until  time.Time // when to connect again
	sure   bool      // the server has said that another client has connected
}

const (
	// The first and the longest delay if the server says that another client has connected.
	firstWait, longestWait = 2 * time.Second, 2 * time.Minute
	// The first and the longest delay if the server closes connections without a reason.
	firstGuess, longestGuess = 100 * time.Millisecond, 5 * time.Second
	// A connection that lasts this long resets the delays.
	peace = 5 * time.Minute
)

// RivalsText is the problem and its remedy, for errors and logs.
const RivalsText = "the server ends this client's connections: another client may have the same client_id " +
	"(give each client its own, or stop the other one)"

// Connected records that a connection was made.
func (r *Rivals) Connected(now time.Time) { r.since = now }

// Lost records that a connection was lost because of err. It returns how long to wait before connecting again, and whether
// the server has said that a rival is the reason. Not all servers can say so (those of version 3.1.1 can't). So there is also
// a delay after a server has closed several connections in a short time without a reason.
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

// Wait returns how long to wait before connecting, and whether the server has said that a rival is the reason.
func (r *Rivals) Wait(now time.Time) (wait time.Duration, sure bool) {
	return max(0, r.until.Sub(now)), r.sure
}
