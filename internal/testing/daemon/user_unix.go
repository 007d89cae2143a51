//go:build unix

package daemon

import (
	"os"
	"syscall"
)

// nobody is the user and group of that name on Debian.
const nobody = 65534

// ownGroup makes a process lead its own group, out of reach of Ctrl-C.
func ownGroup(unprivileged bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if unprivileged {
		attr.Credential = Nobody()
	}
	return attr
}

// Nobody is whom root starts programs as that refuse to run as root; nil if this is not root.
func Nobody() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: nobody, Gid: nobody}
}

func give(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(path, nobody, nobody)
}
