//go:build no_mcp || (slim && !mcp)

package cli

import "github.com/spf13/cobra"

func newMCP() *cobra.Command { return absent("mcp", "mcp") }
