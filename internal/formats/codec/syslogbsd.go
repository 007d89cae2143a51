package codec

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var errStamp = errors.New("there is no timestamp such as Oct 11 22:14:15 (with best_effort, none is needed)")

// rfc3164 parses messages in the form used since the eighties: a timestamp, a host, a program and its process.
// Everything but the timestamp may be missing.
func (r *syslogReader) rfc3164() error {
	at, rest, err := r.stamp()
	if err != nil {
		return err
	}
	r.word("timestamp", at)
	r.rest = strings.TrimPrefix(rest, " ")
	if host, rest, ok := strings.Cut(r.rest, " "); ok && host != "" && !strings.HasSuffix(host, ":") &&
		!strings.Contains(host, "[") {
		if err := r.addText("hostname", host); err != nil {
			return err
		}
		r.rest = rest
	}
	return r.tag()
}

// tag parses app: or app[123]:, if there is one.
func (r *syslogReader) tag() error {
	end := strings.IndexAny(r.rest, " :[")
	if end <= 0 || r.rest[end] == ' ' {
		return nil
	}
	app, pid, rest := r.rest[:end], "", r.rest[end:]
	if rest[0] == '[' {
		var ok bool
		if pid, rest, ok = strings.Cut(rest[1:], "]"); !ok || pid == "" || strings.ContainsAny(pid, " [") {
			return nil
		}
		rest = strings.TrimPrefix(rest, ":")
	} else if rest = rest[1:]; rest != "" && rest[0] != ' ' { // such as http://
		return nil
	}
	if err := r.addText("appname", app); err != nil {
		return err
	}
	if pid != "" {
		if err := r.addText("procid", pid); err != nil {
			return err
		}
	}
	r.text(rest)
	return nil
}

// stamp parses a timestamp: in the form of RFC 3164, with a year as some devices add, or RFC 3339 as rsyslog writes
// it.
func (r *syslogReader) stamp() (at, rest string, err error) {
	token, rest, _ := strings.Cut(r.rest, " ")
	if isInstant(token) {
		return token, rest, nil
	}
	month, rest := token, strings.TrimLeft(rest, " ")
	day, rest, _ := strings.Cut(rest, " ")
	clock, rest, _ := strings.Cut(rest, " ")
	year := ""
	if len(clock) == 4 && strings.Trim(clock, "0123456789") == "" {
		year = clock
		clock, rest, _ = strings.Cut(rest, " ")
	}
	clock = strings.TrimSuffix(clock, ":")
	written := month + " " + day + " " + clock + " "
	if year == "" && r.Year > 0 {
		year = fmt.Sprintf("%04d", r.Year)
	}
	if year != "" {
		t, err := time.ParseInLocation("Jan 2 15:04:05 2006", written+year, r.Zone.in())
		if err != nil {
			return "", "", errStamp
		}
		return t.Format(time.RFC3339Nano), rest, nil
	}
	t, ok := r.closest(written)
	if !ok {
		return "", "", errStamp
	}
	return t.Format(time.RFC3339Nano), rest, nil
}

// closest adds the year that brings a time closest to now: messages of December may arrive in January, and clocks may
// be ahead.
func (r *syslogReader) closest(written string) (best time.Time, ok bool) {
	for _, years := range []int{0, -1, 1} {
		year := r.now.In(r.Zone.in()).Year() + years
		t, err := time.ParseInLocation("Jan 2 15:04:05 2006", fmt.Sprintf("%s%04d", written, year), r.Zone.in())
		if err == nil && (!ok || t.Sub(r.now).Abs() < best.Sub(r.now).Abs()) {
			best, ok = t, true
		}
	}
	return best, ok
}
