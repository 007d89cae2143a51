package life

import (
	"testing"
	"time"
)

func TestAPhaseIsNeverLeftForAnEarlierOne(t *testing.T) {
	later := time.Now().Add(time.Hour)
	tests := []struct {
		name                         string
		events                       func(l *Life)
		at                           phase
		open, drains, passes, atOnce bool
	}{
		{"nothing is open yet", func(*Life) {}, opening, false, false, false, false},
		{"it runs", func(l *Life) { l.Runs() }, running, true, false, false, false},
		{"a stop before it runs", func(l *Life) { l.Drain(time.Time{}) }, ending, false, true, false, false},
		{"a drain", func(l *Life) { l.Runs(); l.Drain(later) }, ending, true, true, false, false},
		{"a drain whose time is up", func(l *Life) { l.Runs(); l.Drain(later); l.Advance(Returning) }, Returning, true,
			true, false, true},
		{"another plan follows", func(l *Life) { l.Runs(); l.Replace(); l.Advance(Returning) }, Returning, true, false,
			true, true},
		{"another plan follows after a drain", func(l *Life) { l.Runs(); l.Drain(later); l.Replace() }, ending, true,
			true, false, false},
		{"a drain when nothing is left", func(l *Life) { l.Runs(); l.Advance(Over); l.Drain(later) }, Over, true, true,
			false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l Life
			tt.events(&l)
			if l.At() != tt.at || l.IsOpen() != tt.open || l.Draining() != tt.drains || l.PassesOn() != tt.passes ||
				l.Handing() != tt.atOnce {
				t.Errorf("at %d, open %t, draining %t, passes on %t, hands back %t", l.At(), l.IsOpen(), l.Draining(),
					l.PassesOn(), l.Handing())
			}
		})
	}
}

func TestADrainIsTooShortForWhatComesAfterIt(t *testing.T) {
	var l Life
	l.Runs()
	end := time.Now().Add(time.Minute)
	if l.TooLate(end.Add(time.Hour)) {
		t.Error("without a drain nothing comes too late")
	}
	l.Drain(end)
	if l.TooLate(end.Add(-time.Second)) || !l.TooLate(end.Add(time.Second)) {
		t.Error("a drain's end is not where it should be")
	}
}

func TestNobodyEndsMessagesBehindTheFence(t *testing.T) {
	var l Life
	if !l.Enter() {
		t.Fatal("the fence is open")
	}
	closed := make(chan struct{})
	go l.Close(func() { close(closed) })
	select {
	case <-closed:
		t.Error("closed while somebody was inside")
	default:
	}
	l.Leave()
	<-closed
	if l.Enter() {
		t.Error("somebody got in")
	}
}
