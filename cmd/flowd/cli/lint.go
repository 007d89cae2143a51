package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/spf13/cobra"
)

func newLint() *cobra.Command {
	var set, plugins []string
	var asJSON, show, strict bool
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Show every problem of pipeline files at once",
		Long: `Lint builds exactly what a run builds, without opening anything, and shows
every problem at once: place, path, what is wrong, how to fix it, and a code that
is stable across versions. The exit code is 2 if there is an error; warnings alone
give 0, or 2 with --strict.`,
		Example: `  flowd lint orders.yaml
  flowd lint pipelines/ --json | jq -r '.[].code'
  flowd lint pipelines/ --strict            for CI: warnings fail, too
  flowd lint orders.yaml --show             every value in force, and where it comes from`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, files []string) error {
			if asJSON && show {
				return usage("--json and --show exclude each other")
			}
			loaded, problems := config.Load(files, config.Options{Set: set, Plugins: plugins})
			out, note := cmd.OutOrStdout(), cmd.ErrOrStderr()
			var err error
			switch {
			case asJSON:
				err = writeJSON(out, service.ProblemsOf(problems))
			case show:
				err = errors.Join(printProblems(note, problems), showAll(out, loaded))
			default:
				err = printProblems(out, problems)
			}
			if err != nil {
				return err
			}
			wrong, doubtful := count(problems)
			hint := ""
			if wrong+doubtful > 0 && isTerminal(note) {
				hint = " (flowd docs CODE explains the code in brackets)"
			}
			fmt.Fprintf(note, "%s, %s%s\n", plural(wrong, "error"), plural(doubtful, "warning"), hint)
			if wrong > 0 || strict && doubtful > 0 {
				return exit(invalid)
			}
			return nil
		},
	}
	addSet(cmd, &set)
	addPlugins(cmd, &plugins)
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with code 2 for warnings, too")
	cmd.Flags().BoolVar(&show, "show", false, "write the configuration in force, with the origin of every value")
	return cmd
}

// showAll writes the configuration in force, one YAML document per pipeline.
func showAll(w io.Writer, set *config.Set) error {
	for i, p := range set.Pipelines {
		separator := ""
		if i > 0 {
			separator = "---\n"
		}
		if _, err := fmt.Fprintf(w, "%s# %s\n%s", separator, p.File,
			strings.TrimRight(p.Show(), "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func addJSON(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "write JSON, for programs")
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeLine writes a value as JSON on a line.
func writeLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
