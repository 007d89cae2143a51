package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/test/flowdtest"
)

// built is a directory with flowd and this command. Both are built without the race detector,
// which would change the number of objects.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "flowd-bench-test")
	if err == nil {
		built = dir
		err = flowdtest.GoBuild("-o", dir+string(filepath.Separator), "github.com/flowd-io/flowd/cmd/flowd", ".")
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// testWorld is a world in which rows run with few messages.
func testWorld(t *testing.T) *world {
	t.Helper()
	w, err := newWorld(t.Context(), filepath.Join(built, "flowd"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	w.vars["self"] = filepath.Join(built, "bench")
	w.rounds, w.messages, w.checked, w.turn = 1, 400, 100, time.Millisecond
	return w
}

func TestEveryRowGivesARightAnswer(t *testing.T) {
	for i := range rows {
		r := &rows[i]
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w := testWorld(t)
			res := w.measure(r)
			if len(w.failures) > 0 {
				t.Fatal(strings.Join(w.failures, "\n"))
			}
			if res.Skipped != "" {
				t.Skip(res.Skipped)
			}
			for _, s := range res.Scores {
				if _, _, _, ok := w.command(command(r, s.Name), nil); ok && len(s.Rounds) != 1 {
					t.Errorf("%s has %d rounds, want 1 (%s)", s.Name, len(s.Rounds), s.Skipped)
				}
			}
			if flowd := res.Scores[0].Rounds[0]; r.metric.value(flowd) <= 0 {
				t.Errorf("flowd has no %s: %+v", r.metric.name, flowd)
			}
			if len(res.Goals) == 0 {
				t.Error("the row has no goal")
			}
		})
	}
}

func TestAnOlderBinaryIsCompared(t *testing.T) {
	w := testWorld(t)
	w.vars["before"] = w.vars["flowd"]
	res := w.measure(&rows[0])
	if last := res.Scores[len(res.Scores)-1]; last.Name != "before" || len(last.Rounds) != 1 || last.Flowd == 0 {
		t.Errorf("the older binary was not compared: %+v (%s)", last, strings.Join(w.failures, "\n"))
	}
}

func command(r *row, contestant string) string {
	for _, c := range r.contestants {
		if c.name == contestant {
			return c.command
		}
	}
	return ""
}

func TestEveryCurveRuns(t *testing.T) {
	for _, c := range curves {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			w := testWorld(t)
			c.xs = []int{c.xs[0], c.xs[len(c.xs)-1]}
			if c.Name == "pipelines" {
				c.xs[1] = 10
			}
			got := w.measureCurve(c)
			if len(w.failures) > 0 {
				t.Fatal(strings.Join(w.failures, "\n"))
			}
			for _, p := range got.Points {
				if p.Cost <= 0 || p.X == 0 {
					t.Errorf("a point has no cost: %+v", p)
				}
			}
		})
	}
}

// A contestant with a wrong answer gets no figures, and the command fails.
func TestAWrongAnswerGetsNoFigures(t *testing.T) {
	t.Parallel()
	w := testWorld(t)
	r := row{
		name: "filter", does: "a copy is not a filter", metric: rate, run: runFiles, data: events,
		check: transformed(graded, failed),
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/filter.flowd.yaml"},
			{name: "line copy", command: "$self baseline copy $in $out", limit: true},
		},
		goals: []goal{{than: "line copy", atLeast: 1}},
	}
	res := w.measure(&r)
	if s := res.Scores[1]; s.Skipped == "" || len(s.Rounds) > 0 {
		t.Errorf("the contestant with a wrong answer has figures: %+v", s)
	}
	if len(res.Scores[0].Rounds) != 1 || res.Goals[0].Judged {
		t.Errorf("flowd has no figures, or the goal was judged: %+v, goals %+v", res.Scores[0], res.Goals)
	}
	if err := (report{Wrong: w.failures}).verdict(); err == nil {
		t.Error("the command does not fail")
	}
}

func TestAnswersAreChecked(t *testing.T) {
	const n = 9
	edited := func(i int) string { // event i as the row filter should write it
		d, err := decode(event(nil, i))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(graded(d))
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	all := func() (s string) {
		for i := range n {
			s += string(event(nil, i)) + "\n"
		}
		return s
	}
	tests := []struct {
		name  string
		check check
		out   string
		right bool
	}{
		{"all events that pass", transformed(graded, failed), edited(2) + edited(5) + edited(8), true},
		{"in another order", transformed(graded, failed), edited(8) + edited(5) + edited(2), true},
		{"a missing event", transformed(graded, failed), edited(2) + edited(8), false},
		{"a duplicate", transformed(graded, failed), edited(2) + edited(2) + edited(5) + edited(8), false},
		{"an event that should have been filtered", transformed(graded, failed), edited(2) + edited(4) + edited(5) + edited(8), false},
		{"a changed value", transformed(graded, failed),
			edited(2) + edited(5) + strings.Replace(edited(8), "critical", "harmless", 1), false},
		{"an event without the new fields", transformed(graded, failed), edited(2) + edited(5) + string(event(nil, 8)) + "\n",
			false},
		{"invalid JSON", transformed(graded, failed), edited(2) + edited(5) + "{\"id\":8\n", false},
		{"an empty line", transformed(graded, failed), edited(2) + edited(5) + "\n", false},
		{"order kept", inOrder(transformed(graded, failed)), edited(2) + edited(5) + edited(8), true},
		{"a copy", copied, all(), true},
		{"half a copy", copied, all()[:len(all())/2], false},
		{"a copy with a wrong byte", copied, strings.Replace(all(), "GET", "PUT", 1), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			o := output{data: events, n: n, all: true, in: filepath.Join(dir, "in"), out: filepath.Join(dir, "out")}
			if err := errors.Join(os.WriteFile(o.in, []byte(all()), 0o600),
				os.WriteFile(o.out, []byte(test.out), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := test.check(o); (err == nil) != test.right {
				t.Errorf("got %v, want right: %v", err, test.right)
			}
		})
	}
}

func TestDeliveredMessagesAreCounted(t *testing.T) {
	for stderr, right := range map[string]bool{
		"p: 1,200 received: 1,200 delivered in 2ms (1 k/s)":             true,
		"p: 1,200 received: 1,199 delivered in 2ms (1 k/s)":             false,
		"p: 1,200 received: 1,199 delivered, 1 dropped in 2ms (1 k/s)":  false,
		"p: 1,200 received: 1,199 delivered, 1 filtered in 2ms (1 k/s)": false,
		"": false,
	} {
		if err := counted(output{n: 1200, stderr: stderr, flowd: true}); (err == nil) != right {
			t.Errorf("%q: got %v, want right: %v", stderr, err, right)
		}
	}
	if err := counted(output{n: 1200, stderr: "1199"}); err == nil {
		t.Error("a baseline that counts too few messages is right")
	}
}

// Only messages of the same customer have to keep their order.
func TestOrderIsCheckedPerKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	none := func(output) error { return nil }
	for text, right := range map[string]bool{
		`{"id":2}` + "\n" + `{"id":1}` + "\n" + `{"id":999}` + "\n": true,
		`{"id":999}` + "\n" + `{"id":2}` + "\n":                     false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := inOrder(none)(output{out: path}); (err == nil) != right {
			t.Errorf("%q: got %v, want right: %v", text, err, right)
		}
	}
}

// sampleReport has two rows and a curve, with names that need escapes.
func sampleReport() report {
	fast, slow := sample{Messages: 1e6, Bytes: 330e6, Wall: time.Second, CPU: time.Second, Peak: 40 << 20},
		sample{Messages: 1e5, Wall: time.Second, CPU: 2 * time.Second, Peak: 30 << 20}
	a := result{Name: "a & b", Does: "in → <out>", Metric: rate.name, Unit: rate.unit, metric: rate}
	r := row{metric: rate, goals: []goal{{atLeast: 900}, {than: "slow", atLeast: 20}, {than: "absent", atLeast: 2}}}
	a.evaluate(&r, []score{{Name: "flowd", Rounds: []sample{fast, fast}},
		{Name: "slow", Limit: true, Rounds: []sample{slow, slow}}, {Name: "absent", Skipped: "not on PATH"},
		{Name: secondFlowd, Rounds: []sample{fast, fast}}})
	b := result{Name: "no broker", Does: "nothing", Skipped: "there is none", metric: rate}
	c := curve{Name: "c", Does: "d", Of: "steps", Want: linear, Points: []point{{1, 2, 3}, {10, 20, 3}, {100, 200, 3}},
		Is: "linear", Met: true}
	return report{Rounds: 2, Rows: []result{a, b}, Curves: []curve{c}}
}

func TestTheReportPrints(t *testing.T) {
	rep := sampleReport()
	var b bytes.Buffer
	rep.head(&b)
	for _, r := range rep.Rows {
		r.print(&b)
	}
	for _, c := range rep.Curves {
		c.print(&b)
	}
	rep.foot(&b)
	for _, want := range []string{"a & b: in → <out>", "1000", "slow (limit)", "10.0×", "20.0×",
		"goal rate ≥ 900 k/s: met, 1000", "goal ≥ 20.0 × slow: MISSED, 10.0",
		"absent                 SKIPPED: not on PATH", "not judged", "SKIPPED: there is none", "A/A:",
		"1 of 2 goals met", "20.0 µs/message"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	text := string(markdown(rep))
	for _, want := range []string{figuresBegin, figuresEnd, "| a & b | 1000 k/s | slow: 100 | 10.0× |",
		"| no broker | skipped: there is none |", "1: 2, 10: 20.0, 100: 200"} {
		if !strings.Contains(text, want) {
			t.Errorf("the block lacks %q:\n%s", want, text)
		}
	}
}

func TestPicturesAreWellFormed(t *testing.T) {
	rep := sampleReport()
	for name, text := range map[string][]byte{"bars": bars(rep), "curves": drawCurves(rep.Curves),
		"no row": bars(report{}), "no curve": drawCurves(nil)} {
		if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Inf")) {
			t.Errorf("%s has an invalid number:\n%s", name, text)
		}
		for d := xml.NewDecoder(bytes.NewReader(text)); ; {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
		}
	}
}

func TestTheCommandWritesJSONPicturesAndMarkdown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, picture := filepath.Join(dir, "f.json"), filepath.Join(dir, "f.svg")
	cmd := exec.CommandContext(t.Context(), filepath.Join(built, "bench"), "--flowd", filepath.Join(built, "flowd"),
		"--rows", "^(drop|workers)$",
		"--rounds", "1", "--messages", "100", "--curves", "--json", file, "--svg", picture, "--markdown")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	block, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 1 || rep.Rows[0].Name != "drop" || len(rep.Curves) != 1 ||
		rep.Rows[0].Scores[0].Rounds[0].Messages == 0 {
		t.Errorf("got %+v", rep)
	}
	if !strings.HasPrefix(string(block), figuresBegin) {
		t.Errorf("stdout does not have the block of figures:\n%s", block)
	}
	for _, path := range []string{picture, filepath.Join(dir, "f-curves.svg")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestInvalidArgumentsAreRejected(t *testing.T) {
	for _, args := range [][]string{{"rows"}, {"--rounds", "-1"}, {"--rows", "("}, {"--nothing"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if err := baseline([]string{"nothing"}); err == nil {
		t.Error("an unknown baseline is accepted")
	}
}

func TestARowUsesEachConfiguration(t *testing.T) {
	var used []string
	for _, r := range rows {
		for _, c := range r.contestants {
			used = append(used, regexp.MustCompile(`\$conf/(\S+)`).ReplaceAllString(c.command, " configs/$1 "))
		}
	}
	text := strings.Join(used, " ") + " "
	err := fs.WalkDir(configs, "configs", func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.Contains(text, " "+path+" ") { // it may name others, such as programs
			content, err := fs.ReadFile(configs, path)
			if err != nil {
				return err
			}
			text += regexp.MustCompile(`\$\{CONF\}/([^\s"]+)`).ReplaceAllString(string(content), " configs/$1 ")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(configs, "configs", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !strings.Contains(text, " "+path+" ") {
			t.Errorf("no row uses %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheGuideNamesEveryRow(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), figuresBegin)
	block, _, ended := strings.Cut(block, figuresEnd)
	if !found || !ended {
		t.Fatal("docs/performance.md has no block of figures")
	}
	for _, r := range rows {
		if !strings.Contains(block, "\n| "+r.name+" |") {
			t.Errorf("the figures lack row %s", r.name)
		}
	}
	for _, c := range curves {
		if !strings.Contains(block, "\n| "+c.Name+" |") {
			t.Errorf("the figures lack curve %s", c.Name)
		}
	}
}
