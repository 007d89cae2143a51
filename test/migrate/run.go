package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/config"
	_ "github.com/flowd-io/flowd/inputs"
	"github.com/flowd-io/flowd/internal/migrate/bloblang"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

// framed is a message in a file with `framing: messages`. A payload that is not an object or list is a string.
type framed struct {
	Payload json.RawMessage `json:"payload"`
	Meta    map[string]any  `json:"meta"`
}

func text(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return b
}

// runSteps runs steps on payloads with the real engine. The result for each is a payload, Error(reason), or deleted.
func runSteps(dir string, steps []*yaml.Node, payloads []string) ([]string, error) {
	return runStepsIn(dir, steps, payloads, false)
}

// runStepsIn is run, with the steps in one batch of all payloads if that is asked for.
func runStepsIn(dir string, steps []*yaml.Node, payloads []string, batch bool) ([]string, error) {
	in, out, dead := filepath.Join(dir, "in"), filepath.Join(dir, "out"), filepath.Join(dir, "dead")
	for _, f := range []string{out, dead} {
		if err := os.RemoveAll(f); err != nil {
			return nil, err
		}
	}
	var lines bytes.Buffer
	for i, p := range payloads {
		if err := json.NewEncoder(&lines).Encode(framed{Payload: text(p), Meta: map[string]any{"example": i}}); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(in, lines.Bytes(), 0o600); err != nil {
		return nil, err
	}
	body := yamlOf(steps)
	file := fmt.Sprintf("inputs: {in: {file: {path: %q, framing: messages}}}\n", in) +
		fmt.Sprintf(
			"outputs:\n  out: {file: {path: %q, framing: messages}}\n  dead: {file: {path: %q, framing: messages}}\n", out,
			dead) +
		"engine: {workers: 1, on_failure: {dead_letter: dead}"
	if names := bloblang.Environment(body); len(names) > 0 {
		file += ", env: [" + strings.Join(names, ", ") + "]"
	}
	file += "}\n"
	switch {
	case batch:
		file += fmt.Sprintf("batchers:\n  all:\n    batch: {size: %d}\n    output: out\n    processors:\n",
			max(len(payloads), 1)) +
			"      " + strings.TrimSpace(strings.ReplaceAll(body, "\n", "\n      ")) + "\n"
	case len(steps) > 0:
		file += "processors:\n" + body
	}
	path := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		return nil, err
	}
	set, problems := config.Load([]string{path}, config.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	for _, p := range problems {
		if s := fmt.Sprint(p); !strings.Contains(s, "warning") {
			return nil, fmt.Errorf("the pipeline does not load: %s", strings.TrimPrefix(s, path))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	set.Pipelines[0].Plan.Run(ctx, ctx)
	results := make([]string, len(payloads))
	for i := range results {
		results[i] = "deleted"
	}
	for _, f := range []string{out, dead} {
		data, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
			var m framed
			if err := d.Decode(&m); err != nil {
				return nil, err
			}
			n, ok := m.Meta["example"].(float64)
			if !ok {
				return nil, errors.New("the metadata key \"example\", which numbers messages, is missing")
			}
			if f == dead {
				results[int(n)] = fmt.Sprintf("Error(%q)", m.Meta["error_message"])
				continue
			}
			results[int(n)] = string(m.Payload)
			var s string
			if json.Unmarshal(m.Payload, &s) == nil {
				results[int(n)] = s
			}
			for _, name := range []string{"example", "path", "line"} {
				delete(m.Meta, name)
			}
			results[int(n)] = withMeta(results[int(n)], m.Meta)
		}
	}
	return results, nil
}

func yamlOf(steps []*yaml.Node) string {
	if len(steps) == 0 {
		return ""
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&yaml.Node{Kind: yaml.SequenceNode, Content: steps}); err != nil {
		return err.Error()
	}
	return b.String()
}
