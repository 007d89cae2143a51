//go:build !unix

package debian

import "os"

// Install is for Debian only.
func Install(_, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return errNotRoot
}
