//go:build no_migrate || no_nats || no_top || slim

package cli

import (
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/spf13/cobra"
)

// absent returns a command that explains how to get what this build leaves out.
func absent(name, family string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return usage("flowd " + name + " is " + builds.Hint(family)) },
	}
}
