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
	maxDrained = 256 << 10 // bytes read of a body so that its connection can be reused
	maxRead    = 2 << 10   // bytes read for an error
	maxQuoted  = 300       // bytes shown in an error
	maxWaiting = time.Hour // longest Retry-After that is respected
)

// refusal reads an unexpected answer and turns it into an error.
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
	e.Holds = res.StatusCode == http.StatusInsufficientStorage // the server's disk is full: other requests would fail, too
	e.Delay = RetryAfter(res.Header.Get("Retry-After"), time.Now())
	return e
}

// Drain reads the rest of an answer, up to a limit, so that its connection can be reused.
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
	return engine.Permanent // a redirect, or an unexpected success
}

func status(res *http.Response) string {
	text := strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		text += fmt.Sprintf(" to %q, which is not followed (write that URL if it is the right one)", location(res))
	}
	return strings.TrimSpace(text)
}

// location returns where a redirect leads, without parts that may be secret.
func location(res *http.Response) string {
	u, err := url.Parse(res.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return Shown(u)
}

// RetryAfter parses seconds or a date. It returns how long a server asks to wait, at most an hour.
func RetryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(seconds, int(maxWaiting/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxWaiting)
}
