package pipetest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// mocked makes a step from the answers of a test.
func mocked(answers config.Mock) engine.Processor {
	return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
		for i := range answers {
			a := &answers[i]
			if !a.Match.IsZero() {
				if ok, err := a.Match.Test(m); err != nil || !ok {
					if err != nil {
						return err
					}
					continue
				}
			}
			return answer(a, m)
		}
		return nil
	})
}

// mocked returns the fields that the mocks of the test set.
func (s *stage) mocked() (all []map[string]any) {
	for _, m := range s.Test.Mocks.All() {
		for _, a := range m {
			if a.Set != nil {
				all = append(all, decoded(*a.Set).(map[string]any))
			}
		}
	}
	return all
}

// leaveOut removes fields from what arrived that a mock has set, that are unchanged, and that are not expected.
func leaveOut(mocked map[string]any, want, got any) {
	w, wanted := want.(map[string]any)
	g, came := got.(map[string]any)
	if !wanted || !came {
		return
	}
	for key, v := range mocked {
		if listed, ok := w[key]; ok {
			if below, ok := v.(map[string]any); ok {
				leaveOut(below, listed, g[key])
			}
		} else if there, ok := g[key]; ok && len(values("", "", v, there)) == 0 {
			delete(g, key)
		}
	}
}

// answer applies a to m.
func answer(a *config.Answer, m *engine.Message) error {
	switch {
	case a.Drop:
		m.Drop()
		return nil
	case a.Error != "":
		return engine.Errorf(cmp.Or(engine.Class(a.Class), engine.Permanent), "%s", a.Error)
	case a.JSON != nil:
		m.SetBytes(*a.JSON)
	case a.Text != nil:
		m.SetBytes([]byte(*a.Text))
	}
	for name, v := range a.Meta.All() {
		m.Meta = m.Meta.With(name, decoded(v))
	}
	if a.Set != nil {
		return merge(m, doc.Path{}, decoded(*a.Set).(map[string]any))
	}
	return nil
}

// merge sets fields below a path. It merges objects, and replaces other values.
func merge(m *engine.Message, at doc.Path, fields map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		v := fields[key]
		path := at.Append(key)
		if object, ok := v.(map[string]any); ok {
			there, err := m.Get(path)
			if err != nil {
				return err
			}
			if _, ok := there.(map[string]any); ok {
				if err := merge(m, path, object); err != nil {
					return err
				}
				continue
			}
		}
		if err := m.Set(path, v); err != nil {
			return err
		}
	}
	return nil
}
