// Package clickhousetest gives tests a real ClickHouse: see [Database].
package clickhousetest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/debian"
)

// Variable names a ClickHouse to use instead of a private one, as the URL of a user who may create databases:
// http://default:secret@127.0.0.1:8123.
const Variable = "FLOWD_TEST_CLICKHOUSE"

const program = "/usr/sbin/clickhouse-server"

var (
	once   sync.Once
	server *url.URL
	errNo  error // why there is none
	named  atomic.Int64
)

// Shared is the URL of the server that all tests share: the one that the environment names, else one that is started with
// the first call and ends with the go command that runs the tests: see [daemon.Share]. Where Debian's package is not
// installed, root installs it; else the test is skipped, which stderr says, too.
func Shared(t testing.TB) string {
	t.Helper()
	once.Do(func() { server, errNo = find() })
	given(t, errNo)
	return server.String()
}

// Database is a fresh database of the shared server, as a URL; it is dropped at the end of the test.
func Database(t testing.TB) string {
	t.Helper()
	all := Shared(t)
	own := *server
	own.Path = fmt.Sprintf("/flowd_%d_%d", os.Getpid(), named.Add(1))
	Exec(t, all, "CREATE DATABASE "+own.Path[1:])
	t.Cleanup(func() { Exec(t, all, "DROP DATABASE "+own.Path[1:]) })
	return own.String()
}

func given(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		why := fmt.Sprintf("no ClickHouse to test with: %v (set %s=http://user:password@host:8123, or install "+
			"clickhouse-server)", err, Variable)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
}

// Exec runs statements, and gives what the last one says.
func Exec(t testing.TB, dsn string, statements ...string) string {
	t.Helper()
	var said string
	for _, s := range statements {
		var err error
		if said, err = ask(dsn, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return strings.TrimSpace(said)
}

func ask(dsn, statement string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Starting)
	defer cancel()
	at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	if name := strings.Trim(u.Path, "/"); name != "" {
		at.RawQuery = url.Values{"database": {name}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	password, _ := u.User.Password()
	req.SetBasicAuth(u.User.Username(), password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return string(text), err
}

func find() (*url.URL, error) {
	text := os.Getenv(Variable)
	if text == "" {
		s, err := daemon.Share("clickhouse", share, func(s *Server) string { return s.Address })
		if err != nil {
			return nil, err
		}
		text = s.URL()
	}
	u, err := url.Parse(text)
	if err != nil || !strings.HasPrefix(u.Scheme, "http") || u.User == nil {
		return nil, fmt.Errorf("%s is not a URL http://user:password@host:8123", Variable)
	}
	return u, nil
}

// Server is one that a test binary has started.
type Server struct {
	Address string // HOST:PORT of HTTP
	Secure  string // HOST:PORT of HTTPS, if a certificate was given

	dir     string // its configuration and data
	below   []string
	process *daemon.Process
}

// URL is the server's, with the user who may do all. There is another who may only read and not change settings: reader,
// with the same password.
func (s *Server) URL() string { return "http://default:secret@" + s.Address }

// Settings are those of a private server.
type Settings struct {
	Cert, Key string // a certificate as PEM, for HTTPS
	below     []string
}

// Own is a private server of this test alone, which [Server.Stop] and [Server.Start] are for.
func Own(t testing.TB, settings Settings) *Server {
	t.Helper()
	dir, err := daemon.Home("clickhouse-data", true)
	given(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := prepare(dir, settings)
	given(t, err)
	given(t, s.run(daemon.Keep{}, ""))
	t.Cleanup(func() { s.process.End() })
	return s
}

// Cramped is [Own] whose disk has room for 8 MiB. It is mounted for the server alone, which takes root: where that is
// refused, the test is skipped.
func Cramped(t testing.TB) *Server {
	t.Helper()
	const mounted = `mkdir -p "$0" && mount -t tmpfs -o size=8m,uid=65534,gid=65534,mode=0700 tmpfs "$0" && ` +
		`exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`
	return Own(t, Settings{below: []string{"unshare", "--mount", "sh", "-c", mounted}})
}

// Stop kills the server.
func (s *Server) Stop() { s.process.End() }

// Start starts it again, on the same port, with its data.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.run(daemon.Keep{}, ""); err != nil {
		t.Fatal(err)
	}
}

func share(keep daemon.Keep) (*Server, error) {
	home, err := daemon.Home("clickhouse", true)
	if err != nil {
		return nil, err
	}
	s, err := prepare(home, Settings{})
	if err != nil {
		return nil, err
	}
	return s, s.run(keep, home)
}

// prepare writes the configuration of a server with free ports.
func prepare(dir string, settings Settings) (*Server, error) {
	if err := debian.Install("clickhouse-server", program); err != nil {
		return nil, err
	}
	ports, err := daemon.Ports(2)
	if err != nil {
		return nil, err
	}
	s := &Server{Address: net.JoinHostPort("127.0.0.1", ports[0]), dir: dir, below: settings.below}
	secure := ""
	if settings.Cert != "" {
		s.Secure = net.JoinHostPort("127.0.0.1", ports[1])
		secure = fmt.Sprintf("<https_port>%s</https_port><openSSL><server><certificateFile>%[2]s/cert.pem</certificateFile>"+
			"<privateKeyFile>%[2]s/key.pem</privateKeyFile></server></openSSL>", ports[1], dir)
	}
	const user = "<password>secret</password><networks><ip>::/0</ip></networks><quota>default</quota>"
	files := map[string]string{
		"config.xml": fmt.Sprintf(`<yandex><logger><level>warning</level><console>1</console></logger>
<listen_host>127.0.0.1</listen_host><http_port>%s</http_port>%s<path>%[3]s/data/</path><tmp_path>%[3]s/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><timezone>UTC</timezone>
<default_database>default</default_database><mark_cache_size>10000000</mark_cache_size></yandex>`, ports[0], secure, dir),
		"users.xml": `<yandex><profiles><default/><reader><readonly>1</readonly></reader></profiles><users>
<default><profile>default</profile>` + user + `</default><reader><profile>reader</profile>` + user + `</reader></users>
<quotas><default/></quotas></yandex>`,
		"cert.pem": settings.Cert, "key.pem": settings.Key,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // its reader is someone else
			return nil, err
		}
	}
	return s, nil
}

// run starts the server; home is where it runs, "" is a new directory.
func (s *Server) run(keep daemon.Keep, home string) (err error) {
	if home == "" {
		if home, err = daemon.Home("clickhouse", true); err != nil {
			return err
		}
	}
	command := []string{program, "--config-file=" + filepath.Join(s.dir, "config.xml")}
	if s.below != nil {
		command = append(append(s.below, filepath.Join(s.dir, "data")), command...)
	}
	s.process, err = daemon.Start(daemon.Server{
		Command: command, Home: home, Address: cmp.Or(s.Secure, s.Address), Keep: keep, Nobody: s.below == nil,
	})
	return err
}
