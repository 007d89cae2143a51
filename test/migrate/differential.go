package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

// scoreDifferential runs random mappings with the peer and their translations with flowd, on random documents, and compares
// the results.
func scoreDifferential(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("differential", flag.ContinueOnError)
	program := f.String("benthos", "benthos", "the peer's `PROGRAM`")
	mappings := f.Int("mappings", 100, "generate `N` mappings")
	documents := f.Int("documents", 20, "run each mapping on `N` documents")
	seed := f.Uint64("seed", 1, "seed of the random generator")
	verbose := f.Bool("verbose", false, "also print cases where only flowd fails, which is stricter")
	if err := f.Parse(args); err != nil {
		return err
	}
	if _, err := exec.LookPath(*program); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "migrate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	count := map[string]int{}
	for i := range *mappings {
		g := &generator{rand.New(rand.NewPCG(*seed, uint64(i)))}
		target := bloblang.NewDocument
		if g.IntN(4) == 0 {
			target = bloblang.InPlace
		}
		mapping := g.mapping()
		docs := make([]string, *documents)
		for k := range docs {
			docs[k] = g.document()
		}
		steps, notes := bloblang.Steps(mapping, bloblang.Options{Target: target})
		want, err := peerRun(dir, *program, mapping, target, docs)
		if err != nil {
			count["rejected by the peer"]++
			continue
		}
		if why := untranslated(notes); why != "" {
			count["untranslated"] += len(docs)
			continue
		}
		got, err := runSteps(dir, steps, docs)
		if err != nil {
			if !slices.ContainsFunc(want, func(w string) bool { return !isError(w) }) {
				count["same"] += len(docs) // lint reports the error that the peer has for each message
				continue
			}
			fmt.Fprintf(stdout, "does not load (mapping %d)\n%s\n>>>\n%s%v\n\n", i, mapping, yamlOf(steps), err)
			count["does not load"] += len(docs)
			continue
		}
		shown := false
		for k := range docs {
			kind := compareResults(want[k], got[k])
			count[kind]++
			if kind == "only the peer fails" && strings.Contains(want[k], "non-object type (delete)") {
				continue
			}
			if (kind == "different" || *verbose && kind == "only flowd fails" || kind == "only the peer fails") && !shown {
				shown = true
				fmt.Fprintf(stdout, "%s (mapping %d, %v)\n%s\n>>>\n%sin   %s\nwant %s\ngot  %s\n\n", kind, i, target, mapping,
					yamlOf(steps), docs[k], want[k], got[k])
			}
		}
	}
	fmt.Fprintf(stdout, "%d mappings: %v\n", *mappings, count)
	return nil
}

func untranslated(notes []bloblang.Note) string {
	for _, n := range notes {
		if n.Kind == bloblang.Untranslated {
			return n.Text
		}
	}
	return ""
}

func compareResults(want, got string) string {
	switch {
	case isError(want) && isError(got):
		return "same"
	case isError(want):
		return "only the peer fails"
	case isError(got):
		return "only flowd fails"
	case equalResults(want, got):
		return "same"
	}
	return "different"
}

// peerRun runs a mapping with the peer.
func peerRun(dir, program, mapping string, target bloblang.Target, docs []string) ([]string, error) {
	name := map[bloblang.Target]string{bloblang.NewDocument: "mapping", bloblang.InPlace: "mutation"}[target]
	step := func(name, text string) map[string]any { return map[string]any{name: text} }
	file, err := yaml.Marshal(map[string]any{
		"input":  map[string]any{"stdin": map[string]any{}},
		"output": map[string]any{"stdout": map[string]any{}},
		"logger": map[string]any{"level": "OFF"},
		"http":   map[string]any{"enabled": false},
		"pipeline": map[string]any{"threads": 1, "processors": []any{
			step("mapping", `meta example = count("example") - 1`),
			step(name, mapping),
			step("mapping",
				`root = {"n": @example, "payload": content().string(), "error": error(), "meta": @.without("example")}`),
		}},
	})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "peer.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-c", path)
	cmd.Stdin = strings.NewReader(strings.Join(docs, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	results := make([]string, len(docs))
	for i := range results {
		results[i] = "deleted"
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct {
			N       int
			Payload string
			Error   *string
			Meta    map[string]any
		}
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		results[m.N] = m.Payload
		if m.Error != nil {
			results[m.N] = "Error(" + *m.Error + ")"
		} else {
			results[m.N] = withMeta(m.Payload, m.Meta)
		}
	}
	return results, nil
}

// withMeta appends metadata to a payload.
func withMeta(payload string, meta map[string]any) string {
	for k, v := range meta {
		if v == nil {
			delete(meta, k)
		}
	}
	if len(meta) == 0 {
		return payload
	}
	b, err := json.Marshal(meta)
	if err != nil {
		return err.Error()
	}
	return payload + " meta " + string(b)
}

// generator generates random mappings and documents.
type generator struct{ *rand.Rand }

func (g *generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) document() string {
	doc := map[string]any{}
	put := func(name string, chance int, v func() any) {
		if g.IntN(10) < chance {
			doc[name] = v()
		}
	}
	word := func() any { return g.pick("red", "Green", "blue sky", "", "a-b-c", "42") }
	small := func() any { return g.IntN(7) - 1 }
	put("id", 10, func() any { return g.IntN(1000) })
	put("n", 9, small)
	put("m", 9, small)
	put("f", 9, func() any { return float64(g.IntN(9)) / 4 })
	put("s", 9, word)
	put("t", 9, word)
	put("ok", 9, func() any { return g.IntN(2) == 0 })
	put("none", 5, func() any { return nil })
	put("o", 9, func() any { return map[string]any{"x": small(), "y": word(), "z": map[string]any{"w": small()}} })
	put("nums", 9, func() any { return []any{small(), small(), small()} })
	put("words", 9, func() any { return []any{word(), word()} })
	put("items", 9, func() any {
		return []any{map[string]any{"sku": word(), "qty": small()}, map[string]any{"sku": word(), "qty": small()}}
	})
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err) // such a document can always be encoded
	}
	return string(b)
}

// mapping generates a mapping of realistic statements.
func (g *generator) mapping() string {
	var lines []string
	if g.IntN(2) == 0 {
		lines = append(lines, "root = this")
	}
	if g.IntN(4) == 0 {
		lines = append([]string{"map shared {", "  root.a = this." + g.pick("x", "n", "w"), "  " +
			g.pick("root.b = this.y", "let v = this.y\n  root.b = [$v, $v]",
				"root.b = if this.x == 1 { this.y }", "root.a = deleted()"), "}"}, lines...)
		lines = append(lines, fmt.Sprintf(`%s = %s.apply("shared")`, g.target(), g.pick("this", "this.o", "this.o.z")))
	}
	for range 1 + g.IntN(4) {
		lines = append(lines, g.statement(0)...)
	}
	return strings.Join(lines, "\n")
}

func (g *generator) target() string {
	return "root." + g.pick("id", "n", "s", "o", "o.x", "out", "out.a", "out.b", "copy", "items", "nums", `"odd name"`)
}

func (g *generator) statement(depth int) []string {
	switch k := g.IntN(16); {
	case k == 0:
		return []string{"root." + g.pick("n", "s", "o", "o.y", "nums", "out") + " = deleted()"}
	case k == 1:
		return []string{fmt.Sprintf("root = if %s { deleted() }", g.condition(1))}
	case k == 2:
		return []string{fmt.Sprintf("%s = if %s { %s }", g.target(), g.condition(1), g.value(1))}
	case k == 3:
		return []string{fmt.Sprintf("%s = if %s { %s } else { %s }", g.target(), g.condition(1), g.value(1),
			g.pick("deleted()", g.value(1)))}
	case k == 4 && depth == 0:
		name := g.pick("v", "w")
		return []string{fmt.Sprintf("let %s = %s", name, g.value(1)), fmt.Sprintf("%s = $%s", g.target(), name),
			fmt.Sprintf("%s = [$%s, %s]", g.target(), name, g.value(2))}
	case k == 5:
		return []string{fmt.Sprintf("meta %s = %s", g.pick("kind", "more"), g.text(1)), fmt.Sprintf("%s = @kind", g.target())}
	case k == 6 && depth < 2:
		lines := []string{fmt.Sprintf("if %s {", g.condition(1))}
		for _, s := range g.statement(depth + 1) {
			lines = append(lines, "  "+s)
		}
		if g.IntN(2) == 0 {
			lines = append(lines, "} else {")
			for _, s := range g.statement(depth + 1) {
				lines = append(lines, "  "+s)
			}
		}
		return append(lines, "}")
	case k == 7:
		return []string{fmt.Sprintf("%s = match %s {\n  %q => %s\n  this == \"red\" => %s\n  _ => %s\n}", g.target(),
			"this.s", "Green", g.value(1), g.value(1), g.value(1))}
	case k == 8:
		return []string{fmt.Sprintf("%s = match {\n  %s => %s\n  %s => %s\n}", g.target(), g.condition(1), g.value(1),
			g.condition(1), g.value(1))}
	}
	return []string{fmt.Sprintf("%s = %s", g.target(), g.value(0))}
}

func (g *generator) value(depth int) string {
	switch g.IntN(7) {
	case 0, 1:
		return g.number(depth)
	case 2, 3:
		return g.text(depth)
	case 4:
		return g.list(depth)
	case 5:
		return g.object(depth)
	}
	return "this." + g.pick("n", "s", "o", "o.x", "o.z", "items", "nums", "missing", "missing.deep", "none", "ok",
		"items.0.sku")
}

func (g *generator) number(depth int) string {
	if depth > 2 {
		return g.pick("this.n", "this.m", "3", "this.o.x", "0")
	}
	switch g.IntN(8) {
	case 0:
		return fmt.Sprintf("%s %s %s", g.number(depth+1), g.pick("+", "-", "*"), g.number(depth+1))
	case 1:
		return fmt.Sprintf("(%s + %s) * %s", g.number(depth+1), g.number(depth+1), g.number(depth+1))
	case 2:
		return fmt.Sprintf("this.%s.length()", g.pick("nums", "items", "s"))
	case 3:
		return fmt.Sprintf("this.n.or(%s)", g.number(depth+1))
	case 4:
		return fmt.Sprintf("%s.catch(%s)", g.pick("this.s.number()", "this.none.round()", "this.nums.sum()",
			"this.s.index_of(\"e\")"), g.pick("0", "-1", "null"))
	case 5:
		return fmt.Sprintf("this.nums.fold(0, item -> item.tally + item.value * %s)", g.pick("2", "this.n", "item.value"))
	case 6:
		return fmt.Sprintf("(%s | %s)", g.pick("this.missing", "this.none", "this.n"), g.number(depth+1))
	}
	return g.pick("this.n", "this.m", "this.f", "this.o.x", "7", "-2", "1.5", "this.f.round()", "this.id")
}

func (g *generator) text(depth int) string {
	if depth > 2 {
		return g.pick("this.s", "this.t", `"x"`, "this.o.y")
	}
	switch g.IntN(9) {
	case 0:
		return fmt.Sprintf("%s + %s", g.text(depth+1), g.text(depth+1))
	case 1:
		return fmt.Sprintf("%s.%s()", g.pick("this.s", "this.t", "this.o.y"), g.pick("uppercase", "lowercase", "trim",
			"capitalize", "reverse", "quote"))
	case 2:
		return fmt.Sprintf(`"%%v and %%v".format(%s, %s)`, g.pick("this.n", "this.s"), g.text(depth+1))
	case 3:
		return fmt.Sprintf(`this.words.join("%s")`, g.pick(",", " ", ""))
	case 4:
		return fmt.Sprintf("%s.string()", g.number(depth+1))
	case 5:
		return fmt.Sprintf(`(%s | "none")`, g.pick("this.missing", "this.s.uppercase()", "this.none.trim()"))
	case 6:
		return fmt.Sprintf(`this.s.replace_all("%s", %s)`, g.pick("e", "-"), g.pick(`"_"`, "this.t"))
	case 7:
		return fmt.Sprintf(`this.s.%s`, g.pick(`slice(0, 2)`, `slice(1)`, `re_replace_all("[a-z]+", "<$0>")`,
			`split("-").index(0)`, `type()`))
	}
	return g.pick("this.s", "this.t", `"text"`, "this.o.y", `"quote \" and \\"`)
}

func (g *generator) list(depth int) string {
	switch g.IntN(9) {
	case 0:
		return fmt.Sprintf("this.nums.map_each(x -> x + %s)", g.number(depth+2))
	case 1:
		return fmt.Sprintf("this.nums.filter(x -> x %s %s)", g.pick(">", "<", "==", "!="), g.number(depth+2))
	case 2:
		return "this.items.map_each(i -> i.sku)"
	case 3:
		return fmt.Sprintf("this.items.map_each(i -> if i.qty > %s { deleted() } else { i.sku })", g.pick("2", "this.n"))
	case 4:
		return "this.items.map_each(i -> this.nums.map_each(x -> x * i.qty))"
	case 5:
		return fmt.Sprintf("[%s, if %s { %s } else { deleted() }]", g.value(depth+2), g.condition(depth+1), g.value(depth+2))
	case 6:
		return "this.nums." + g.pick("sort()", "reverse().sort()", "unique()", "slice(1)", "sort(x -> x.left > x.right)",
			"enumerated()")
	case 7:
		return g.pick("this.words.map_each(this.uppercase())", "this.items.sort_by(i -> i.qty)",
			"this.nums.append(this.n)", "range(0, 4)", "this.o.keys()")
	}
	return g.pick("this.nums", "this.words", "[1, 2]", "[]")
}

func (g *generator) object(depth int) string {
	switch g.IntN(6) {
	case 0:
		return fmt.Sprintf(`{"a": %s, "b": %s}`, g.value(depth+2), g.value(depth+2))
	case 1:
		return fmt.Sprintf(`{"a": if %s { %s }, "b": deleted()}`, g.condition(depth+1), g.value(depth+2))
	case 2:
		return `this.o.without("z")`
	case 3:
		return `this.o.map_each(i -> i.value.string())`
	case 4:
		return `this.o.(this.z | {})`
	}
	return g.pick("this.o", `this.o.assign({"y": 1})`, "{}", `this.o.filter(i -> i.key != "y")`)
}

func (g *generator) condition(depth int) string {
	if depth > 2 {
		return g.pick("this.ok", "this.n == 1", `this.s == "red"`)
	}
	switch g.IntN(8) {
	case 0:
		return fmt.Sprintf("%s %s %s", g.number(depth+1), g.pick(">", "<", ">=", "<="), g.number(depth+1))
	case 1:
		return fmt.Sprintf("%s %s %s", g.number(depth+1), g.pick("==", "!="), g.pick("1", "null", g.number(depth+1)))
	case 2:
		return fmt.Sprintf("%s %s %s", g.condition(depth+1), g.pick("&&", "||"), g.condition(depth+1))
	case 3:
		return fmt.Sprintf("!%s", g.pick("this.ok", `this.exists("none")`, "(this.n > 1)"))
	case 4:
		return fmt.Sprintf(`this.%s`, g.pick(`exists("o.x")`, `s.contains("e")`, `s.has_prefix("r")`,
			`words.contains("red")`, `s.re_match("^[a-z]+$")`, `nums.any(x -> x > this.n)`, `o.exists("q")`))
	case 5:
		return g.pick("this.none == null", "this.missing == null", `this.s != ""`, `this.o.y == this.s`,
			`this.s.type() == "string"`)
	}
	return g.pick("this.ok", "this.n > 2", "this.n % 2 == 0", `this.s == "red"`, "this.nums.length() > 2")
}
