//go:build race

package expr

// With the race detector, pools let go of much of what they are given, such as the machines of regular expressions.
func init() { mostAllocated *= 8 }
