package oteltest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Tree shows spans as text, each below its parent, with its kind unless it is internal, its attributes but for those named in
// without, its error, and the spans that it is linked with. It checks that they are complete: parents and links exist, children
// are in the trace of their parents, and no span ends before it begins.
func Tree(t *testing.T, spans []ptrace.Span, without ...string) string {
	t.Helper()
	byID := map[pcommon.SpanID]ptrace.Span{}
	children := map[pcommon.SpanID][]ptrace.Span{}
	for _, s := range spans {
		if _, twice := byID[s.SpanID()]; twice {
			t.Errorf("span %s has come twice", s.Name())
		}
		byID[s.SpanID()] = s
		if s.EndTimestamp() < s.StartTimestamp() {
			t.Errorf("span %s ends before it begins", s.Name())
		}
	}
	var roots []ptrace.Span
	for _, s := range spans {
		p, ok := byID[s.ParentSpanID()]
		switch {
		case s.ParentSpanID().IsEmpty():
			roots = append(roots, s)
			continue
		case !ok:
			t.Errorf("the parent of span %s is missing", s.Name())
		case p.TraceID() != s.TraceID():
			t.Errorf("span %s is in another trace than its parent %s", s.Name(), p.Name())
		}
		children[s.ParentSpanID()] = append(children[s.ParentSpanID()], s)
	}
	var lines func(b *strings.Builder, all []ptrace.Span, indent string)
	lines = func(b *strings.Builder, all []ptrace.Span, indent string) {
		slices.SortStableFunc(all, func(x, y ptrace.Span) int {
			return cmp.Or(cmp.Compare(x.StartTimestamp(), y.StartTimestamp()), cmp.Compare(x.Name(), y.Name()))
		})
		for _, s := range all {
			b.WriteString(indent + line(t, s, byID, without) + "\n")
			lines(b, children[s.SpanID()], indent+"  ")
		}
	}
	var trees []string
	for _, r := range roots {
		var b strings.Builder
		lines(&b, []ptrace.Span{r}, "")
		trees = append(trees, b.String())
	}
	slices.Sort(trees)
	return strings.Join(trees, "")
}

func line(t *testing.T, s ptrace.Span, byID map[pcommon.SpanID]ptrace.Span, without []string) string {
	t.Helper()
	text := s.Name()
	if s.Kind() != ptrace.SpanKindInternal {
		text += " " + strings.ToUpper(s.Kind().String())
	}
	var attributes []string
	for name, value := range s.Attributes().All() {
		if !slices.Contains(without, name) {
			attributes = append(attributes, name+"="+value.AsString())
		}
	}
	slices.Sort(attributes)
	if len(attributes) > 0 {
		text += " {" + strings.Join(attributes, " ") + "}"
	}
	if s.Status().Code() == ptrace.StatusCodeError {
		text += " ERROR " + s.Status().Message()
	}
	for _, e := range s.Events().All() {
		text += fmt.Sprintf(" (%s)", e.Name())
	}
	for _, l := range s.Links().All() {
		to, ok := byID[l.SpanID()]
		if !ok || to.TraceID() != l.TraceID() {
			t.Errorf("span %s has a link to a span that is missing", s.Name())
			continue
		}
		text += " → " + to.Name()
	}
	return strings.TrimSpace(text)
}
