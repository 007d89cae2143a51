//go:build no_top || (slim && !top)

package cli

import "github.com/spf13/cobra"

func newTop() *cobra.Command { return absent("top", "top") }
