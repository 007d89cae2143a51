package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

// example is a mapping with its results for several messages.
type example struct {
	place   string
	mapping string
	pairs   []pair
}

// pair is an input payload and the result: a payload or an error.
type pair struct{ in, out string }

// verdict is the score of a pair.
type verdict struct {
	example
	pair
	got  string // the actual result, or why there is none
	kind string // same, different or untranslated
}

func scoreBloblang(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("bloblang", flag.ContinueOnError)
	peer := f.String("peer", "", "read examples from the checkout `DIR`")
	only := f.String("only", "", "score only examples whose place or mapping matches `REGEX`")
	show := f.Bool("show", false, "print each translation")
	if err := f.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *peer == "" {
		return errors.New("--peer DIR is missing")
	}
	examples, err := examplesOf(*peer)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "migrate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	examples = slices.DeleteFunc(examples, func(e example) bool { return !match.MatchString(e.place + "\n" + e.mapping) })
	var all []verdict
	for _, e := range examples {
		v := score(dir, e)
		if *show {
			steps, _ := bloblang.Steps(e.mapping, bloblang.Options{})
			fmt.Fprintf(stdout, "--- %s\n%s\n>>>\n%s", e.place, e.mapping, yamlOf(steps))
		}
		all = append(all, v...)
	}
	count := map[string]int{}
	for _, v := range all {
		count[v.kind]++
	}
	for _, kind := range []string{"different", "untranslated"} {
		for _, v := range all {
			if v.kind != kind {
				continue
			}
			fmt.Fprintf(stdout, "%s: %s\n    %s\n    in   %s\n    want %s\n    got  %s\n", v.kind, v.place,
				strings.ReplaceAll(v.mapping, "\n", "\n    "), shorten(v.in), shorten(v.out), shorten(v.got))
		}
	}
	whole := 0
	for _, e := range examples {
		if !slices.ContainsFunc(all, func(v verdict) bool { return v.place == e.place && v.kind != "same" }) {
			whole++
		}
	}
	fmt.Fprintf(stdout, "%d examples with %d results: %d same (%.1f %%), %d different, %d untranslated; ",
		len(examples), len(all), count["same"], percent(count["same"], len(all)), count["different"], count["untranslated"])
	fmt.Fprintf(stdout, "%d examples with only same results (%.1f %%)\n", whole, percent(whole, len(examples)))
	return nil
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

func shorten(s string) string {
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ReplaceAll(s, "\n", "\n         ")
}

// score translates an example, and runs it with the real engine.
func score(dir string, e example) []verdict {
	steps, notes := bloblang.Steps(e.mapping, bloblang.Options{})
	var verdicts []verdict
	if why := untranslated(notes); why != "" {
		for _, p := range e.pairs {
			verdicts = append(verdicts, verdict{e, p, why, "untranslated"})
		}
		return verdicts
	}
	ins := make([]string, len(e.pairs))
	for i, p := range e.pairs {
		ins[i] = p.in
	}
	outs, err := runSteps(dir, steps, ins)
	for i, p := range e.pairs {
		v := verdict{example: e, pair: p, kind: "different"}
		switch {
		case err != nil:
			v.got = err.Error()
		default:
			v.got = outs[i]
			if equalResults(p.out, outs[i]) {
				v.kind = "same"
			}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// equalResults compares documents by value, and other payloads as text. All errors are equal, as each system has its own
// texts.
func equalResults(want, got string) bool {
	if want == "<Message deleted>" {
		return got == "deleted"
	}
	if isError(want) {
		return isError(got)
	}
	want, wantMeta, _ := strings.Cut(want, " meta ")
	got, gotMeta, _ := strings.Cut(got, " meta ")
	if wantMeta != gotMeta {
		return false
	}
	var a, b any
	if decodeWhole(want, &a) && decodeWhole(got, &b) {
		return reflect.DeepEqual(a, b)
	}
	return strings.TrimSpace(want) == strings.TrimSpace(got)
}

func isError(s string) bool { return strings.HasPrefix(s, "Error(") }

func decodeWhole(s string, v *any) bool {
	d := json.NewDecoder(strings.NewReader(s))
	return d.Decode(v) == nil && !d.More()
}

// examplesOf collects the examples in the documentation of a checkout or, if there are none, in its sources.
func examplesOf(dir string) ([]example, error) {
	var docs, sources []example
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && path != dir {
				return filepath.SkipDir // has no documentation
			}
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		switch ext := filepath.Ext(path); {
		case ext == ".md" || ext == ".mdx" || ext == ".adoc":
			found, err := examplesInDocs(path, rel)
			docs = append(docs, found...)
			return err
		case ext == ".go" && !strings.HasSuffix(path, "_test.go"):
			found, err := examplesInSource(path, rel)
			sources = append(sources, found...)
			return err
		}
		return nil
	})
	if len(docs) == 0 {
		docs = sources
	}
	seen := map[string]bool{}
	docs = slices.DeleteFunc(docs, func(e example) bool {
		if elided.MatchString(fmt.Sprint(e.mapping, e.pairs)) {
			return true
		}
		key := fmt.Sprint(e.mapping, e.pairs)
		was := seen[key]
		seen[key] = true
		return was
	})
	return docs, err
}

// elided matches examples that can't run: they leave out a part of a key or result, or read a file that is not in the
// checkout.
var elided = regexp.MustCompile(`\.\.\. signature data \.\.\.|<signed JWT token>|_TEST_BLOBLANG_`)

// examplesInDocs reads fenced blocks with inputs and outputs in comments.
func examplesInDocs(path, rel string) ([]example, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []example
	var block []string
	begin := 0
	for i, line := range strings.Split(string(data), "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			if begin == 0 {
				begin, block = i+1, nil
				break
			}
			if e := exampleOf(block); len(e.pairs) > 0 {
				e.place = rel + ":" + strconv.Itoa(begin)
				all = append(all, e)
			}
			begin = 0
		case begin > 0:
			block = append(block, line)
		}
	}
	return all, nil
}

var (
	inLine   = regexp.MustCompile(`^# In: ? ?(.*)$`)
	outLine  = regexp.MustCompile(`^# Out: ?(.*)$`)
	moreLine = regexp.MustCompile(`^#      (?:#      )?(.*)$`)
)

func exampleOf(lines []string) example {
	var e example
	var mapping []string
	var p *string
	for _, line := range lines {
		if m := inLine.FindStringSubmatch(line); m != nil {
			e.pairs = append(e.pairs, pair{in: m[1]})
			p = &e.pairs[len(e.pairs)-1].in
		} else if m := outLine.FindStringSubmatch(line); m != nil && len(e.pairs) > 0 {
			e.pairs[len(e.pairs)-1].out = m[1]
			p = &e.pairs[len(e.pairs)-1].out
		} else if m := moreLine.FindStringSubmatch(line); m != nil && p != nil {
			*p += "\n" + m[1]
		} else if strings.TrimSpace(line) == "" || p == nil {
			mapping = append(mapping, line)
			p = nil
		}
	}
	e.mapping = strings.TrimSpace(strings.Join(mapping, "\n"))
	return e
}

// examplesInSource reads calls of NewExampleSpec(summary, mapping, in, out…) and Example(summary, mapping,
// [2]string{in, out}…).
func examplesInSource(path, rel string) ([]example, error) {
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte("Example")) {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, data, 0)
	if err != nil {
		return nil, err
	}
	var all []example
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 3 {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if name != "NewExampleSpec" && name != "Example" {
			return true
		}
		e := example{place: rel + ":" + strconv.Itoa(set.Position(call.Args[1].Pos()).Line)}
		if e.mapping, ok = stringOf(call.Args[1]); !ok {
			return true
		}
		var results []string
		for _, a := range call.Args[2:] {
			if c, ok := a.(*ast.CompositeLit); ok {
				for _, item := range c.Elts {
					if s, ok := stringOf(item); ok {
						results = append(results, s)
					}
				}
			} else if s, ok := stringOf(a); ok {
				results = append(results, s)
			}
		}
		for i := 0; i+1 < len(results); i += 2 {
			e.pairs = append(e.pairs, pair{results[i], results[i+1]})
		}
		if len(e.pairs) > 0 {
			all = append(all, e)
		}
		return true
	})
	return all, nil
}

// stringOf returns the value of a string literal, or of several joined with +.
func stringOf(n ast.Expr) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(n.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, okA := stringOf(n.X)
		b, okB := stringOf(n.Y)
		return a + b, okA && okB
	}
	return "", false
}
