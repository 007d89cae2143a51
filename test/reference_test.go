package test

import "testing"

// TestTheReferenceIsFresh compares docs/reference.md with what the components
// say of themselves.
func TestTheReferenceIsFresh(t *testing.T) {
	got := flowd(t, repo, "", "docs", "--markdown")
	got.Want(t, 0)
	if got.Stdout != read(t, repo, "docs", "reference.md") {
		t.Error("docs/reference.md is stale: run make reference")
	}
}
