package cli

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config"
	managers "github.com/flowd-io/flowd/internal/systems/secrets"
	"github.com/flowd-io/flowd/schema"
)

// printProblems writes each problem with its place and remedy, and the source line with a caret under the
// spot.
func printProblems(w io.Writer, problems []schema.Problem) error {
	color := colored(w)
	var b strings.Builder
	for _, p := range problems {
		head, source, _ := strings.Cut(printable(strings.TrimRight(p.Render(), "\n")), "\n")
		place, complaint, found := strings.Cut(head, ": ")
		if !found || p.Pos.File == "" {
			place, complaint = "", head
		}
		mark := red
		if p.Warning {
			mark = yellow
		}
		if place != "" {
			b.WriteString(paint(color, bold, place+":") + " ")
		}
		b.WriteString(paint(color, mark, complaint) + "\n")
		if source != "" {
			b.WriteString(paint(color, dim, source) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// load reads files and shows their problems. If one is an error, it returns an exit code as its error.
func load(w io.Writer, files []string, o config.Options) (*config.Set, error) {
	set, problems := config.Load(files, o)
	return set, showProblems(newConsole(w), problems)
}

// choosePipeline returns the pipeline with a name, or the only one for "".
func choosePipeline(set *config.Set, name string) (*config.Loaded, error) {
	for i, p := range set.Pipelines {
		if p.Spec.Name == name || name == "" && len(set.Pipelines) == 1 {
			return &set.Pipelines[i], nil
		}
	}
	names := strings.Join(set.Names(), ", ")
	if name == "" {
		return nil, usage(fmt.Sprintf("the files have several pipelines (choose one with --pipeline: %s)", names))
	}
	return nil, usage(fmt.Sprintf("there is no pipeline %q (there is %s)", name, names))
}

// showProblems writes problems as text or as records. If one is an error, it returns an exit code as its error: invalid,
// or failed if only secrets managers are down.
func showProblems(con *console, problems []schema.Problem) error {
	if con.handler() == nil {
		if err := printProblems(con, problems); err != nil {
			return err
		}
	}
	for _, p := range problems {
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		con.record(level, p.Message, slog.String("remedy", p.Remedy), slog.String("file", p.Pos.File),
			slog.Int("line", p.Pos.Line), slog.Int("column", p.Pos.Col), slog.String("path", p.Path), slog.String("code", p.Code))
	}
	wrong := func(p schema.Problem) bool { return !p.Warning && p.Code != managers.Unavailable }
	switch n, _ := count(problems); {
	case slices.ContainsFunc(problems, wrong):
		return exit(invalid)
	case n > 0:
		return exit(failed) // the files may be valid
	}
	return nil
}

// count counts errors and warnings.
func count(problems []schema.Problem) (errors, warnings int) {
	for _, p := range problems {
		if p.Warning {
			warnings++
		} else {
			errors++
		}
	}
	return errors, warnings
}

// plural returns a number with its noun: "1 error", "2 errors".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
