package writebehind

import (
	"errors"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func TestAnErrorOfACacheHoldsUnlessItIsAboutTheKeyOrValue(t *testing.T) {
	cause := errors.New("refused")
	for _, tt := range []struct {
		err   error
		class engine.Class
		holds bool
	}{
		{cause, engine.Transient, true},
		{&engine.Error{Class: engine.Auth, Err: cause}, engine.Transient, true},
		{&engine.Error{Class: engine.Timeout, Delay: time.Second, Err: cause}, engine.Transient, true},
		{&engine.Error{Class: engine.Permanent, Err: cause}, engine.Permanent, false},
		{&engine.Error{Class: engine.Rejected, Err: cause}, engine.Rejected, false},
		{&engine.Error{Class: engine.Permanent, Holds: true, Err: cause}, engine.Transient, true},
	} {
		e := engine.ErrorOf(Held(tt.err), "")
		if e.Class != tt.class || e.Holds != tt.holds || !errors.Is(e, cause) || e.Delay != engine.ErrorOf(tt.err, "").Delay {
			t.Errorf("%v: class %s, holds %t", tt.err, e.Class, e.Holds)
		}
	}
	if err := Held(nil); err != nil {
		t.Errorf("of no error: %v", err)
	}
}
