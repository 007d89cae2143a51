//go:build !unix

package brokertest

import "syscall"

const scripts = ""

func installed() (string, error) { return "", errNotRoot }

func ownGroup() *syscall.SysProcAttr { return nil }
