package push

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/operations/logsum"
)

// References identify errors that clients do not see. The log has each reference with its error. Equal errors share a reference for
// a while, and so do all further errors when there are many: a client can't fill the log. These log lines are therefore exempt from
// the summing up by [logsum.Handler].
type References struct {
	Log    *slog.Logger
	Expose bool // clients see all errors: there are no references

	mu    sync.Mutex // guards the fields below
	known map[cause]*reference
	ends  *time.Timer // forgets them; nil: there are none
}

const (
	referencesFor  = 10 * time.Second
	mostReferences = 100
	causeText      = 1 << 10  // bytes of an error that distinguish it from others
	mostLogged     = 16 << 10 // bytes of an error
)

type cause struct {
	class       engine.Class
	place, text string
}

type reference struct {
	id    string
	times int
}

// Tell returns what a client may know about an error: what is wrong with its own message, or else the reference of the error in
// the log.
func (f *References) Tell(err *engine.Error) (text, ref string) {
	var fault engine.Fault
	var syntax *doc.SyntaxError
	switch {
	case f.Expose:
		return err.Error(), ""
	case errors.As(err, &fault):
		return fault.Error(), ""
	case err.Class == engine.Decode && errors.As(err, &syntax):
		return syntax.Error(), ""
	}
	return "", f.of(err)
}

// of returns the reference of an error.
func (f *References) of(err *engine.Error) string {
	text := err.Error()
	c := cause{err.Class, err.Place(), text[:min(len(text), causeText)]}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[cause]*reference{}
		f.ends = time.AfterFunc(referencesFor, f.SumUp)
	}
	what := "a client got a reference to an error"
	if f.known[c] == nil && len(f.known) >= mostReferences {
		c = cause{}
		what = "clients got references to errors: the first of many different ones"
	}
	x := f.known[c]
	if x == nil {
		x = &reference{id: rand.Text()[:10]}
		f.known[c] = x
		text = strings.ToValidUTF8(text[:min(len(text), mostLogged)], "")
		f.Log.WarnContext(logsum.Each, what, "ref", x.id, "class", err.Class, "place", err.Place(), "err", text)
	}
	x.times++
	return x.id
}

// SumUp logs how often references were given out, and forgets them.
func (f *References) SumUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.known {
		if x.times > 1 {
			f.Log.WarnContext(logsum.Each, "clients got references to an error", "ref", x.id, "times", x.times)
		}
	}
	if f.ends != nil {
		f.ends.Stop()
	}
	f.known, f.ends = nil, nil
}
