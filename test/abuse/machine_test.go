package abuse

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/test/flowdtest"
)

var machine = []attack{
	{"two outputs write to more files than there are file descriptors", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml",
			"inputs: {in: {stdin: {}}}\nbatchers: {a: {match: 'k % 2 == 0', output: a}, b: {output: b}}\noutputs: {a: {file: 'a/$(k)'}, b: "+
				"{file: 'b/$(k)'}}\n")
		var lines strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&lines, "{\"k\":%d}\n", i%200)
		}
		flowdtest.Command(t, dir, lines.String(), "sh", "-c",
			"ulimit -n 64; exec "+flowdtest.Binary+" -c p.yaml").Want(t, 0, "2,000 delivered")
		files, _ := filepath.Glob(filepath.Join(dir, "[ab]", "*"))
		written := 0
		for _, f := range files {
			written += strings.Count(flowdtest.Read(t, f), "\n")
		}
		if len(files) != 200 || written != 2000 {
			t.Errorf("got %d files with %d lines, want 200 files with 2000 lines", len(files), written)
		}
	}},
	{"connections use up all file descriptors", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml",
			"inputs: {in: {http_server: {listen: '127.0.0.1:0'}}}\noutputs: {out: {file: 'out/$(k)'}}\n")
		p := flowdtest.StartAs(t, dir, "sh", "-c", "ulimit -n 48; exec "+flowdtest.Binary+" -c p.yaml")
		url := regexp.MustCompile(`http://[^\s"]+`).FindString(p.Says("listening on"))
		host := strings.TrimPrefix(url, "http://")
		host, _, _ = strings.Cut(host, "/")
		var conns []net.Conn
		for range 100 { // the backlog holds connections that are not accepted
			c, err := net.Dial("tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			c.Close()
		}
		for i := range 20 { // each message goes to another file: more than flowd can keep open
			res, err := http.Post(url, "application/json", strings.NewReader(fmt.Sprintf(`{"k":"%d"}`, i)))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("request %d after the flood: %s", i, res.Status)
			}
		}
		p.Signal(os.Interrupt)
		p.Wait().Want(t, 0, "20 delivered")
	}},
	{"a full disk", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml",
			"inputs: {in: {stdin: {}}}\noutputs: {out: {file: /dev/full, retry: {max_age: 500ms}}}\n")
		flowdtest.Run(t, dir, "a\n", "-c", "p.yaml").Want(t, 1, "/dev/full: no space left on device")
	}},
	{"a path that can't be written", func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "p.yaml", "inputs: {in: {stdin: {}}}\noutputs: {out: {file: '/proc/flowd/$(k)'}}\n")
		flowdtest.Run(t, dir, "", "-c", "p.yaml").Want(t, 1, "/proc/flowd")
	}},
	{"a checkpoint with a flipped bit", damaged("checkpoint", "is damaged", func(text []byte) []byte {
		at := bytes.Index(text, []byte(`"offset":`)) + len(`"offset":`)
		text[at] ^= 1
		return text
	})},
	{"a truncated checkpoint", damaged("checkpoint", "is damaged",
		func(text []byte) []byte { return text[:bytes.IndexByte(text, '\n')] })},
	{"a cache with a flipped bit", damaged("cache", "is damaged", func(text []byte) []byte {
		text[bytes.LastIndex(text, []byte("abuse-key"))] ^= 1
		return text
	})},
	{"a truncated cache", damaged("cache", "is damaged",
		func(text []byte) []byte { return text[:len(text)/2] })},
}

// damaged runs a pipeline with a checkpoint and a cache twice, and damages one of the two
// files in between. flowd must name the file and a remedy, and must not process any message.
func damaged(name, why string, damage func([]byte) []byte) func(*testing.T) {
	return func(t *testing.T) {
		dir := t.TempDir()
		flowdtest.Write(t, dir, "in.log", "{\"id\":\"abuse-key\"}\n")
		flowdtest.Write(t, dir, "p.yaml",
			"inputs: {in: {file: {path: in.log, checkpoint: state/checkpoint}}}\nprocessors: [{dedupe: {key: id, window: 24h, cache: "+
				"seen}}]\noutputs: {out: {stdout: {}}}\nresources: {caches: {seen: {file: {path: state/cache}}}}\n")
		flowdtest.Run(t, dir, "", "-c", "p.yaml").Want(t, 0, "1 delivered")
		file := filepath.Join(dir, "state", name)
		text := damage([]byte(flowdtest.Read(t, file)))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r := flowdtest.Run(t, dir, "", "-c", "p.yaml")
		r.Want(t, 1, "state/"+name, why, "remove it")
		if r.Stdout != "" {
			t.Errorf("with a damaged %s, it delivers %q", name, r.Stdout)
		}
	}
}
