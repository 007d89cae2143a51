package call

import (
	"errors"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func TestPassing(t *testing.T) {
	if err := Passing(nil); err != nil {
		t.Errorf("of no error: %v", err)
	}
	cause := errors.New("refused")
	for _, err := range []error{cause, &engine.Error{Class: engine.Auth, Err: cause}} {
		if e := engine.ErrorOf(Passing(err), ""); e.Class != engine.Transient || e.Holds || !errors.Is(e, cause) {
			t.Errorf("%v: class %s, holds %t", err, e.Class, e.Holds)
		}
	}
	e := engine.ErrorOf(Passing(&engine.Error{Class: engine.Timeout, Holds: true, Delay: time.Second, Err: cause}), "")
	if e.Class != engine.Transient || !e.Holds || e.Delay != time.Second {
		t.Errorf("class %s, holds %t, delay %v", e.Class, e.Holds, e.Delay)
	}
}
