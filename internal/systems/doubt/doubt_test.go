package doubt_test

import (
	"errors"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/doubt"
)

func TestOnlyAWriteInDoubtIsRemembered(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("connection lost"), true},
		{engine.Errorf(engine.Timeout, "no answer"), true},
		{engine.Errorf(engine.Rejected, "too long"), false},
	} {
		var s doubt.Set[string]
		s.Note(engine.Errorf(engine.Transient, "before"), "a")
		s.Note(tt.err, "a")
		if s.Has("a") != tt.want || s.IsEmpty() == tt.want {
			t.Errorf("after %v: in doubt %t, want %t", tt.err, s.Has("a"), tt.want)
		}
	}
}
