package cause_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
)

// answer is an error of a system with error codes.
type answer struct{ code, text string }

func (a answer) Error() string { return "library: " + a.text }

var (
	errQuota  = errors.New("library: quota")
	errAbsent = errors.New("absent")
)

var table = cause.Table{
	Code: func(err error) (code, text string) {
		if a, ok := errors.AsType[answer](err); ok {
			return a.code, a.text
		}
		return "", ""
	},
	Rows: []cause.Row{
		{Codes: []string{"404"}, Kind: cause.Missing, Remedy: "create it", Means: errAbsent},
		{Codes: []string{"40*"}, Kind: cause.Misconfigured},
		{Is: errQuota, Kind: cause.Throttled, Says: "too many requests", Remedy: "send fewer"},
		{If: cause.HungUp, Kind: cause.Lost, Says: "the server hung up"},
	},
	Delay: func(err error) time.Duration {
		if errors.Is(err, errQuota) {
			return time.Minute
		}
		return 0
	},
	Refused: cause.Rejected,
}

func TestClassesOfErrors(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	tests := []struct {
		err    error
		class  engine.Class
		holds  bool
		passes bool
		text   string
	}{
		{answer{"404", "no queue"}, engine.Transient, true, false, "read: no queue (create it)"},
		{answer{"401", "no login"}, engine.Permanent, false, false, "read: no login"},
		{answer{"500", "no idea"}, engine.Rejected, false, false, "read: no idea"},
		{fmt.Errorf("wrapped: %w", errQuota), engine.Transient, false, true, "read: too many requests (send fewer)"},
		{errors.New("anything else"), engine.Transient, false, true, "read: anything else"},
		{dial, engine.Transient, true, true, "read: dial: connection refused (check that the server runs, and its address)"},
		{io.ErrUnexpectedEOF, engine.Transient, false, true, "read: the server hung up"},
		{context.DeadlineExceeded, engine.Timeout, false, true, "read: context deadline exceeded (the server does not answer in time)"},
		{tls.RecordHeaderError{Msg: "HTTP"}, engine.Auth, true, false,
			"read: tls: HTTP (the server does not speak TLS at this port: check the port, or remove `tls`)"},
		{x509.UnknownAuthorityError{}, engine.Auth, true, false,
			"read: x509: certificate signed by unknown authority (name the authority in `tls: {ca: FILE}`)"},
		{fmt.Errorf("told to: %w", context.Canceled), "", false, false, "told to: context canceled"},
		{engine.Errorf(engine.Late, "known"), engine.Late, false, false, "known"},
	}
	for _, tt := range tests {
		got := table.Explain(tt.err, "read")
		e := engine.ErrorOf(got, "")
		if got.Error() != tt.text || e.Class != tt.class || e.HoldsOutput() != tt.holds || engine.Passes(got) != tt.passes ||
			!errors.Is(got, tt.err) {
			t.Errorf("%v\n got: %v: %s, holds %t, passes %t\nwant: %s: %s, holds %t, passes %t", tt.err, got, e.Class,
				e.HoldsOutput(), engine.Passes(got), tt.text, tt.class, tt.holds, tt.passes)
		}
	}
	if err := table.Explain(nil, "read"); err != nil {
		t.Errorf("of no error: %v", err)
	}
	if err := table.Explain(answer{"404", ""}, ""); !errors.Is(err, errAbsent) {
		t.Errorf("%v is not what its row means", err)
	}
	if e := engine.ErrorOf(table.Explain(errQuota, ""), ""); e.Delay != time.Minute {
		t.Errorf("the system asks to wait %v, want a minute", e.Delay)
	}
}

func TestOfSeveralServersTheOneThatMayComeBackCounts(t *testing.T) {
	wrong, away := engine.Errorf(engine.Auth, "a: wrong password"), engine.Errorf(engine.Transient, "b: away")
	for _, tt := range []struct {
		errs  []error
		class engine.Class
		text  string
	}{
		{[]error{wrong}, engine.Auth, "a: wrong password"},
		{[]error{wrong, away}, engine.Transient, "a: wrong password; b: away"},
		{[]error{away, wrong}, engine.Transient, "b: away; a: wrong password"},
		{[]error{wrong, wrong}, engine.Auth, "a: wrong password; a: wrong password"},
	} {
		err := cause.All(tt.errs)
		if e := engine.ErrorOf(err, ""); e.Class != tt.class || err.Error() != tt.text || !errors.Is(err, tt.errs[len(tt.errs)-1]) {
			t.Errorf("got %s: %v, want %s: %s", e.Class, err, tt.class, tt.text)
		}
	}
}
