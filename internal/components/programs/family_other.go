//go:build !linux

package programs

// adopt does nothing: this system can't find a process that leaves its program's group.
func adopt() {}

// EndFamily does nothing.
func EndFamily(int, string) {}

// ReapFamily does nothing.
func ReapFamily(int) {}
