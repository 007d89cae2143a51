//go:build !unix

package pgtest

import (
	"errors"
	"os/exec"
)

const programs = ""

func installed() error { return errors.New("it can only be installed on Debian") }

func unprivileged(*exec.Cmd) {}
