package cli

import (
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/graph"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newGraph() *cobra.Command {
	var set, plugins []string
	var asJSON, mermaid bool
	cmd := &cobra.Command{
		Use:   "graph FILE...",
		Short: "Draw the routes of messages through pipelines",
		Long: `Graph draws each pipeline: its inputs, steps, batchers and outputs, where failed
messages go, and for each route from an input to an output how often a message
arrives, and in which order. Nothing is opened, and placeholders of inputs and
outputs need no value. The exit code is 2 if a file has an error.`,
		Example: `  flowd graph orders.yaml
  flowd graph pipelines/ --mermaid > pipelines.mmd    for Markdown and documentation
  flowd graph orders.yaml --json | jq -r '.[].routes[] | select(.guarantee == "at most once")'`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, files []string) error {
			if asJSON && mermaid {
				return usage("--json and --mermaid exclude each other")
			}
			secrets := &schema.Secrets{}
			loaded, err := load(cmd.ErrOrStderr(), files, config.Options{Set: set, Plugins: plugins, Secrets: secrets, Testing: true})
			if err != nil {
				return err
			}
			all := []*graph.Graph{}
			for _, p := range loaded.Pipelines {
				all = append(all, graph.Of(p, secrets))
			}
			switch {
			case asJSON:
				return writeJSON(cmd.OutOrStdout(), all)
			case mermaid:
				_, err = fmt.Fprint(cmd.OutOrStdout(), graph.Mermaid(all))
				return err
			}
			texts := make([]string, len(all))
			for i, g := range all {
				texts[i] = g.Text()
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), strings.Join(texts, "\n"))
			return err
		},
	}
	addSet(cmd, &set)
	addPlugins(cmd, &plugins)
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "write a Mermaid flowchart")
	return cmd
}
