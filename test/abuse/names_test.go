package abuse

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/test/flowdtest"
)

var names = []attack{
	{"a path that begins with ..", outputRejects("../../x", "leads out of its folder")},
	{"a path with .. in the middle", outputRejects("a/../../x", "leads out of its folder")},
	{"an absolute path", outputRejects("/tmp/x", "is absolute")},
	{"a path with a NUL", outputRejects(`a\u0000b`, "control character")},
	{"a path with an escape sequence", outputRejects(`a\u001b[2J`, "control character")},
	{"a path with a C1 control character", outputRejects(`a\u009b2J`, "control character")},
	{"a path with a Unicode line separator", outputRejects(`a\u2028b`, "control character")},
	{"a path with a right-to-left override", outputRejects(`gpj.\u202egnp.exe`, "control character")},
	{"a path that ends with a slash", outputRejects("a/", "no file name")},
	{"a name of 5,000 bytes", outputRejects(strings.Repeat("x", 5000), "name too long")},
	{"a path through a symbolic link to another directory", outputRejects("link/x", "path escapes")},
	{"a path that is a symbolic link to another file", outputRejects("passwd", "path escapes")},
	{"a path of 2,001 folders", outputRejects(strings.Repeat("a/", 2001)+"x", "2001 folders")},
	{"a templated path without a folder", lintRejectsPath("$(k)", "must not choose the folder")},
	{"a templated path in the directory of the pipeline", lintRejectsPath("./$(k)", "p.yaml")},
	{"a templated extension of the pipeline's name", lintRejectsPath("./p.$(k)", "p.yaml")},
	{"a templated path in the directory of a secret", lintRejectsPath("secrets/$(k)", "secrets/token")},
	{"a templated path in the directory of a schema", lintRejectsPath("schemas/$(k)", "schemas/s.json")},
	{"a templated path in the directory of a program", lintRejectsPath("bin/$(k)", "bin/run")},
	{"a templated path in the directory of client CAs", lintRejectsPath("trust/$(k)", "trust/clients.pem")},
	{"a templated path below a link to the pipeline's directory", lintRejectsPath("alias/$(k)", "p.yaml")},
	{"a templated path from the root", lintRejectsPath("/$(k)", "p.yaml")},
	{"a message that becomes a pipeline", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "conf/p.yaml",
			"inputs: {in: {stdin: {}}}\noutputs: {out: {file: {path: 'conf/$(k)'}}}\n")
		r := flowdtest.Run(t, dir, `{"k":"q.yaml"}`+"\n", "-c", "conf", "--watch")
		r.Want(t, 2, "conf/", "reads its configuration")
		if _, err := os.Stat(filepath.Join(dir, "conf", "q.yaml")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the message was written to conf/q.yaml: %v", err)
		}
	}},
	{"a URL with another host, path or query", func(t *testing.T) {
		asked := requestsMade(t, `{http: {url: "URL/in/$(k)"}}`, "fine", "../admin", "x?admin=1", "x#y", "x&admin=1",
			`x\\y`, "@evil/", "//evil/", "%2e%2e/admin")
		for _, r := range asked {
			if !strings.HasPrefix(r.URL.Path, "/in/") || r.URL.RawQuery != "" || strings.Contains(r.URL.Path, "..") ||
				strings.HasPrefix(r.Host, "evil") {
				t.Errorf("a message changed the request to %s%s", r.Host, r.URL)
			}
		}
		if !slices.ContainsFunc(asked, func(r *http.Request) bool { return r.URL.Path == "/in/fine" }) {
			t.Error("the harmless message was not sent")
		}
	}},
	{"a header with a line break", func(t *testing.T) {
		for _, r := range requestsMade(t, `{http: {url: "URL/", headers: {X-K: "$(k)"}}}`, "fine", `a\r\nX-Admin: 1`,
			`a\nX-Admin: 1`, `a\u0000`) {
			if r.Header.Get("X-Admin") != "" || r.Header.Get("X-K") != "fine" {
				t.Errorf("a message changed the headers to %v", r.Header)
			}
		}
	}},
}

// outputRejects writes a message whose path is made of k, after a harmless one. flowd must
// reject it with the reason why, and must not create files elsewhere.
func outputRejects(k, why string) func(*testing.T) {
	return func(t *testing.T) {
		dir := t.TempDir()
		work := filepath.Join(dir, "work")
		flowdtest.Write(t, dir, "outside/f", "")
		flowdtest.Write(t, work, "p.yaml", "inputs: {in: {stdin: {}}}\noutputs: {out: {file: 'data/$(k)'}}\n")
		if err := errors.Join(os.Mkdir(filepath.Join(work, "data"), 0o700),
			os.Symlink("../../outside", filepath.Join(work, "data", "link")),
			os.Symlink("../../outside/f", filepath.Join(work, "data", "passwd"))); err != nil {
			t.Fatal(err)
		}
		flowdtest.Run(t, work, fmt.Sprintf("{\"k\":\"fine\"}\n{\"k\":\"%s\"}\n", k), "-c", "p.yaml").Want(t, 1,
			"rejected", why)
		var found []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if rel, _ := filepath.Rel(dir, path); !d.IsDir() || strings.HasPrefix(rel, "work/data/") {
				found = append(found, rel)
			}
			return err
		})
		if want := []string{"outside/f", "work/data/fine", "work/data/link", "work/data/passwd",
			"work/p.yaml"}; err != nil || !slices.Equal(found, want) {
			t.Errorf("found the files %q (error %v), want %q", found, err, want)
		}
		if got := flowdtest.Read(t, dir, "outside", "f"); got != "" {
			t.Errorf("the file outside of the directory has the content %q", got)
		}
	}
}

// lintRejectsPath lints an output with a templated path that could overwrite another file. The
// error must contain part.
func lintRejectsPath(path, part string) func(*testing.T) {
	return func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "secrets/token", "t")
		flowdtest.Write(t, dir, "schemas/s.json", "{}")
		flowdtest.Write(t, dir, "bin/run", "#!/bin/sh\ncat\n")
		if err := os.Symlink(".", filepath.Join(dir, "alias")); err != nil {
			t.Fatal(err)
		}
		flowdtest.Write(t, dir, "p.yaml",
			"inputs: {in: {http_server: {listen: '127.0.0.1:0', tls: {cert: tls/cert, key: tls/key, client_ca: "+
				"trust/clients.pem}}}}\nprocessors: [{validate: {file: schemas/s.json}}, {set: {a: '\"${file:secrets/token}\"'}}, {exec: {command: "+
				"./bin/run}}]\noutputs: {out: {file: {path: \""+path+"\"}}}\n")
		lints(t, dir, 2, []string{"p.yaml"}, "p.yaml:3:", part)
	}
}

// requestsMade returns the requests that an output makes for messages with the field k. In
// output, URL stands for the URL of the server.
func requestsMade(t *testing.T, output string, ks ...string) []*http.Request {
	t.Helper()
	var mu sync.Mutex
	var all []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r)
	}))
	defer server.Close()
	dir := t.TempDir()
	flowdtest.Write(t, dir, "p.yaml", "inputs: {in: {stdin: {}}}\noutputs: {out: "+strings.ReplaceAll(output, "URL",
		server.URL)+"}\n")
	var lines strings.Builder
	for _, k := range ks {
		fmt.Fprintf(&lines, "{\"k\":\"%s\"}\n", k)
	}
	flowdtest.Run(t, dir, lines.String(), "-c", "p.yaml").Want(t, 1, "rejected")
	mu.Lock()
	defer mu.Unlock()
	return all
}
