package engine_test

import (
	"maps"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/google/go-cmp/cmp"
)

func TestMeta(t *testing.T) {
	read := engine.Meta{}.With("path", "a.log").With("host", "x").Own().WithIndex("line").At(7)
	tests := []struct {
		name       string
		m          engine.Meta
		all, added map[string]any
	}{
		{"nothing", engine.Meta{}, map[string]any{}, map[string]any{}},
		{"what an input gives is its own", read, map[string]any{"path": "a.log", "host": "x", "line": 7},
			map[string]any{}},
		{"what a step sets is added", read.With("tenant", "t1"),
			map[string]any{"path": "a.log", "host": "x", "line": 7, "tenant": "t1"}, map[string]any{"tenant": "t1"}},
		{"what a step sets anew is added, too", read.With("host", "y").With("line", "z"),
			map[string]any{"path": "a.log", "host": "y", "line": "z"}, map[string]any{"host": "y", "line": "z"}},
		{"a name set twice has its last value", read.With("a", 1).With("a", 2),
			map[string]any{"path": "a.log", "host": "x", "line": 7, "a": 2}, map[string]any{"a": 2}},
		{"without", read.With("a", 1).Without("path").Without("line").Without("nothing"),
			map[string]any{"host": "x", "a": 1}, map[string]any{"a": 1}},
		{"without all", read.Without("path").Without("line").Without("host"), map[string]any{}, map[string]any{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.all, tt.m.Map()); diff != "" {
				t.Errorf("all (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.added, maps.Collect(tt.m.Added())); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
			if tt.m.Len() != len(tt.all) {
				t.Errorf("length %d, want %d", tt.m.Len(), len(tt.all))
			}
		})
	}
	if diff := cmp.Diff(map[string]any{"path": "a.log", "host": "x", "line": 7}, read.Map()); diff != "" {
		t.Errorf("changes went back to the metadata they were made from:\n%s", diff)
	}
}

func TestMetaOf(t *testing.T) {
	names := []string{"queue", "tenant"}
	m := engine.MetaOf(names, []any{"q", "t1"}, 1)
	if diff := cmp.Diff(map[string]any{"tenant": "t1"}, maps.Collect(m.Added())); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	if got := m.With("queue", "x").With("n", 1).Map(); !cmp.Equal(got,
		map[string]any{"queue": "x", "tenant": "t1", "n": 1}) || m.Len() != 2 || names[0] != "queue" {
		t.Errorf("with more: %v, before: %v", got, m.Map())
	}
}
