package cli

import (
	"fmt"
	"io"

	"github.com/flowd-io/flowd/config"
	"github.com/spf13/cobra"
)

// formatting holds the flags of `flowd fmt`.
type formatting struct{ write, check, diff, json bool }

func newFmt() *cobra.Command {
	var f formatting
	cmd := &cobra.Command{
		Use:   "fmt [FILE...]",
		Short: "Format pipeline files",
		Long: `Fmt indents each level by two columns, removes white space at the ends of lines
and repeated empty lines, and ends lines with a line feed. Comments, the order of
keys, quotes and braces stay, and so does the meaning: a file that can't be
formatted safely is an error. Without a file, fmt formats standard input.

Exit codes: 0 done; 1 with --check: a file is not formatted; 2 invalid file or usage.`,
		Example: `  flowd fmt -w orders.yaml          rewrite the file
  flowd fmt --check pipelines/      list the files that are not formatted
  flowd fmt --diff orders.yaml      show what would change
  flowd fmt < orders.yaml           write the result to standard output`,
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.write && (f.check || f.diff):
				return usage("-w excludes --check and --diff")
			case f.json && (!f.check || f.diff):
				return usage("--json needs --check, without --diff")
			case f.write && len(args) == 0:
				return usage("-w needs a file")
			}
			return f.run(cmd, args)
		},
	}
	cmd.Flags().BoolVarP(&f.write, "write", "w", false, "rewrite the files")
	cmd.Flags().BoolVar(&f.check, "check", false, "list the files that are not formatted")
	cmd.Flags().BoolVar(&f.diff, "diff", false, "show what would change")
	addJSON(cmd, &f.json)
	return cmd
}

func (f *formatting) run(cmd *cobra.Command, paths []string) error {
	all, problems := config.Format(paths)
	if len(paths) == 0 {
		data, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return err
		}
		one, wrong := config.FormatText("<stdin>", data)
		all, problems = append(all, one), wrong
	}
	if err := showProblems(newConsole(cmd.ErrOrStderr()), problems); err != nil {
		return err // no file is changed
	}
	if len(all) > 1 && !f.write && !f.check && !f.diff {
		return usage("several files need -w, --check or --diff")
	}
	out := cmd.OutOrStdout()
	changed := []string{} // [] instead of null
	for _, one := range all {
		if one.Changed() {
			changed = append(changed, one.File)
		}
		if err := f.show(out, one); err != nil {
			return fmt.Errorf("%s: %w", one.File, err)
		}
	}
	if f.json {
		if err := writeJSON(out, changed); err != nil {
			return err
		}
	}
	if f.check && len(changed) > 0 {
		return exit(failed)
	}
	return nil
}

// show writes the result for one file.
func (f *formatting) show(out io.Writer, one config.Formatted) (err error) {
	switch {
	case f.write && one.Changed():
		return replaceFile(one.File, one.After)
	case f.diff && one.Changed():
		_, err = fmt.Fprintf(out, "%s:\n%s", one.File, lineDiff(one.Before, one.After, colored(out)))
	case f.check && one.Changed() && !f.json:
		_, err = fmt.Fprintln(out, one.File)
	case f.write, f.diff, f.check:
	case isTerminal(out):
		_, err = io.WriteString(out, one.After)
	default:
		_, err = io.WriteString(messages(out), one.After)
	}
	return err
}
