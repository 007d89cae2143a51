//go:build race

package exprtest

// With the race detector, pools drop much of what they are given, such as the machines of regular expressions, and long
// computations take ten times as long. .ci/run tests budgets without it.
func init() {
	mostAllocated *= 8
	raced = true
}
