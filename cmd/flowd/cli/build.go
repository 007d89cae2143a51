package cli

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/internal/operations/plugins"
	"github.com/spf13/cobra"
)

func newBuild() *cobra.Command {
	var b plugins.Build
	cmd := &cobra.Command{
		Use:   "build --with PACKAGE[@VERSION]...",
		Short: "Build a flowd with plugins of other modules",
		Long: `Builds a flowd that has the plugins of other Go modules, too. It runs the go
command in a temporary module, so nobody has to write a main.go.

--with takes what an import statement does, with a version or a folder:

  PACKAGE            the latest version
  PACKAGE@VERSION    this version
  PACKAGE=DIR        the module in this folder
  DIR                the same, if the package is the root of the module;
                     DIR begins with . or /

GOOS, GOARCH, GOPROXY and the other variables of the go command apply.
The binary is linked statically unless CGO_ENABLED is set.`,
		Example: `  flowd build --with example.com/acme/flowd-tickets@v1.4.0
  flowd build --with ./tickets -o flowd-tickets
  flowd build --with ./tickets --tags slim,kafka --flowd ../flowd`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.Log = cmd.ErrOrStderr()
			return b.Run(cmd.Context())
		},
	}
	name := "flowd"
	if cmp.Or(os.Getenv("GOOS"), runtime.GOOS) == "windows" {
		name += ".exe"
	}
	cmd.Flags().StringArrayVar(&b.With, "with", nil, "link this `PACKAGE`; may be repeated")
	cmd.Flags().StringVarP(&b.Output, "output", "o", name, "write the binary to `FILE`")
	cmd.Flags().StringVar(&b.Tags, "tags", "", "build `TAGS`, such as slim,kafka (see flowd docs operations)")
	addFlowd(cmd, &b.Flowd)
	return cmd
}

func newPlugin() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plugin",
		Short:   "Start a plugin of your own, in Go or another language",
		Example: "  flowd plugin new processor mask\n  flowd plugin new --lang python step score",
		RunE:    needsCommand,
	}
	cmd.AddCommand(newPluginNew())
	return cmd
}

func newPluginNew() *cobra.Command {
	var m plugins.Module
	lang := oneOf{value: "go", allowed: append([]string{"go"}, plugins.Langs...)}
	cmd := &cobra.Command{
		Use:   "new KIND NAME",
		Short: "Write a plugin that works: a Go module, or a program in another language",
		Long: `Writes a Go module with one plugin that works, its conformance test, and a
pipeline that uses it. Change it step by step; flowd docs plugins is the guide.
KIND is one of ` + strings.Join(plugins.Kinds, ", ") + `.

With --lang, it writes a program in another language with its plugin.yaml instead,
which flowd runs as it is; flowd docs programs is the guide. KIND is one of
` + strings.Join(plugins.ProgramKinds, ", ") + `.`,
		Example: `  flowd plugin new output tickets --module example.com/acme/tickets
  flowd plugin new --lang python step score`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: append(slices.Clone(plugins.Kinds), "step"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.Kind, m.Name = args[0], args[1]
			kinds := plugins.Kinds
			if lang.value != "go" {
				kinds = plugins.ProgramKinds
			}
			if !slices.Contains(kinds, m.Kind) {
				return usage(fmt.Sprintf("%q is not a kind of plugin (there are %s)", m.Kind, strings.Join(kinds, ", ")))
			}
			var next string
			var err error
			if lang.value == "go" {
				next, err = plugins.New(m)
			} else {
				next, err = plugins.NewProgram(plugins.Program{Lang: lang.value, Kind: m.Kind, Name: m.Name, Dir: m.Dir})
			}
			cmd.Print(next)
			return err
		},
	}
	cmd.Flags().Var(&lang, "lang", "`LANGUAGE` of the plugin: "+strings.Join(lang.allowed, ", "))
	cmd.Flags().StringVar(&m.Path, "module", "", "`PATH` of the module (default example.com/NAME)")
	cmd.Flags().StringVar(&m.Dir, "dir", "", "write to this `DIR` (default NAME)")
	addFlowd(cmd, &m.Flowd)
	return cmd
}

func addFlowd(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "flowd", "", "the `VERSION` of flowd, or a folder with its source (default: the version of this flowd)")
}
