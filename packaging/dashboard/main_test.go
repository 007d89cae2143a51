package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/debian"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"gopkg.in/yaml.v3"
)

// board is what the tests read of flowd.json.
type board struct {
	UID           string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ RefID, Expr string }
	}
}

func readBoard(t *testing.T) (b board, text []byte) {
	t.Helper()
	text, err := os.ReadFile("flowd.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	return b, text
}

type alert struct {
	Alert, Expr         string
	For                 *string
	Labels, Annotations map[string]string
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	return rules.Groups[0].Rules
}

func TestTheDashboardIsUpToDate(t *testing.T) {
	want, err := dashboard(rows)
	if err != nil {
		t.Fatal(err)
	}
	if _, got := readBoard(t); !bytes.Equal(got, want) {
		t.Error("flowd.json is stale: run go generate ./packaging/dashboard")
	}
}

func TestAPanelOfAnUnknownMetricIsAnError(t *testing.T) {
	_, err := dashboard([]row{{"A row", []panel{graph("A panel", "short", query{`flowd_gone{S}`, ""})}}})
	if want := `panel "A panel": flowd has no metric flowd_gone (see ` + list + `)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestGrafanaCanImportTheDashboard(t *testing.T) {
	b, _ := readBoard(t)
	if b.UID == "" || b.SchemaVersion < 36 { // of Grafana 9
		t.Errorf("uid %q, schema version %d", b.UID, b.SchemaVersion)
	}
	var names []string
	for _, v := range b.Templating.List {
		names = append(names, v.Name)
	}
	if want := []string{"datasource", "job", "instance", "pipeline"}; !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if p.ID <= 0 || ids[p.ID] {
			t.Errorf("panel %s has the id %d, which is not unique", p.Title, p.ID)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.X < 0 || at.W < 1 || at.X+at.W > 24 || at.H < 1 {
			t.Errorf("panel %s is outside of the grid: %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %s and %s overlap", other, p.Title)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %s has no query", p.Title)
		}
	}
}

var (
	braces   = regexp.MustCompile(`(\bflowd_[a-z_]+)\{([^}]*)\}`)
	matchers = regexp.MustCompile(`([a-z]+)(=~|!~|!=|=)"([^"]*)"`)
	groups   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	used     = regexp.MustCompile(`\$labels\.([a-z]+)`)
)

// TestEveryMetricExists looks for the metrics and labels of the dashboard and the alerts in what flowd exposes.
func TestEveryMetricExists(t *testing.T) {
	known, err := readFamilies()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{"job": nil, "instance": nil, "le": nil} // of each label
	for _, m := range known {
		for _, series := range m.GetMetric() {
			for _, l := range series.GetLabel() {
				values[l.GetName()] = append(values[l.GetName()], l.GetValue())
			}
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	process, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exposed := map[string]bool{}
	for _, m := range process {
		exposed[m.GetName()] = true
	}

	check := func(where, expr string) {
		t.Helper()
		for _, name := range seriesOfFlowd.FindAllString(expr, -1) {
			if known.family(name) == nil {
				t.Errorf("%s: flowd has no metric %s", where, name)
			}
		}
		for _, name := range seriesOfProcess.FindAllString(expr, -1) {
			if runtime.GOOS == "linux" && !exposed[name] {
				t.Errorf("%s: flowd does not expose %s", where, name)
			}
		}
		for _, found := range braces.FindAllStringSubmatch(expr, -1) {
			m := known.family(found[1])
			if m == nil {
				continue
			}
			var labels []string
			for _, l := range m.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			for _, m := range matchers.FindAllStringSubmatch(found[2], -1) {
				label, value := m[1], m[3]
				switch {
				case label == "job" || label == "instance":
				case !slices.Contains(labels, label):
					t.Errorf("%s: %s has no label %s", where, found[1], label)
				case !strings.HasPrefix(value, "$") && !slices.Contains(values[label], value):
					t.Errorf("%s: the label %s is never %q", where, label, value)
				}
			}
		}
		for _, found := range groups.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(found[1], ", ") {
				if _, ok := values[label]; !ok {
					t.Errorf("%s: there is no label %s", where, label)
				}
			}
		}
	}
	b, _ := readBoard(t)
	for _, v := range b.Templating.List {
		check("variable "+v.Name, v.Definition)
	}
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			check("panel "+p.Title, target.Expr)
		}
	}
	for _, a := range readAlerts(t) {
		check(a.Alert, a.Expr)
	}
}

func TestEveryAlertIsCompleteTestedAndDocumented(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range readAlerts(t) {
		if severity := a.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has the severity %q", a.Alert, severity)
		}
		if a.For == nil || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s lacks `for`, a summary or a description", a.Alert)
		}
		if !strings.Contains(string(guide), "| `"+a.Alert+"` | "+a.Labels["severity"]+" |") {
			t.Errorf("docs/operations.md does not have %s with its severity", a.Alert)
		}
		cases, err := os.ReadFile(filepath.Join("testdata", a.Alert+".yaml"))
		if err != nil {
			t.Errorf("%s is not tested: %v", a.Alert, err)
			continue
		}
		_, fired, _ := strings.Cut(string(cases), `ALERTS{alertname="`+a.Alert+`"`)
		fired, _, _ = strings.Cut(fired, "}")
		if fired == "" || !strings.Contains(string(cases), "exp_samples: []") {
			t.Errorf("testdata/%s.yaml does not test that it fires, and that it does not", a.Alert)
		}
		for _, text := range a.Annotations {
			for _, m := range used.FindAllStringSubmatch(text, -1) {
				if !strings.Contains(fired, " "+m[1]+`="`) {
					t.Errorf("%s has no label %s, which its annotations use", a.Alert, m[1])
				}
			}
		}
	}
}

// TestPromtool has Prometheus check the queries of the dashboard, and check and test the alerts.
func TestPromtool(t *testing.T) {
	promtool := debian.Program(t, "promtool", "prometheus")
	run := func(t *testing.T, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
	type record struct{ Record, Expr string }
	var queries []record
	b, _ := readBoard(t)
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			queries = append(queries, record{"query", strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": queries}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "check", "rules", "--lint=none", "alerts.yaml", file)
	for _, a := range readAlerts(t) {
		t.Run(a.Alert, func(t *testing.T) {
			t.Parallel() // promtool mostly waits
			run(t, "test", "rules", filepath.Join("testdata", a.Alert+".yaml"))
		})
	}
}
