package test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// assistant connects to flowd mcp as an assistant does.
func assistant(t *testing.T, flags ...string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(binary, append([]string{"mcp"}, flags...)...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAssistantsUseToolsThatChangeNothing(t *testing.T) {
	t.Parallel()
	s := assistant(t, "--addr", "127.0.0.1:1")
	const pipeline = "inputs: {in: {stdin: {}}}\nprocessors: [{filter: a > 1}]\noutputs: {out: {stdout: {}}}\n"
	for _, c := range []struct {
		tool  string
		args  map[string]any
		want  string
		wrong bool
	}{
		{"list_components", nil, `"rabbitmq"`, false},
		{"read_docs", map[string]any{"topic": "kafka"}, "consumer group", false},
		{"read_docs", map[string]any{"topic": "--help"}, "flowd docs", false},
		{"search_docs", map[string]any{"words": "dead letter"}, "dead-letters", false},
		{"lint", map[string]any{"text": strings.Replace(pipeline, "filter", "filtr", 1)}, `did you mean \"filter\"?`, false},
		{"lint", map[string]any{}, "give either file or text", true},
		{"graph", map[string]any{"text": pipeline}, "at most once", false},
		{"try", map[string]any{"text": pipeline, "messages": "{\"a\": 1}\n{\"a\": 2}"}, `"passage":"filtered"`, false},
		{"eval", map[string]any{"expression": "a + 1", "messages": `{"a": 1}`}, `"value":2`, false},
		{"eval", map[string]any{"expression": "a +", "messages": `{}`}, "ends too early", true},
		{"test", map[string]any{"file": "no.yaml"}, "no.yaml", true},
		{"state", nil, "127.0.0.1:1", false},
	} {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			t.Errorf("%s: %v", c.tool, err)
			continue
		}
		text := ""
		if len(res.Content) > 0 {
			text = res.Content[0].(*mcp.TextContent).Text
		}
		if !strings.Contains(text, c.want) || res.IsError != c.wrong {
			t.Errorf("%s %v: wrong %v, want %v: %.600s", c.tool, c.args, res.IsError, c.wrong, text)
		}
	}
}

func TestAssistantsChangeOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string][]string{"": nil, "pause,push": {"pause", "push"}} {
		s := assistant(t, "--allow", flags)
		var changing []string
		for tool, err := range s.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint {
				changing = append(changing, tool.Name)
			}
		}
		if slices.Sort(changing); !slices.Equal(changing, want) {
			t.Errorf("--allow %q: tools that change something are %v, want %v", flags, changing, want)
		}
		if res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "reload"}); err == nil && !res.IsError {
			t.Error("a tool that is not allowed was called")
		}
	}
	command(t, repo, "", binary, "mcp", "--allow", "restart").Want(t, 2, "--allow restart: there are pause, resume")
}
