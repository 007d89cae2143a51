//go:build !no_migrate && (!slim || migrate)

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/internal/migrate"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/spf13/cobra"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate COMMAND",
		Short: "Translate configurations of other systems into pipeline files",
		Example: `  flowd migrate benthos orders.yaml > flowd.yaml    Benthos, Bento and Redpanda Connect
  flowd docs migrate                                what differs, and tables for Vector and Logstash`,
		Args: cobra.ArbitraryArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(newMigrateBenthos())
	return cmd
}

// migrateOptions are the flags of `flowd migrate benthos`.
type migrateOptions struct {
	file, dir string // where to write; both empty: standard output
	resources []string
	files     []string // further folders with files that configurations name
	force     bool
	json      bool
}

func newMigrateBenthos() *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "benthos FILE...",
		Short: "Translate configurations of Benthos, Bento and Redpanda Connect",
		Long: `Benthos translates configurations with their mappings and their tests. Comments stay
where they were. What has no counterpart becomes a comment above a key untranslated,
which flowd lint rejects; what behaves differently than before has a comment that says
how. A summary on stderr lists both, and what else lint rejects.

Files that a configuration names, such as mappings, are read if they are in its folder,
or in that of --files. Nothing else is.

One FILE is written to standard output, or with -o to a file. Several, or a directory
such as that of streams mode, need --out, and so do tests of something other than the
whole pipeline: they become pipeline files of their own. No file is replaced without --force.

Exit codes: 0 everything was translated; 1 something was not, or lint rejects it; 2 usage, or a
file that can't be read.`,
		Example: `  flowd migrate benthos orders.yaml > flowd.yaml
  flowd migrate benthos streams/ --out pipelines
  flowd lint pipelines && flowd test pipelines`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return migrateBenthos(cmd, args, o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "output", "o", "", "write the translation of one file to `FILE`")
	f.StringVar(&o.dir, "out", "", "write all translations into the directory `DIR`")
	f.StringArrayVarP(&o.resources, "resources", "r", nil, "read the resources of another `FILE`, too; may be repeated")
	f.StringArrayVar(&o.files, "files", nil, "also read files that configurations name in `DIR`; may be repeated")
	f.BoolVar(&o.force, "force", false, "replace files that exist")
	addJSON(cmd, &o.json)
	return cmd
}

// migrated is one file and its translation.
type migrated struct {
	*migrate.Result
	Written   []string `json:"written"`
	Unwritten []string `json:"unwritten,omitempty"` // only written with --out

	Refused []service.Problem `json:"refused,omitempty"` // problems that lint finds in what was written
}

// toStdout is the name of a translation that went to standard output.
const toStdout = "standard output"

func migrateBenthos(cmd *cobra.Command, args []string, o migrateOptions) error {
	files, several, err := configurations(args)
	switch {
	case err != nil:
		return usage(err.Error())
	case o.file != "" && o.dir != "":
		return usage("-o and --out exclude each other")
	case several && o.dir == "":
		return usage("several files need --out DIR")
	case o.json && o.file == "" && o.dir == "":
		return usage("--json needs -o FILE or --out DIR: the summary and the translation can't share standard output")
	}
	for i, name := range o.resources { // like arguments, relative to the working directory
		if o.resources[i], err = filepath.Abs(name); err != nil {
			return usage(err.Error())
		}
	}
	var all []*migrated
	unread := false
	for _, file := range files {
		data, err := readBounded(file)
		if err != nil {
			return usage(err.Error())
		}
		named := namedFiles{filepath.Dir(file), o.files, o.resources}
		result, err := migrate.Benthos(file, data, migrate.Options{Read: named.read, List: named.list,
			Resources: o.resources})
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v\n", err) // continue with the other files
			unread = true
			continue
		}
		all = append(all, &migrated{Result: result, Written: []string{}})
	}
	if err := o.write(cmd.OutOrStdout(), all); err != nil {
		return err
	}
	for _, m := range all {
		if err := m.check(); err != nil {
			return err
		}
	}
	if o.json {
		err = writeJSON(cmd.OutOrStdout(), map[string]any{"files": all})
	} else {
		err = reportMigrated(cmd.ErrOrStderr(), all)
	}
	if err != nil {
		return err
	}
	switch {
	case unread:
		return exit(invalid)
	case slices.ContainsFunc(all, func(m *migrated) bool { return !m.Whole() || len(m.Refused) > 0 }):
		return exit(failed)
	}
	return nil
}

// configurations returns the files that the arguments name. Of a directory, these are the .yaml and .yml
// files.
func configurations(args []string) (files []string, several bool, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, false, err
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		several = true
		found := len(files)
		err = filepath.WalkDir(arg, func(path string, e fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err == nil && !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
				files = append(files, path)
			}
			return err
		})
		if err == nil && len(files) == found {
			err = fmt.Errorf("%s has no file that ends in .yaml or .yml", arg)
		}
		if err != nil {
			return nil, false, err
		}
	}
	return files, several || len(files) > 1, nil
}

// mostRead bounds the size of a file, in bytes.
const mostRead = 16 << 20

// namedFiles reads the files that a configuration names. Since others may have written it, and the translation shows
// what it names, only files in its folder and in folders that the user allows are read.
type namedFiles struct {
	dir     string   // of the configuration
	allowed []string // folders
	whole   []string // files that the user has named
}

// read reads a file whose name is relative to the configuration or, in mappings, to the working directory.
func (f namedFiles) read(name string) (data []byte, err error) {
	if slices.Contains(f.whole, name) {
		return readBounded(name)
	}
	err = f.find(name, func(root *os.Root, name string) error {
		data, err = readRegular(root, name)
		return err
	})
	return data, err
}

// list lists the files of a folder.
func (f namedFiles) list(dir string) (names []string, err error) {
	err = f.find(dir, func(root *os.Root, name string) error {
		entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(name))
		for _, e := range entries {
			names = append(names, filepath.Join(dir, e.Name()))
		}
		return err
	})
	return names, err
}

// find calls use with the first folder that contains name. Links can't lead out of it.
func (f namedFiles) find(name string, use func(root *os.Root, name string) error) error {
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		candidates = []string{filepath.Join(f.dir, name), name}
	}
	inside, missing := false, error(fs.ErrNotExist)
	for _, path := range candidates {
		for _, dir := range append([]string{f.dir}, f.allowed...) {
			in, err := within(dir, path)
			if err != nil {
				continue
			}
			inside = true
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			err = use(root, in)
			root.Close()
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			missing = err
		}
	}
	if !inside {
		return fmt.Errorf("%s is outside of the configuration's folder (allow another with --files DIR)", name)
	}
	return missing
}

// within returns path relative to the folder that contains it.
func within(dir, path string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	in, err := filepath.Rel(dir, path)
	if err == nil && !filepath.IsLocal(in) {
		err = errors.New("it is outside")
	}
	return in, err
}

// readRegular reads a regular file: devices and pipes may never end.
func readRegular(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readUpTo(file, name)
}

// readBounded reads a file that the user names, which may be a pipe.
func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readUpTo(file, name)
}

func readUpTo(file io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(file, mostRead+1))
	if err == nil && len(data) > mostRead {
		err = fmt.Errorf("%s is larger than %d MiB", name, mostRead>>20)
	}
	return data, err
}

// write writes the translations, all or none. It does not replace files unless forced.
func (o migrateOptions) write(stdout io.Writer, all []*migrated) error {
	if o.dir == "" && o.file == "" {
		for _, m := range all {
			for i, out := range m.Outputs {
				if i > 0 {
					m.Unwritten = append(m.Unwritten, out.Name)
					continue
				}
				m.Written = append(m.Written, toStdout)
				if _, err := stdout.Write(out.Text); err != nil {
					return err
				}
			}
		}
		return nil
	}
	from := map[string]string{} // by the name of the written file
	texts := map[string][]byte{}
	for _, m := range all {
		for i, out := range m.Outputs {
			name := filepath.Join(o.dir, out.Name)
			if o.file != "" {
				if i > 0 {
					m.Unwritten = append(m.Unwritten, out.Name)
					continue
				}
				name = o.file
			}
			if other := from[name]; other != "" {
				return usage(fmt.Sprintf("%s and %s would both be written to %s: migrate them into directories of their own",
					other, m.File, name))
			}
			if _, err := os.Lstat(name); err == nil && !o.force {
				return usage(name + " exists already; --force replaces it")
			}
			from[name], texts[name] = m.File, out.Text
			m.Written = append(m.Written, name)
		}
	}
	for _, m := range all {
		for _, name := range m.Written {
			err := os.MkdirAll(filepath.Dir(name), 0o755) // #nosec G301 -- configurations are not secret
			if err == nil {
				err = os.WriteFile(name, texts[name], 0o644) // #nosec G306 -- nor are these files
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// reportMigrated lists what was not translated, and counts what was.
func reportMigrated(w io.Writer, all []*migrated) error {
	var b strings.Builder
	var parts, tests migrate.Done
	lost, differ, refused := 0, 0, 0
	for _, m := range all {
		parts.Whole, parts.Of = parts.Whole+m.Components.Whole, parts.Of+m.Components.Of
		tests.Whole, tests.Of = tests.Whole+m.Tests.Whole, tests.Of+m.Tests.Of
		for _, n := range m.Notes {
			what := "differs"
			if n.Kind == migrate.Untranslated {
				what = "not translated"
				lost++
			} else {
				differ++
			}
			fmt.Fprintf(&b, "%s:%d:%d: %s: %s\n", n.File, n.Line, n.Col, what, n.Text)
		}
		for _, p := range m.Refused {
			fmt.Fprintf(&b, "%s:%d:%d: lint refuses it: %s: %s\n", p.File, p.Line, p.Col, p.Path, p.Message)
			refused++
		}
		if m.Part != "" {
			fmt.Fprintf(&b, "%s: its tests are in the translation of %s\n", m.File, m.Part)
		}
		for _, name := range m.Unwritten {
			fmt.Fprintf(&b, "%s: %s was not written: --out DIR writes it, too\n", m.File, name)
		}
	}
	fmt.Fprintf(&b, "%s: %d of %d components", plural(len(all), "file"), parts.Whole, parts.Of)
	if tests.Of > 0 {
		fmt.Fprintf(&b, " and %d of %d tests", tests.Whole, tests.Of)
	}
	fmt.Fprintf(&b, " translated; %s not translated, %s", plural(lost, "place"), plural(differ, "difference"))
	if refused > 0 {
		fmt.Fprintf(&b, ", %s of lint", plural(refused, "error"))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, printable(b.String()))
	return err
}
