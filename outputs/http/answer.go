package http

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/flowd-io/flowd/engine"
)

const (
	maxAnswer  = 256 << 10 // of an answer's body is read, so that the connection can be used again
	maxQuoted  = 300       // of that is shown
	maxWaiting = time.Hour // is believed of Retry-After
)

// judge reads an answer to its end and says what it means.
func (o *output) judge(req *http.Request, res *http.Response) error {
	defer res.Body.Close()
	head, err := io.ReadAll(io.LimitReader(res.Body, maxQuoted))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	}
	switch {
	case o.expects(res.StatusCode) && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)):
		return nil // the status came; a body that is cut off changes nothing
	case o.expects(res.StatusCode):
		return fmt.Errorf("%s: answer: %w", shown(req.URL), err)
	}
	e := engine.Errorf(classOf(res.StatusCode), "%s: %s%s", shown(req.URL), status(res), quote(head))
	e.Delay = retryAfter(res.Header.Get("Retry-After"), time.Now())
	return e
}

func (o *output) expects(status int) bool {
	if len(o.cfg.Expect) > 0 {
		return slices.Contains(o.cfg.Expect, status)
	}
	return status >= 200 && status < 300
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
		text += fmt.Sprintf(" to %q, which is not followed (write that URL if it is right)", res.Header.Get("Location"))
	}
	return strings.TrimSpace(text)
}

// quote is the head of an answer, safe for a log.
func quote(head []byte) string {
	text := strings.ToValidUTF8(string(head), "")
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
	if text == "" {
		return ""
	}
	return ": " + text
}

// retryAfter reads a number of seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		d = time.Duration(min(seconds, int(maxWaiting/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxWaiting)
}
