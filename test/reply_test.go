package test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// serveReplies runs pipelines, one of which has an http_server, and returns the process and the server's URL.
func serveReplies(t *testing.T, pipelines ...string) (*process, string) {
	t.Helper()
	dir := t.TempDir()
	var args []string
	for i, text := range pipelines {
		name := fmt.Sprintf("p%d.yaml", i)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-c", name)
	}
	p := start(t, dir, args...)
	return p, regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on"))
}

// stopProcess stops the process and waits until it exits.
func stopProcess(p *process) {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	p.Wait()
}

const ndjson = "Content-Type: application/x-ndjson"

// post sends a request and returns "STATUS CONTENT-TYPE BODY", and the headers.
func post(t *testing.T, url, body string, headers ...string) (string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return fmt.Sprintf("%d %s %s", res.StatusCode, kind, strings.TrimSpace(string(answer))), res.Header
}

func TestReplies(t *testing.T) {
	t.Parallel()
	const web = "inputs: {web: {http_server: {listen: \"127.0.0.1:0\", expose_errors: true}}}\n"
	type request struct{ body, header, want string }
	tests := []struct {
		name      string
		pipelines []string
		requests  []request
	}{
		{"the payload in capitals", []string{web + `
outputs: {out: {reply: {body: upper(raw())}}}`},
			[]request{
				{"hello", "", "200 text/plain HELLO"},
				{"5", "", "200 application/json 5"},
				{"", "", "200  "},
				{"a\nb\n7", ndjson,
					`200 application/json {"messages":[{"status":200,"fate":"delivered","reply":"A"},{"status":200,"fate":"delivered","reply":"B"},` +
						`{"status":200,"fate":"delivered","reply":7}],"status":200}`},
			}},
		{"status, headers and body", []string{web + `
outputs: {out: {reply: {status: $(code), headers: {Content-Type: text/csv, X-Id: "n$(id)"}, body: 'string(id) + ";x"'}}}`},
			[]request{
				{`{"code": 201, "id": 7}`, "", "201 text/csv 7;x"},
				{`{"code": 302, "id": 7}`, "", "302 text/csv 7;x"},
				{`{"code": 99, "id": 7}`, "",
					`422 application/json {"status":422,"fate":"returned","class":"rejected","error":"\"99\" is not a status from 200 to 599"}`},
				{`{"code": 200, "id": "a\nb"}`, "",
					`422 application/json {"status":422,"fate":"returned","class":"rejected","error":"header X-Id: the value has control characters"}`},
				{`{"code": 201, "id": 1}` + "\n" + `{"code": 404, "id": 2}`, ndjson,
					`404 application/json {"messages":[{"status":201,"fate":"delivered","reply":"1;x"},{"status":404,"fate":"delivered",` +
						`"reply":"2;x"}],"status":404}`},
			}},
		{"parts are returned as a list", []string{web + `
processors: [split: items]
outputs: {out: {reply: {}}}
engine: {workers: 1}`},
			[]request{
				{`{"items": [1, "two", {"x": 3}]}`, "", `200 application/json [1,"two",{"x": 3}]`},
				{`{"items": [1]}`, "", `200 application/json [1]`},
				{`{"items": []}`, "", `200  `},
			}},
		{"a merged message answers the first one", []string{web + `
processors: [split: this]
batchers: {all: {batch: {size: 2, timeout: 20ms}, key: 1, processors: [archive: lines], output: out}}
outputs: {out: {reply: {}}}
engine: {workers: 1}`},
			[]request{{`["a", "b"]`, "", "200 text/plain a\nb"}}},
		{"a filtered message has no reply", []string{web + `
processors: [filter: keep]
outputs: {out: {reply: {body: '"kept"'}}}`},
			[]request{{`{"keep": false}`, "", "200  "}, {`{"keep": true}`, "", "200 text/plain kept"}}},
		{"a failure in another output is not reported as success", []string{web + `
batchers: {all: {output: [answer, file]}}
outputs:
  answer: {reply: {body: '"done"'}}
  file: {drop: {}, processors: [{fail: no, when: bad}]}`},
			[]request{
				{`{"bad": true}`, "",
					`422 application/json {"status":422,"fate":"returned","class":"permanent","error":"no"}`},
				{`{"bad": false}`, "", "200 text/plain done"},
			}},
		{"a dead letter answers failures", []string{web + `
processors: [set: {n: n + 1}]
outputs:
  out: {reply: {}}
  sorry: {reply: {status: 422, body: '{"problem": error().class}'}}
  plain: {drop: {}}
engine: {on_failure: {dead_letter: sorry}}
batchers: {all: {output: [out, plain]}}`},
			[]request{
				{`{"n": 1}`, "", `200 application/json {"n": 2}`},
				{`{"n": "x"}`, "", `422 application/json {"problem":"expression"}`},
				{`{"n": 1}` + "\n" + `nope`, ndjson,
					`422 application/json {"messages":[{"status":200,"fate":"delivered","reply":{"n":2}},{"status":422,"fate":"dead_lettered",` +
						`"class":"decode",`},
			}},
		{"a fallback answers", []string{web + `
outputs:
  out: {fallback: [down, answer]}
  down: {http: "http://127.0.0.1:9/", retry: {max_attempts: 1}}
  answer: {reply: {status: 503, body: 'error().output + " is down"'}}`},
			[]request{{"x", "", "503 text/plain down is down"}}},
		{"after a pipe", []string{
			web + "outputs: {on: {pipe: work}}",
			"inputs: {work: {pipe: work}}\noutputs: {out: {reply: {status: 202, body: upper(raw())}}}",
		},
			[]request{{"hello", "", "202 text/plain HELLO"}, {"a\nb", ndjson,
				`202 application/json {"messages":[{"status":202,"fate":"delivered","reply":"A"},{"status":202,"fate":"delivered","reply":"B"}],` +
					`"status":202}`}}},
		{"split before a pipe", []string{
			web + "processors: [split: this]\noutputs: {on: {pipe: work}}\nengine: {workers: 1}",
			"inputs: {work: {pipe: work}}\noutputs: {out: {reply: {}}}\nengine: {workers: 1}",
		},
			[]request{{"[1,2,3]", "", "200 application/json [1,2,3]"}}},
		{"a message of another input has no request", []string{`
inputs:
  web: {http_server: {listen: "127.0.0.1:0", expose_errors: true}}
  other: {generate: {count: 1, body: '"x"'}}
outputs: {out: {reply: {}}}`},
			[]request{{"y", "", "200 text/plain y"}}},
		{"metadata of a client is not a handle", []string{`
inputs: {web: {http_server: {listen: "127.0.0.1:0", expose_errors: true, framing: messages}}}
outputs: {out: {reply: {body: '{"is": raw(), "note": meta("note"), "index": meta("http_record"), "tied": meta("http_request") != "stolen"}'}}}`},
			[]request{{`{"payload":"a","meta":{"http_request":"stolen","http_record":7,"note":"n"}}` + "\n" +
				`{"payload":"b"}`, "http_request: stolen",
				`200 application/json {"messages":[{"status":200,"fate":"delivered","reply":{"index":0,"is":"a","note":"n","tied":true}},` +
					`{"status":200,"fate":"delivered","reply":{"index":1,"is":"b","note":null,"tied":true}}],"status":200}`}}},
		{"metadata set by a step is not a handle", []string{web + `
processors: [meta: {http_record: 0}]
outputs: {out: {reply: {}}}`},
			[]request{{"x", "",
				`422 application/json {"status":422,"fate":"returned","class":"permanent","error":"there is no request to answer`}}},
		{"the input's own reply", []string{`
inputs: {web: {http_server: {listen: "127.0.0.1:0", expose_errors: true, reply: '{"got": id}'}}}
processors: [filter: id > 0, set: {id: "id / (id - 5)"}]
outputs: {out: {drop: {}}}`},
			[]request{
				{`{"id": 1}`, "", `200 application/json {"got":1}`},
				{`{"id": -1}`, "", `200 application/json {"got":-1}`},
				{"{\"id\": 1}\n{\"id\": 2}", ndjson,
					`200 application/json {"messages":[{"status":200,"fate":"delivered","reply":{"got":1}},{"status":200,"fate":"delivered",` +
						`"reply":{"got":2}}],"status":200}`},
				{`nope`, "", `400 application/json {"status":400,"fate":"returned","class":"decode"`},
				{`{"id": 5}`, "", `422 application/json {"status":422,"fate":"returned","class":"expression"`},
			}},
		{"an output's reply comes before the input's", []string{`
inputs: {web: {http_server: {listen: "127.0.0.1:0", expose_errors: true, reply: '"received"'}}}
batchers: {a: {match: ask, output: answer}, b: {output: none}}
outputs: {answer: {reply: {body: '"answered"'}}, none: {drop: {}}}`},
			[]request{{`{"ask": true}`, "", "200 text/plain answered"},
				{`{"ask": false}`, "", "200 text/plain received"}}},
		{"an early acknowledgement", []string{`
inputs: {web: {http_server: {listen: "127.0.0.1:0", expose_errors: true, early_ack: true, reply: '"got " + raw()'}}}
processors: [fail: '"later"']
outputs: {out: {drop: {}}}`},
			[]request{{"x", "", "202 text/plain got x"}, {"a\nb", ndjson,
				`202 application/json {"messages":[{"status":202,"fate":"accepted","reply":"got a"},{"status":202,"fate":"accepted","reply":"got ` +
					`b"}],"status":202}`}}},
		{"a reply that is too long", []string{`
inputs: {web: {http_server: {listen: "127.0.0.1:0", expose_errors: true, max_replies: 1KiB}}}
outputs: {out: {reply: {body: "repeat(raw(), 600)"}}}`},
			[]request{{"xx", "",
				`422 application/json {"status":422,"fate":"returned","class":"rejected","error":"the replies to this request are longer than ` +
					`max_replies`}, {"x", "", "200 text/plain " + strings.Repeat("x", 600)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, url := serveReplies(t, tt.pipelines...)
			for _, r := range tt.requests {
				var headers []string
				if r.header != "" {
					headers = []string{r.header}
				}
				if got, _ := post(t, url, r.body, headers...); got != r.want &&
					!(strings.Contains(r.want, "{") && strings.HasPrefix(got, r.want)) {
					t.Errorf("%s:\ngot  %s\nwant %s", r.body, got, r.want)
				}
			}
			stopProcess(p)
		})
	}
}

// TestTheReplyExample runs the example on another port.
func TestTheReplyExample(t *testing.T) {
	p := start(t, t.TempDir(), "-c", filepath.Join(repo, "examples", "http_reply.yaml"), "-s",
		"inputs.web.http_server.listen=127.0.0.1:0")
	url := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on"))
	if got, h := post(t, url, `{"text": "hello"}`); got != `200 application/json {"text": "HELLO"}` ||
		h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %s, %v", got, h)
	}
	if got, _ := post(t, url, `{}`); !strings.HasPrefix(got, `422 application/json {"problem":"expression"}`) {
		t.Errorf("got %s", got)
	}
	stopProcess(p)
}

// TestManyClientsGetTheirOwnReplies sends requests through batches, two pipelines and a fallback.
func TestManyClientsGetTheirOwnReplies(t *testing.T) {
	t.Parallel()
	p, url := serveReplies(t, `
inputs: {web: {http_server: {listen: "127.0.0.1:0"}}}
batchers: {all: {batch: {size: 10, timeout: 5ms}, output: on}}
outputs: {on: {pipe: work}}`, `
inputs: {work: {pipe: work}}
batchers: {all: {batch: {size: 7, timeout: 5ms}, output: some}}
outputs:
  some: {fallback: [picky, answer]}
  picky: {http: "http://127.0.0.1:9/$(odd ? '' : nil)", retry: {max_attempts: 1}}
  answer: {reply: {body: n * 2}}`)
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for i := range 20 {
				n := c*1000 + i
				want := fmt.Sprintf("200 application/json %d", 2*n)
				if got, _ := post(t, url, fmt.Sprintf(`{"n": %d, "odd": %t}`, n, n%2 == 1)); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	clients.Wait()
	stopProcess(p)
}

// TestALateReplyIsDropped: the clients have received 504. Late replies must not add up to more
// than max_replies.
func TestALateReplyIsDropped(t *testing.T) {
	p, url := serveReplies(t, `
inputs: {web: {http_server: {listen: "127.0.0.1:0", timeout: 100ms, max_replies: 1KiB}}}
processors: [sleep: 300ms]
outputs: {out: {reply: {body: "repeat(raw(), 500)"}}}
engine: {workers: 1}`)
	for range 4 { // more than max_replies would hold
		if got, _ := post(t, url, "x"); !strings.HasPrefix(got, "504 ") {
			t.Errorf("got %s", got)
		}
	}
	p.Signal(syscall.SIGTERM)
	p.Wait()
	if text := p.Stderr.Text(); !strings.Contains(text, "4 received: 4 delivered") {
		t.Error(text)
	}
}
