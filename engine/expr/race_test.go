//go:build race

package expr

// With the race detector, pools let go of much of what they are given, such as the machines of regular expressions, and
// what computes for long takes ten times as long: .ci/run tests the budgets without it.
func init() {
	mostAllocated *= 8
	raced = true
}
