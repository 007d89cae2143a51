package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// managing is a running flowd whose pipelines a test manages over the API.
type managing struct {
	*process
	dir   string
	admin string // URL of the admin API
}

const (
	managerConfig = `service: {listen: "127.0.0.1:0", token_file: token, pipelines: managed}`
	managerToken  = "0123456789abcdef0123456789abcdef"

	// idlePipeline runs and does nothing.
	idlePipeline = "inputs: {in: {generate: {interval: 1h, body: '{}'}}}\noutputs: {out: {drop: {}}}\n"
)

// startManaging starts flowd in dir with files there and the process's own file.
func startManaging(t *testing.T, dir string, files ...string) *managing {
	t.Helper()
	write(t, dir, "token", managerToken)
	args := []string{"-c", write(t, dir, "process.yaml", managerConfig)}
	for _, f := range files {
		args = append(args, "-c", f)
	}
	p := start(t, dir, args...)
	_, at, _ := strings.Cut(p.Says("admin API listening"), "address=")
	at, _, _ = strings.Cut(at, " ")
	return &managing{p, dir, "http://" + at}
}

// answer is what the API answers.
type answer struct {
	Status    int `json:"-"`
	Text      string
	Error     string
	Done      []string
	Pipelines []struct {
		Name, State, File string
		Managed           bool
	}
	Problems []struct {
		Code, File, Path, Message, Remedy string
		Line, Col                         int
	}
}

// ask sends a request with the token.
func (m *managing) ask(method, path string, body io.Reader, headers ...string) answer {
	m.T.Helper()
	r, err := http.NewRequestWithContext(m.T.Context(), method, m.admin+"/api/v1/pipelines"+path, body)
	if err != nil {
		m.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+managerToken)
	r.Header.Set("Content-Type", "application/yaml")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		m.T.Errorf("%s %s: %v\nstderr:\n%s", method, path, err, m.Stderr.Text())
		return answer{}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		m.T.Error(err)
	}
	a := answer{Status: res.StatusCode, Text: string(text)}
	if res.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(text, &a); err != nil {
			m.T.Errorf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return a
}

func (m *managing) put(name, text string) answer {
	m.T.Helper()
	return m.ask(http.MethodPut, "/"+name, strings.NewReader(text))
}

// pipelines lists the pipelines and their states.
func (m *managing) pipelines() string {
	m.T.Helper()
	var all []string
	for _, p := range m.ask(http.MethodGet, "", nil).Pipelines {
		where := "given"
		if p.Managed {
			where = "managed"
		}
		all = append(all, fmt.Sprintf("%s: %s, %s", p.Name, where, p.State))
	}
	return strings.Join(all, "; ")
}

// eventually waits until the pipelines and their states are as in want.
func (m *managing) eventually(want string) {
	m.T.Helper()
	for late := time.Now().Add(deadline); ; <-time.After(10 * time.Millisecond) {
		got := m.pipelines()
		if got == want {
			return
		}
		if time.Now().After(late) {
			m.T.Fatalf("pipelines are %q, want %q\nstderr:\n%s", got, want, m.Stderr.Text())
		}
	}
}

// files lists the files of the directory, without the lock.
func (m *managing) files() (names []string) {
	m.T.Helper()
	entries, err := os.ReadDir(filepath.Join(m.dir, "managed"))
	if err != nil {
		m.T.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

// stop ends the process without an error.
func (m *managing) stop() {
	m.T.Helper()
	m.Signal(syscall.SIGTERM)
	m.Wait().Want(m.T, 0)
}

func writing(word string) string {
	return fmt.Sprintf("# %s\ninputs: {in: {generate: {count: 1, body: '{word: %q}'}}}\noutputs: {out: {file: %[1]s.ndjson}}\n", word, word)
}

func TestPipelinesAreManagedOverTheAPI(t *testing.T) {
	t.Parallel()
	m := startManaging(t, t.TempDir())
	if got := m.pipelines(); got != "" {
		t.Errorf("pipelines are %q before the first one", got)
	}
	for ready, late := 0, time.Now().Add(deadline); ready != http.StatusOK; <-time.After(time.Millisecond) {
		res, err := http.Get(m.admin + "/ready")
		if err != nil || time.Now().After(late) {
			t.Fatalf("a process that waits for pipelines is not ready: %v, %v", res, err)
		}
		ready = res.StatusCode
		res.Body.Close()
	}
	if a := m.put("job", writing("first")); a.Status != http.StatusCreated || len(a.Done) != 1 || a.Done[0] != "job" {
		t.Errorf("creating gives %d %s", a.Status, a.Text)
	}
	m.eventually("job: managed, stopped")
	if a := m.put("idle", idlePipeline); a.Status != http.StatusCreated {
		t.Errorf("creating gives %d %s", a.Status, a.Text)
	}
	if a := m.put("job", writing("second")); a.Status != http.StatusOK {
		t.Errorf("replacing gives %d %s", a.Status, a.Text)
	}
	m.eventually("idle: managed, running; job: managed, stopped")
	if a := m.put("idle", idlePipeline); a.Status != http.StatusOK {
		t.Errorf("replacing gives %d %s", a.Status, a.Text)
	}
	// Each version of the job has run once, although others have changed since.
	for _, word := range []string{"first", "second"} {
		if got, want := read(t, m.dir, word+".ndjson"), fmt.Sprintf("{\"word\":%q}\n", word); got != want {
			t.Errorf("%s.ndjson has %q, want %q", word, got, want)
		}
	}
	if a := m.ask(http.MethodGet, "/job", nil); a.Text != writing("second") {
		t.Errorf("reading gives %d %s", a.Status, a.Text)
	}
	m.stop()

	m = startManaging(t, m.dir)
	m.eventually("idle: managed, running; job: managed, stopped")
	m.Signal(syscall.SIGHUP)
	m.Says("reloaded")
	m.eventually("idle: managed, running; job: managed, stopped")
	if a := m.ask(http.MethodDelete, "/idle", nil); a.Status != http.StatusOK {
		t.Errorf("deleting gives %d %s", a.Status, a.Text)
	}
	m.eventually("job: managed, stopped")
	if a := m.ask(http.MethodGet, "/idle", nil); a.Status != http.StatusNotFound || a.Error != `there is no pipeline "idle" (there is job)` {
		t.Errorf("reading a deleted pipeline gives %d %s", a.Status, a.Text)
	}
	if got := m.files(); len(got) != 1 || got[0] != "job.yaml" {
		t.Errorf("files are %v", got)
	}
	m.stop()
}

// zeros is an endless body. It counts what is read of it.
type zeros struct{ n int }

func (z *zeros) Read(b []byte) (int, error) {
	if z.n += len(b); z.n > 50<<20 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = '#'
	}
	return len(b), nil
}

func TestABadPipelineNeverReplacesAGoodOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	given := write(t, dir, "given.yaml", fmt.Sprintf(
		"inputs: {in: {file: {path: data, follow: true, checkpoint: given.checkpoint}}, web: {http_server: %q}}\n"+
			"outputs: {out: {drop: {}}}\n", address))
	write(t, dir, "data", "")
	m := startManaging(t, dir, given)
	if a := m.put("good", idlePipeline); a.Status != http.StatusCreated {
		t.Fatalf("creating gives %d %s", a.Status, a.Text)
	}
	const all = "given: given, running; good: managed, running"
	m.eventually(all)

	tests := []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		want                     string // part of the answer
		place                    string // of the first problem: line:column code path
	}{
		{name: "bad YAML", path: "/good", body: "inputs: {\noutputs: [\n", status: 422, want: "nothing has changed", place: "1:9 yaml-syntax "},
		{name: "nothing", path: "/good", status: 422, place: "1:1 empty-file "},
		{name: "an unknown type", path: "/good", body: strings.Replace(idlePipeline, "drop", "dropp", 1), status: 422,
			want: `did you mean \"drop\"?`, place: "2:17 unknown-type outputs.out"},
		{name: "a new one with an unknown type", path: "/new", body: strings.Replace(idlePipeline, "drop", "dropp", 1), status: 422,
			place: "2:17 unknown-type outputs.out"},
		{name: "another's checkpoint", path: "/good", status: 422, place: "1:57 shared-file inputs.in.file.checkpoint",
			body: "inputs: {in: {file: {path: d, follow: true, checkpoint: given.checkpoint}}}\noutputs: {out: {drop: {}}}\n",
			want: "given.checkpoint is already used at "},
		{name: "another's port", path: "/new", body: "inputs: {in: {http_server: \"0.0.0.0:" + port + "\"}}\noutputs: {out: {drop: {}}}\n",
			status: 422, want: "port " + port + " is already used at ", place: "1:28 shared-port inputs.in.http_server"},
		{name: "its own service", path: "/good", body: idlePipeline + "service: {listen: 127.0.0.1:0}\n", status: 422,
			place: "3:1 managed-section service"},
		{name: "its own resources", path: "/good", body: idlePipeline + "resources: {caches: {c: {memory: {}}}}\n", status: 422,
			place: "3:1 managed-section resources"},
		{name: "an include", path: "/good", body: idlePipeline + "include: ../token\n", status: 422, place: "3:1 managed-section include"},
		{name: "another name", path: "/good", body: "name: given\n" + idlePipeline, status: 422,
			want: "write `name: good`, or leave the name out", place: "1:7 duplicate-name name"},
		{name: "a pipeline that was given", path: "/given", body: idlePipeline, status: 409, want: "which flowd was started with"},
		{name: "deleting one that was given", method: http.MethodDelete, path: "/given", status: 409, want: "which flowd was started with"},
		{name: "deleting none", method: http.MethodDelete, path: "/none", status: 404, want: "there are given, good"},
		{name: "a path", path: "/..%2F..%2Fgood", body: idlePipeline, status: 400, want: "is not a valid name"},
		{name: "a hidden name", path: "/.good", body: idlePipeline, status: 400, want: "is not a valid name"},
		{name: "a name that differs in case", path: "/GOOD", body: idlePipeline, status: 409, want: "only in case"},
		{name: "JSON", path: "/good", body: "{}", headers: []string{"Content-Type", "application/json"}, status: 415,
			want: "send Content-Type: application/yaml"},
		{name: "no token", path: "/good", body: idlePipeline, headers: []string{"Authorization", ""}, status: 401, want: "the token is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = http.MethodPut
			}
			a := m.ask(tt.method, tt.path, strings.NewReader(tt.body), tt.headers...)
			if a.Status != tt.status || a.Error == "" || !strings.Contains(a.Text, tt.want) {
				t.Errorf("got %d %s, want %d %s", a.Status, a.Text, tt.status, tt.want)
			}
			place := ""
			if len(a.Problems) > 0 {
				p := a.Problems[0]
				place = fmt.Sprintf("%d:%d %s %s", p.Line, p.Col, p.Code, p.Path)
				if p.Message == "" || p.File != filepath.Join("managed", tt.path[1:]+".yaml") {
					t.Errorf("the problem is %+v", p)
				}
			}
			if place != tt.place {
				t.Errorf("the first problem is at %q, want %q: %s", place, tt.place, a.Text)
			}
		})
	}

	before, known := m.Peak()
	for name, body := range map[string]io.Reader{
		"of a known length":    strings.NewReader(strings.Repeat("#", 50<<20)),
		"of an unknown length": &zeros{},
	} {
		if a := m.ask(http.MethodPut, "/good", body); a.Status != http.StatusRequestEntityTooLarge ||
			!strings.Contains(a.Error, "larger than 1 MiB") {
			t.Errorf("50 MB %s get %d %s", name, a.Status, a.Text)
		}
	}
	if after, _ := m.Peak(); known && after > before+10 {
		t.Errorf("50 MB take %d MiB", after-before)
	}

	m.eventually(all)
	if got := m.ask(http.MethodGet, "/good", nil).Text; got != idlePipeline {
		t.Errorf("the pipeline is now %s", got)
	}
	if got := m.files(); len(got) != 1 || got[0] != "good.yaml" {
		t.Errorf("files are %v", got)
	}
	m.stop()
}

// TestASavedPipelineOutlivesAKill kills the process while a saved pipeline waits for its predecessor to end.
func TestASavedPipelineOutlivesAKill(t *testing.T) {
	t.Parallel()
	m := startManaging(t, t.TempDir())
	slow := "inputs: {in: {generate: {count: 1, body: '{}'}}}\nprocessors: [{log: message is here}, {sleep: 20s}]\n" +
		"outputs: {out: {drop: {}}}\n"
	m.put("slow", slow)
	m.Says("message is here")
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, m.admin+"/api/v1/pipelines/slow", strings.NewReader(idlePipeline))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+managerToken)
		r.Header.Set("Content-Type", "application/yaml")
		if res, err := http.DefaultClient.Do(r); err == nil {
			t.Errorf("the answer came before the kill: %v", res.Status)
			res.Body.Close()
		}
	})
	for late := time.Now().Add(deadline); read(t, m.dir, "managed", "slow.yaml") != idlePipeline; <-time.After(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the pipeline is not saved")
		}
	}
	if err := m.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	write(t, m.dir, "managed/.slow.yaml.new", "inputs: {") // as a kill while it is written would leave it
	m = startManaging(t, m.dir)
	m.eventually("slow: managed, running")
	if got := m.ask(http.MethodGet, "/slow", nil).Text; got != idlePipeline {
		t.Errorf("the pipeline is %s", got)
	}
	if a := m.put("slow", slow); a.Status != http.StatusOK {
		t.Errorf("replacing gives %d %s", a.Status, a.Text)
	}
	if got := m.files(); len(got) != 1 {
		t.Errorf("files are %v", got)
	}
}

// TestClientsTakeTurns lets clients replace and delete one pipeline at the same time.
func TestClientsTakeTurns(t *testing.T) {
	t.Parallel()
	m := startManaging(t, t.TempDir())
	version := func(n int) string { return fmt.Sprintf("# version %d\n%s", n, idlePipeline) }
	m.put("p", version(0))
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for n := range 5 {
				if a := m.put("p", version(10*c+n)); a.Status != http.StatusOK && a.Status != http.StatusCreated {
					t.Errorf("replacing gives %d %s", a.Status, a.Text)
				}
				if c > 0 {
					continue
				}
				if a := m.ask(http.MethodDelete, "/p", nil); a.Status != http.StatusOK && a.Status != http.StatusNotFound {
					t.Errorf("deleting gives %d %s", a.Status, a.Text)
				}
			}
		})
	}
	clients.Wait()
	m.put("p", version(100))
	m.eventually("p: managed, running")
	if got := read(t, m.dir, "managed", "p.yaml"); got != version(100) {
		t.Errorf("the file has %s", got)
	}

	second := flowd(t, m.dir, "", "-c", "process.yaml")
	second.Want(t, 1, "belongs to another flowd that runs")
	m.stop()
}

// ctl runs flowd ctl pipelines.
func (m *managing) ctl(stdin string, args ...string) result {
	m.T.Helper()
	return flowd(m.T, m.dir, stdin, append([]string{"ctl", "--addr", strings.TrimPrefix(m.admin, "http://"), "--token-file", "token",
		"pipelines"}, args...)...)
}

func TestAStoppedPipelineStaysStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := startManaging(t, dir, write(t, dir, "given.yaml", idlePipeline))
	m.ctl(idlePipeline, "put", "-", "--name", "idle").Want(t, 0, "saved idle")
	m.ctl("", "stop", "idle").Want(t, 0, "stopping idle")
	const stopped = "given: given, running; idle: managed, stopped"
	m.eventually(stopped)
	m.Signal(syscall.SIGHUP)
	m.Says("reloaded")
	m.put("idle", "# changed\n"+idlePipeline)
	m.put("other", idlePipeline)
	m.ctl("", "rm", "other").Want(t, 0, "removed other")
	m.eventually(stopped)
	m.stop()

	m = startManaging(t, dir, "given.yaml")
	m.Says("pipeline stays stopped")
	m.eventually(stopped)
	if got := m.ctl("", "get", "idle"); got.Stdout != "# changed\n"+idlePipeline {
		t.Errorf("the pipeline is %s", got.Stdout)
	}
	if got := m.ctl("", "ls").Stdout; !strings.Contains(got, "\nidle      stopped  yes      managed/idle.yaml\n") {
		t.Errorf("flowd ctl pipelines ls shows\n%s", got)
	}
	m.ctl("", "stop", "given").Want(t, 0)
	m.eventually("given: given, stopped; idle: managed, stopped")
	if res, err := http.Get(m.admin + "/ready"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("a process whose pipelines an operator has stopped is not ready: %v, %v", res, err)
	} else {
		res.Body.Close()
	}
	m.ctl("", "start", "given").Want(t, 0, "started given")
	m.ctl("", "start", "idle").Want(t, 0, "started idle")
	m.ctl("", "start", "idle").Want(t, 0, "started idle")
	m.eventually("given: given, running; idle: managed, running")
	if got := m.files(); len(got) != 1 {
		t.Errorf("files are %v", got)
	}

	m.ctl("", "stop", "idle").Want(t, 0)
	m.ctl("", "rm", "idle").Want(t, 0)
	m.ctl("", "start", "idle").Want(t, 1, `there is no pipeline "idle" (there is given)`)
	m.put("idle", idlePipeline)
	m.eventually("given: given, running; idle: managed, running")
	m.stop()
}

func TestAPipelineAtAPipeIsNotStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := startManaging(t, dir,
		write(t, dir, "reader.yaml", "inputs: {in: {pipe: p}}\noutputs: {out: {drop: {}}}\n"),
		write(t, dir, "writer.yaml", "inputs: {in: {generate: {interval: 1h, body: '{}'}}}\noutputs: {out: {pipe: p}}\n"))
	const all = "reader: given, running; writer: given, running"
	m.eventually(all)
	m.ctl("", "stop", "reader").Want(t, 1, `pipeline "reader" is connected to "writer" by a pipe`)
	m.ctl("", "stop", "writer").Want(t, 1, `pipeline "writer" is connected to "reader" by a pipe`)
	for _, name := range []string{"reader", "writer"} {
		m.ctl("", "restart", name).Want(t, 0)
		m.eventually(all)
	}
	m.stop()
}

// TestPipesConnectManagedPipelines changes pipelines that need each other.
func TestPipesConnectManagedPipelines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const (
		writer  = "inputs: {in: {generate: {interval: 1ms, body: '{n: counter()}'}}}\noutputs: {out: {pipe: p}}\n"
		brief   = "inputs: {in: {generate: {count: 3, body: '{}'}}}\noutputs: {out: {pipe: q}}\n"
		reader  = "inputs: {in: {pipe: p}}\noutputs: {out: {file: all.ndjson}}\n"
		briefly = "inputs: {in: {pipe: q}}\noutputs: {out: {file: brief.ndjson}}\n"
	)
	for name, text := range map[string]string{"writer": writer, "reader": reader, "brief": brief, "briefly": briefly} {
		write(t, dir, "managed/"+name+".yaml", text)
	}
	m := startManaging(t, dir)
	const all = "brief: managed, stopped; briefly: managed, stopped; reader: managed, running; writer: managed, running"
	m.eventually(all)

	for _, name := range []string{"reader", "writer", "reader"} {
		text := map[string]string{"reader": reader, "writer": writer}[name]
		if a := m.put(name, "# changed\n"+text); a.Status != http.StatusOK {
			t.Errorf("replacing %s gives %d %s", name, a.Status, a.Text)
		}
		m.ctl("", "restart", "reader").Want(t, 0)
	}
	m.eventually(all)
	operate := func(name, action string) answer {
		return m.ask(http.MethodPost, "/"+name+"/"+action, strings.NewReader("{}"), "Content-Type", "application/json")
	}
	for _, request := range []struct {
		name string
		send func() answer
		want int // messages so far
	}{
		{"restarting the writer", func() answer { return operate("brief", "restart") }, 6},
		{"starting the writer", func() answer { return operate("brief", "start") }, 9},
		{"replacing the writer", func() answer { return m.put("brief", strings.Replace(brief, "3", "4", 1)) }, 13},
		{"replacing the reader", func() answer { return m.put("briefly", "# changed\n"+briefly) }, 13}, // the input has ended
	} {
		if a := request.send(); a.Status != http.StatusOK {
			t.Errorf("%s gives %d %s", request.name, a.Status, a.Text)
		}
		m.eventually(all)
		if got := strings.Count(read(t, dir, "brief.ndjson"), "\n"); got != request.want {
			t.Errorf("after %s %d messages have been passed on, want %d", request.name, got, request.want)
		}
	}

	for name, a := range map[string]answer{
		"deleting a writer":  m.ask(http.MethodDelete, "/writer", nil),
		"deleting a reader":  m.ask(http.MethodDelete, "/reader", nil),
		"another pipe":       m.put("writer", strings.Replace(writer, "pipe: p", "pipe: other", 1)),
		"a new open pipe":    m.put("new", strings.Replace(writer, "pipe: p", "pipe: other", 1)),
		"a loop of one pipe": m.put("new", "inputs: {in: {pipe: p}}\noutputs: {out: {pipe: p}}\n"),
	} {
		if a.Status != http.StatusUnprocessableEntity || len(a.Problems) == 0 ||
			a.Problems[0].Code != "open-pipe" && a.Problems[0].Code != "pipe-cycle" || a.Problems[0].Line == 0 {
			t.Errorf("%s gives %d %s", name, a.Status, a.Text)
		}
	}

	m.put("third", idlePipeline)
	m.ctl("", "stop", "third").Want(t, 0)
	if a := m.put("third", brief); a.Status != http.StatusOK {
		t.Errorf("connecting a stopped pipeline gives %d %s", a.Status, a.Text)
	}
	m.Says("a stopped pipeline runs again")
	m.eventually(strings.Replace(all, "; writer", "; third: managed, stopped; writer", 1))
	m.stop()
	last, seen := 0, map[int]bool{}
	for line := range strings.Lines(read(t, dir, "all.ndjson")) {
		var n int
		if _, err := fmt.Sscanf(line, "{\"n\":%d}\n", &n); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		last = max(last, n)
		seen[n] = true
	}
	if len(seen) != last || last == 0 {
		t.Errorf("%d of %d messages have arrived", len(seen), last)
	}
}

func TestARestartOpensEverythingAnew(t *testing.T) {
	t.Parallel()
	m := startManaging(t, t.TempDir())
	m.put("job", writing("a"))
	m.eventually("job: managed, stopped")
	for _, action := range []string{"restart", "start"} { // it has ended, so both run it again
		m.ctl("", action, "job").Want(t, 0, action+"ed job")
		m.eventually("job: managed, stopped")
	}
	if got, want := read(t, m.dir, "a.ndjson"), strings.Repeat("{\"word\":\"a\"}\n", 3); got != want {
		t.Errorf("three runs write %q", got)
	}

	write(t, m.dir, "web.yaml", "inputs: {in: {http_server: \"127.0.0.1:0\"}}\noutputs: {out: {drop: {}}}\n")
	m.ctl("", "put", "web.yaml").Want(t, 0, "saved web")
	first := m.Says("listening on http://")
	m.eventually("job: managed, stopped; web: managed, running")
	m.ctl("", "restart", "web").Want(t, 0, "restarted web")
	for late := time.Now().Add(deadline); strings.Count(m.Stderr.Text(), "listening on http://") < 2; <-time.After(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("after %s it does not listen again", first)
		}
	}

	m.ctl("{inputs: {in: {stdn: {}}}, outputs: {out: {drop: {}}}}\n", "put", "-", "--name", "job").Want(t, 2,
		`managed/job.yaml:1:16: `, `did you mean "stdin"?`, "1 error: nothing has changed")
	m.stop()
}
