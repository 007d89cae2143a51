package plugins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/flowd-io/flowd/processors"
)

func TestGoVersionIsThatOfTheModule(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\ngo "+goVersion+"\n") {
		t.Errorf("go.mod does not say go %s", goVersion)
	}
}

func TestTheVersionMustBeReleased(t *testing.T) {
	if v, err := version("v1.2.3"); v != "v1.2.3" || err != nil {
		t.Errorf("got %s (%v), want the version that was given", v, err)
	}
	if _, err := version(""); err == nil || !strings.Contains(err.Error(), "--flowd VERSION") { // tests have no version
		t.Errorf("err %v, want one that says what to write", err)
	}
}

func TestNewModules(t *testing.T) {
	for _, tt := range []struct{ kind, name, flowd, err, pkg, mod string }{
		{kind: "input", name: "tickets", pkg: "package tickets\n", mod: "require github.com/flowd-io/flowd v1.2.3\n"},
		{kind: "output", name: "red_tape", pkg: "package redtape\n", mod: "module example.com/red_tape\n"},
		{kind: "batcher", name: "func", pkg: "package funcbatcher\n"},
		{kind: "processor", name: "mask", flowd: "../../..", mod: "replace github.com/flowd-io/flowd => "},
		{kind: "input", name: "Tickets", err: "use lower-case letters"},
		{kind: "input", name: "../x", err: "use lower-case letters"},
		{kind: "processor", name: "set", err: `flowd has the processor "set" already`},
		{kind: "input", name: "a", flowd: "./nowhere", err: "/nowhere has no go.mod"},
	} {
		t.Run(tt.kind+" "+tt.name, func(t *testing.T) {
			m := Module{Kind: tt.kind, Name: tt.name, Flowd: "v1.2.3", Dir: filepath.Join(t.TempDir(), "new")}
			if tt.flowd != "" {
				m.Flowd = tt.flowd
			}
			next, err := New(m)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("err %v, want %s", err, tt.err)
				}
				if _, err := os.Stat(m.Dir); err == nil {
					t.Errorf("%s was written nevertheless", m.Dir)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(next, "cd "+m.Dir+"\n") || strings.Contains(next, "--flowd ..") {
				t.Errorf("the next steps are\n%s", next)
			}
			for name, want := range map[string]string{
				"go.mod": tt.mod, tt.name + ".go": tt.pkg, tt.name + "_test.go": tt.pkg, "pipeline.yaml": tt.name + ": {"} {
				text, err := os.ReadFile(filepath.Join(m.Dir, name))
				if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), placeholder) {
					t.Errorf("%s (%v) has no %q, or still the placeholder:\n%s", name, err, want, text)
				}
			}
		})
	}
}

func TestNewPrograms(t *testing.T) {
	for _, tt := range []struct{ lang, kind, name, err, file, text string }{
		{lang: "python", kind: "step", name: "score", file: "score.py", text: "@flowd.step\n"},
		{lang: "python", kind: "input", name: "class", file: "class.py", text: "@flowd.input\n"},
		{lang: "python", kind: "output", name: "to_disk", file: "to_disk.py", text: "@flowd.output"},
		{lang: "node", kind: "step", name: "score", file: "score.mjs", text: "flowd.step("},
		{lang: "node", kind: "input", name: "numbers", file: "numbers.mjs", text: "flowd.input("},
		{lang: "node", kind: "output", name: "disk", file: "disk.mjs", text: "flowd.output("},
		{lang: "ruby", kind: "step", name: "score", file: "score.rb", text: "Flowd.step do"},
		{lang: "ruby", kind: "input", name: "numbers", file: "numbers.rb", text: "Flowd.input do"},
		{lang: "ruby", kind: "output", name: "disk", file: "disk.rb", text: "Flowd.output("},
		{lang: "python", kind: "step", name: "Score", err: "use lower-case letters"},
		{lang: "python", kind: "step", name: "set", err: `flowd has the step "set" already`},
	} {
		t.Run(tt.lang+" "+tt.kind+" "+tt.name, func(t *testing.T) {
			p := Program{Lang: tt.lang, Kind: tt.kind, Name: tt.name, Dir: filepath.Join(t.TempDir(), "new")}
			next, err := NewProgram(p)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("err %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(next, "cd "+p.Dir+"\n") {
				t.Errorf("the next steps are\n%s", next)
			}
			for name, want := range map[string]string{tt.file: tt.text, "plugin.yaml": ", " + tt.file + "]\n", "pipeline.yaml": tt.name + ": {"} {
				text, err := os.ReadFile(filepath.Join(p.Dir, name))
				if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), placeholder) {
					t.Errorf("%s (%v) has no %q, or still the placeholder:\n%s", name, err, want, text)
				}
			}
		})
	}
}
