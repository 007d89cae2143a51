package cli

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/spf13/cobra"
)

// profiles are the names of profiles in net/http/pprof.
var profiles = map[string]string{"cpu": "profile", "heap": "heap", "goroutines": "goroutine"}

func newCtlProfile(to *service.Target) *cobra.Command {
	var output string
	var seconds int
	names := slices.Sorted(maps.Keys(profiles))
	cmd := &cobra.Command{
		Use:   "profile cpu|heap|goroutines",
		Short: "Save a profile of the process to a file",
		Long: `Profile saves what the process spends its CPU time on, what is in its memory, or
what its goroutines are doing, for go tool pprof. It has names of functions and
no data of messages.`,
		Example: `  flowd ctl profile cpu --seconds 10
  flowd ctl profile heap --output before.pprof
  flowd ctl profile heap --seconds 60      only what is allocated within this minute`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: names,
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) error {
			if cmd.Flags().Changed("seconds") && seconds < 1 {
				return usage("--seconds must be at least 1")
			}
			profile, err := c.Profile(cmd.Context(), profiles[args[0]], seconds)
			if err != nil {
				return shownError{err}
			}
			if output == "-" {
				_, err := messages(cmd.OutOrStdout()).Write(profile)
				return err
			}
			file := output
			if file == "" {
				file = fmt.Sprintf("flowd-%s-%s.pprof", args[0], time.Now().Format("20060102-150405"))
			}
			if err := os.WriteFile(file, profile, 0o600); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "saved %s (look at it with: go tool pprof %[1]s)\n", file)
			return nil
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"`FILE` to write, or - for stdout; by default its name has the kind and the time")
	cmd.Flags().IntVar(&seconds, "seconds", 0,
		"how long to record: by default, 30 for cpu; with heap and goroutines, only what changes in this time")
	return cmd
}
