//go:build unix

package brokertest

import (
	"path/filepath"

	"github.com/flowd-io/flowd/internal/testing/debian"
)

// scripts are the package's own scripts, which run as whoever calls them.
const scripts = "/usr/lib/rabbitmq/bin"

// installed is the script that starts a node.
func installed() (string, error) {
	script := filepath.Join(scripts, "rabbitmq-server")
	return script, debian.Install("rabbitmq-server", script)
}
