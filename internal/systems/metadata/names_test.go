package metadata

import "testing"

func TestNames(t *testing.T) {
	n := Names{Prefix: "header_", Own: func(name string) bool { return name == "topic" }}
	seen := map[string]bool{}
	for sent, want := range map[string]string{"a": "a", "topic": "header_topic", "header_topic": "header_header_topic",
		"header_a": "header_a", "header_": "header_", "": ""} {
		name := n.In(sent)
		if name != want || seen[name] {
			t.Errorf("%s becomes %s, want %s", sent, name, want)
		}
		seen[name] = true
		if got := n.Out(name); got != sent {
			t.Errorf("%s is converted back to %s, want %s", name, got, sent)
		}
	}
	if got := n.Out("topic"); got != "topic" {
		t.Errorf("the input's own name becomes %s", got)
	}
}
