//go:build no_nats || (slim && !nats)

package cli

import "github.com/spf13/cobra"

func newWorker() *cobra.Command { return absent("worker", "nats") }

func newPool() *cobra.Command { return absent("pool", "nats") }
