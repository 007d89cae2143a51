package cli

import (
	"fmt"
	"runtime"

	"github.com/flowd-io/flowd/internal/pool/wire"
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
	Modified bool   `json:"modified,omitempty"` // built from a tree with local changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String returns the version on one line.
func (v versionJSON) String() string {
	line := "flowd " + v.Version
	if v.Revision != "" {
		line += " (" + v.Revision + ")"
	}
	return line + " " + v.Go + " " + v.Platform
}

func version() versionJSON {
	v := versionJSON{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	v.Version, v.Revision, v.Modified = wire.Build()
	return v
}
