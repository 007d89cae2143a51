package cli

import (
	"bytes"

	"github.com/flowd-io/flowd/config"
	"github.com/spf13/cobra"
)

func newSchema() *cobra.Command {
	var plugins []string
	cmd := &cobra.Command{
		Use:     "schema",
		Short:   "Write the JSON Schema of pipeline files, for editors",
		Example: "  flowd schema > flowd.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usePlugins(cmd, plugins); err != nil {
				return err
			}
			text, err := config.JSONSchema()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(append(bytes.TrimRight(text, "\n"), '\n'))
			return err
		},
	}
	addPlugins(cmd, &plugins)
	return cmd
}
