//go:build !unix

package openfiles

// limit is how many descriptors the process may have: such systems do not report one.
func limit() uint64 { return 4 * most }
