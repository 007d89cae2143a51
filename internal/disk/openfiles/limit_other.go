//go:build !unix

package openfiles

// limit returns a guess: such systems do not report how many descriptors a process may have.
func limit() uint64 { return 4 * most }
