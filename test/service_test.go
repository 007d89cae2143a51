package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// service is a running flowd with an admin API.
type service struct {
	*process
	admin string // URL of the admin API
	web   string // URL of its http_server input

	connecting sync.WaitGroup // posts without a connection yet
}

const servicePipeline = `
inputs: {web: {http_server: {listen: "127.0.0.1:0", max_waiting: 16MiB}}}
processors: [{name: check, filter: 'k != "skip"'}]
batchers: {all: {batch: {size: 2, timeout: 10ms}, output: out}}
outputs: {out: %s}
engine: {drain: {timeout: 5s}, max_in_flight: {messages: 100, bytes: 4MiB}, on_failure: {retry: {backoff: 10ms, max_attempts: 0}}}
service: {listen: "127.0.0.1:0", token_file: token}
`

// startService starts flowd with an admin API, an http_server input, and the given output.
func startService(t *testing.T, output string) *service {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "pipes"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, "pipes", "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "-c", write(t, dir, "p.yaml", fmt.Sprintf(servicePipeline, output)))
	_, at, _ := strings.Cut(p.Says("admin API listening"), "address=")
	at, _, _ = strings.Cut(at, " ")
	web := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on"))
	return &service{process: p, admin: "http://" + at, web: web}
}

// getAdmin sends a GET request to the admin API.
func (s *service) getAdmin(path string) (status int, body string) {
	s.T.Helper()
	res, err := http.Get(s.admin + path)
	if err != nil {
		s.T.Fatalf("%v\nstderr:\n%s", err, s.Stderr.Text())
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// eventually waits until shows returns true. what names the condition in the failure message.
func (s *service) eventually(what string, shows func() bool) {
	s.T.Helper()
	for end := time.Now().Add(deadline); !shows(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			_, state := s.getAdmin("/ready")
			s.T.Fatalf("never: %s\nready: %s\nstderr:\n%s", what, state, s.Stderr.Text())
		}
	}
}

// post sends a body to the input in the background, and stores the status of the response in the result.
func (s *service) post(wg *sync.WaitGroup, body string) *int {
	status := new(int)
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.web, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	s.connecting.Add(1)
	var once sync.Once
	connected := func() { once.Do(s.connecting.Done) }
	req = req.WithContext(httptrace.WithClientTrace(req.Context(),
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected() }}))
	wg.Go(func() {
		defer connected()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			s.T.Error(err)
			return
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		*status = res.StatusCode
	})
	return status
}

// waitUntilAccepted waits until the process has accepted the connections of all posts. Other
// connections would be reset when the listener closes.
func (s *service) waitUntilAccepted() {
	s.T.Helper()
	s.connecting.Wait()
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(s.web + "nowhere") // accepted after the others
	if err != nil {
		s.T.Fatal(err)
	}
	_ = res.Body.Close()
}

// memory returns a field of /proc/PID/status, in MiB.
func (s *service) memory(name string) int {
	s.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.T.Skip("without /proc, the memory of a process can't be read")
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	n, err := strconv.Atoi(strings.Fields(rest + " 0 ")[0])
	if err != nil || n == 0 {
		s.T.Fatalf("%s is not in %s", name, text)
	}
	return n >> 10
}

// failingIndicators returns the indicators that fail in a health response, as INDICATOR
// COMPONENT. Each of them must have an impact, a cause and an action.
func (s *service) failingIndicators(path string) []string {
	s.T.Helper()
	status, body := s.getAdmin(path)
	var h struct {
		Status string
		Checks []struct{ Indicator, Component, Impact, Cause, Action string }
	}
	if err := json.Unmarshal([]byte(body), &h); err != nil || (status == 200) != (h.Status == "ok") ||
		(status == 200) != (len(h.Checks) == 0) {
		s.T.Fatalf("%s: %d %s", path, status, body)
	}
	red := map[string]bool{}
	for _, c := range h.Checks {
		if c.Impact == "" || c.Cause == "" || c.Action == "" {
			s.T.Errorf("%s: %+v lacks an impact, a cause or an action", path, c)
		}
		red[strings.TrimSpace(c.Indicator+" "+c.Component)] = true
	}
	return slices.Sorted(maps.Keys(red))
}

// silentServer starts a server that accepts connections and never answers.
func silentServer(t *testing.T) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			open = append(open, c)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
		for _, c := range open {
			_ = c.Close()
		}
	})
	return "http://" + l.Addr().String()
}

// TestMessagesOfAFailingOutputAreReturned sends far more messages than may be in flight to a
// pipeline whose output fails, and then stops it.
func TestMessagesOfAFailingOutputAreReturned(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(refusing.Close) // after the parallel subtests
	tests := []struct {
		name, output string
		live, ready  []string
	}{
		{
			"a pipe that nobody reads hangs", `{file: {path: "pipes/$(pipe)"}, timeout: 200ms}`,
			[]string{"call_stuck output out"}, []string{"call_stuck output out", "output_breaker_open output out"},
		},
		{
			"a server that never answers is given up at the deadline", `{http: "` + silentServer(t) + `", timeout: 200ms}`,
			nil, []string{"output_breaker_open output out"},
		},
		{
			"a server that answers 503 fails", `{http: "` + refusing.URL + `", timeout: 10s}`,
			nil, []string{"output_breaker_open output out"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startService(t, tt.output)
			s.eventually("/live and /ready succeed while idle",
				func() bool { return s.failingIndicators("/live") == nil && s.failingIndicators("/ready") == nil })
			var posts sync.WaitGroup
			var answers []*int
			body := `{"pipe":"pipe","pad":"` + strings.Repeat("x", 200<<10) + `"}` // net/http reads so much before it rejects a body
			for range 800 {                                                        // 160 MiB, of which 4 may be in flight
				answers = append(answers, s.post(&posts, body))
			}
			s.eventually("/ready has the expected indicators",
				func() bool { return slices.Equal(s.failingIndicators("/ready"), tt.ready) })
			s.eventually("/live has the expected indicators", func() bool { return slices.Equal(s.failingIndicators("/live"), tt.live) })
			// Reading stops when no output works, or when all credits are in use.
			if held := s.gauge("flowd_credit_bytes"); held == 0 || held > 8<<20 {
				t.Errorf("%v bytes are in flight, want at most 4 MiB and one more read", held)
			}
			if mib := s.memory("VmHWM"); mib > 250 {
				t.Errorf("used %d MiB of memory, want at most 250", mib)
			}
			s.waitUntilAccepted()
			s.Signal(syscall.SIGTERM)
			r := s.Wait()
			posts.Wait()
			for _, status := range answers {
				if *status != http.StatusServiceUnavailable {
					t.Errorf("a request got %d, want 503", *status)
				}
			}
			r.Want(t, 3, "draining")
			if counts := regexp.MustCompile(`p: (\d+) received: (\d+) returned`).FindStringSubmatch(r.Stderr); counts == nil ||
				counts[1] != counts[2] {
				t.Errorf("not all messages were returned:\n%s", r.Stderr)
			}
		})
	}
}

// gauge returns the value of a gauge.
func (s *service) gauge(name string) float64 {
	s.T.Helper()
	f := s.metricFamilies()[name]
	if f == nil {
		s.T.Fatalf("metric %s does not exist", name)
	}
	return f.GetMetric()[0].GetGauge().GetValue()
}

func (s *service) metricFamilies() map[string]*dto.MetricFamily {
	s.T.Helper()
	status, text := s.getAdmin("/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil || status != 200 {
		s.T.Fatalf("metrics: %d %v", status, err)
	}
	return all
}

// TestMetricsOfAPipeline scrapes a running pipeline. All metrics must exist, and no label may
// contain data of messages.
func TestMetricsOfAPipeline(t *testing.T) {
	s := startService(t, `{stdout: {}}`)
	var posts sync.WaitGroup
	for i, k := range []string{"secretive", "skip", "secretive"} {
		if status := s.post(&posts, fmt.Sprintf(`{"k":%q,"n":%d}`, k, i)); k != "" {
			posts.Wait()
			if *status != 200 {
				t.Fatalf("got status %d", *status)
			}
		}
	}
	all := s.metricFamilies()
	for what, names := range map[string]string{
		"fates":                    "messages_received_total messages_total messages_in_flight pieces_total",
		"counts of stages":         "input_messages_total step_messages_total batcher_batches_total output_messages_total",
		"latencies":                "step_duration_seconds output_write_duration_seconds",
		"queues":                   "output_queued_messages output_queued_bytes",
		"the age of the oldest":    "oldest_unsettled_seconds oldest_waiting_seconds",
		"credits":                  "credit_messages credit_messages_max credit_bytes credit_bytes_max",
		"retries and restarts":     "step_retries_total output_retries_total input_restarts_total retrying_messages",
		"batches":                  "batcher_batch_messages batcher_batches_total",
		"the utilisation of lanes": "lanes lanes_busy",
	} {
		for name := range strings.FieldsSeq(names) {
			if f := all["flowd_"+name]; f == nil || len(f.GetMetric()) == 0 {
				t.Errorf("%s: metric flowd_%s does not exist", what, name)
			}
		}
	}
	// Labels with names from the configuration. All other values are from flowd's own lists.
	named := map[string][]string{
		"pipeline": {"p"}, "input": {"web"}, "output": {"out"}, "batcher": {"all"}, "step": {"check"},
		"place": {"processors"}, "limit": nil, "name": {"web", "out"},
	}
	for name, f := range all {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if names, ok := named[l.GetName()]; ok && !slices.Contains(names, l.GetValue()) ||
					strings.Contains(l.GetValue(), "secretive") {
					t.Errorf("%s has the label %s=%q, which is not a name in the configuration", name, l.GetName(),
						l.GetValue())
				}
			}
		}
	}
	s.Signal(syscall.SIGTERM)
	s.Wait().Want(t, 0, "3 received: 2 delivered, 1 filtered")
}

// TestHeapProfile: the heap profile has samples, and requires the token.
func TestHeapProfile(t *testing.T) {
	t.Parallel()
	s := startService(t, `{stdout: {}}`)
	token, err := os.ReadFile(filepath.Join(s.Cmd.Dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.admin+"/debug/pprof/heap?debug=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := s.getAdmin("/debug/pprof/heap"); status != http.StatusUnauthorized {
		t.Errorf("got %d without the token, want 401", status)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || !regexp.MustCompile(`^heap profile: \d+: \d+ \[[1-9]\d*: [1-9]`).Match(text) {
		t.Errorf("got %d without a profile (error %v): %.300s", res.StatusCode, err, text)
	}
}
