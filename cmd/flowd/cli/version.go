package cli

import (
	"fmt"
	"runtime"

	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this build",
		Example: "  flowd version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), version())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

type versionJSON struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Date     string `json:"date,omitempty"`     // of the revision
	Modified bool   `json:"modified,omitempty"` // built from a tree with local changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String returns the version on one line.
func (v versionJSON) String() string {
	line := "flowd " + v.Version
	if v.Revision != "" {
		line += " (" + v.Revision + " " + v.Date + ")"
	}
	return line + " " + v.Go + " " + v.Platform
}

func version() versionJSON {
	source := builds.Source()
	return versionJSON{source.Version, source.Revision, source.Date, source.Modified, runtime.Version(),
		runtime.GOOS + "/" + runtime.GOARCH}
}
