//go:build !linux

package headroom

func unmap() {}
