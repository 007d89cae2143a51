//go:build !unix

package brokertest

import "errors"

const scripts = ""

func installed() (string, error) { return "", errors.New("it can only be installed on Debian") }
