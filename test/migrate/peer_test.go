package main

import (
	"os/exec"
	"testing"
)

// The expected results in equivalences must be the results of the peer.
func TestThePeerGivesTheSameResults(t *testing.T) {
	program, err := exec.LookPath("benthos")
	if err != nil {
		t.Skip("there is no benthos on PATH to ask")
	}
	dir := t.TempDir()
	for _, tt := range equivalences {
		got, err := peerRun(dir, program, tt.mapping, target(tt.inPlace), tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for i := range tt.in {
			if !equalResults(tt.want[i], got[i]) {
				t.Errorf("%s: %s becomes %s, want %s", tt.name, tt.in[i], got[i], tt.want[i])
			}
		}
	}
}
