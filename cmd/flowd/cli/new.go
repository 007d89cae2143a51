package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/scaffold"
	"github.com/spf13/cobra"
)

func newNew() *cobra.Command {
	var file string
	var plugins []string
	cmd := &cobra.Command{
		Use:   "new INPUT / [PROCESSOR,... /] OUTPUT",
		Short: "Write a new pipeline",
		Long: `New writes a pipeline with these components, out of the examples in their
documentation: with a comment for each field, and a test. Between slashes, commas
separate several components of a kind. flowd list shows the components.

Exit codes: 0 written; 1 the file could not be written; 2 unknown component or usage.`,
		Example: `  flowd new rabbitmq / filter,set / s3 -o orders.yaml
  flowd lint orders.yaml && flowd test orders.yaml
  flowd new stdin / stdout                      without steps, to standard output`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeParts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := usePlugins(cmd, plugins); err != nil {
				return err
			}
			parts, err := partsOf(strings.Join(args, " "))
			if err != nil {
				return err
			}
			text, err := scaffold.Write(parts)
			if err != nil {
				return usage(err.Error())
			}
			if file != "" {
				return writeNew(cmd, file, text)
			}
			out := cmd.OutOrStdout()
			_, err = io.WriteString(out, text)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to a new `FILE`")
	addPlugins(cmd, &plugins)
	_ = cmd.MarkFlagFilename("output", "yaml", "yml")
	return cmd
}

// partsOf parses INPUT / PROCESSORS / OUTPUT.
func partsOf(text string) (p scaffold.Parts, err error) {
	var parts [][]string
	for part := range strings.SplitSeq(text, "/") {
		names := strings.FieldsFunc(part, func(r rune) bool { return r == ',' || r == ' ' })
		parts = append(parts, names)
	}
	if len(parts) == 2 {
		parts = [][]string{parts[0], nil, parts[1]}
	}
	if len(parts) != 3 || len(parts[0]) == 0 || len(parts[2]) == 0 {
		return p, usage("write an input, perhaps processors, and an output, such as: flowd new stdin / filter,set / stdout")
	}
	return scaffold.Parts{Inputs: parts[0], Steps: parts[1], Outputs: parts[2]}, nil
}

// writeNew writes a file that does not exist yet.
func writeNew(cmd *cobra.Command, path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // #nosec G302 -- a file for others, within the umask
	if errors.Is(err, fs.ErrExist) {
		return usage(path + " exists already")
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is written: edit it, then try flowd lint %[1]s and flowd test %[1]s\n", path)
	return nil
}

// completeParts completes the name of a component, by the slashes before it.
func completeParts(_ *cobra.Command, args []string, word string) (names []string, _ cobra.ShellCompDirective) {
	before, from := strings.Join(args, " ")+" "+word, strings.LastIndexAny(word, ",/")+1
	var all []string
	switch strings.Count(before, "/") {
	case 0:
		all = engine.Inputs.Names()
	case 1:
		all = append(engine.Processors.Names(), engine.Outputs.Names()...)
	case 2:
		all = engine.Outputs.Names()
	}
	for _, name := range all {
		names = append(names, word[:from]+name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
