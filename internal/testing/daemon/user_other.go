//go:build !unix

package daemon

import "syscall"

func ownGroup(bool) *syscall.SysProcAttr { return nil }

func give(string) error { return nil }
