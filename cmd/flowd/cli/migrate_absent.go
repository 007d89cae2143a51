//go:build no_migrate || (slim && !migrate)

package cli

import "github.com/spf13/cobra"

func newMigrate() *cobra.Command { return absent("migrate", "migrate") }
