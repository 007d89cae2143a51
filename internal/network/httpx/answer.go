package httpx

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
)

const (
	maxDrained = 256 << 10 // of an answer's body is read, so that the connection can be used again
	maxRead    = 2 << 10   // is checked, for an error
	maxQuoted  = 300       // of that is shown
	maxWaiting = time.Hour // is believed of Retry-After
)

// refusal reads an answer to its end and says what it means, for one that is not
// expected.
func (c *Caller) refusal(req *http.Request, res *http.Response) error {
	head, err := io.ReadAll(io.LimitReader(res.Body, maxRead))
	if err == nil {
		_ = Drain(res)
	}
	text := Shown(req.URL) + ": " + status(res)
	if said := call.Head(head, maxQuoted, c.secret()); said != "" {
		text += ": " + said
	}
	e := engine.Errorf(classOf(res.StatusCode), "%s", text)
	e.Holds = res.StatusCode == http.StatusInsufficientStorage // the disk of the server is full: nothing else would fit
	e.Delay = RetryAfter(res.Header.Get("Retry-After"), time.Now())
	return e
}

// Drain reads what is left of an answer, up to a bound, so that its connection
// can be used again.
func Drain(res *http.Response) error {
	_, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxDrained))
	return err
}

func classOf(status int) engine.Class {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return engine.Auth
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return engine.Transient
	}
	switch {
	case status >= 500:
		return engine.Transient
	case status >= 400:
		return engine.Rejected
	}
	return engine.Permanent // a redirect, or a success that is not expected
}

func status(res *http.Response) string {
	text := strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		text += fmt.Sprintf(" to %q, which is not followed (write that URL if it is the right one)", location(res))
	}
	return strings.TrimSpace(text)
}

// location is where a redirect leads, without what may be secret in it.
func location(res *http.Response) string {
	u, err := url.Parse(res.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return Shown(u)
}

// RetryAfter reads a number of seconds or a date: how long a server asks to wait, at most an hour.
func RetryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(seconds, int(maxWaiting/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxWaiting)
}
