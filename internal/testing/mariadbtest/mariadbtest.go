// Package mariadbtest gives tests a real MariaDB: see [Database].
package mariadbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/debian"
	"github.com/go-sql-driver/mysql"
)

// Variable names a MariaDB or MySQL to use instead of a private one, as the DSN of a user who may create databases:
// root:secret@tcp(127.0.0.1:3306)/.
const Variable = "FLOWD_TEST_MARIADB"

const (
	program = "/usr/sbin/mariadbd"
	install = "/usr/bin/mariadb-install-db"
)

var (
	once  sync.Once
	root  *mysql.Config
	errNo error // why there is none
	named atomic.Int64
)

// Database is a fresh database of the shared server, as a DSN; it is dropped at the end of the test. The server is the
// one that the environment names, else one that is started with the first call and ends with the go command that runs the
// tests: see [daemon.Share]. Where Debian's package is not installed, root installs it; else the test is skipped, which
// stderr says, too.
func Database(t testing.TB) string {
	t.Helper()
	once.Do(func() { root, errNo = find() })
	if errNo != nil {
		why := fmt.Sprintf("no MariaDB to test with: %v (set %s=user:password@tcp(host:3306)/, or install mariadb-server)",
			errNo, Variable)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	own := root.Clone()
	own.DBName = fmt.Sprintf("flowd_%d_%d", os.Getpid(), named.Add(1))
	Exec(t, root.FormatDSN(), "CREATE DATABASE "+own.DBName)
	t.Cleanup(func() { Exec(t, root.FormatDSN(), "DROP DATABASE "+own.DBName) })
	return own.FormatDSN()
}

// Exec runs statements, and gives the first column of the last one's rows, one a line.
func Exec(t testing.TB, dsn string, statements ...string) string {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Starting)
	defer cancel()
	var lines []string
	for _, s := range statements {
		if lines, err = run(ctx, db, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return strings.Join(lines, "\n")
}

func run(ctx context.Context, db *sql.DB, statement string) (lines []string, err error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var line sql.NullString
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		lines = append(lines, line.String)
	}
	return lines, rows.Err()
}

func find() (*mysql.Config, error) {
	if dsn := os.Getenv(Variable); dsn != "" {
		return mysql.ParseDSN(dsn)
	}
	address, err := daemon.Share("mariadb", start, func(address string) string { return address })
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.Timeout = "root", "tcp", address, 10*time.Second
	return cfg, nil
}

// start makes a data directory and starts a server on a free port.
func start(keep daemon.Keep) (address string, err error) {
	if err := debian.Install("mariadb-server", program); err != nil {
		return "", err
	}
	home, err := daemon.Home("mariadb", true)
	if err != nil {
		return "", err
	}
	ports, err := daemon.Ports(1)
	if err != nil {
		return "", err
	}
	address = net.JoinHostPort("127.0.0.1", ports[0])
	settings := []string{"--no-defaults", "--datadir=" + filepath.Join(home, "data")}
	if os.Geteuid() == 0 {
		settings = append(settings, "--user=nobody")
	}
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Starting)
	defer cancel()
	made := exec.CommandContext(ctx, install, append(settings, "--auth-root-authentication-method=normal",
		"--skip-test-db")...)
	if said, err := made.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", install, err, said)
	}
	_, err = daemon.Start(daemon.Server{
		Command: append([]string{program}, append(settings, "--bind-address=127.0.0.1", "--port="+ports[0],
			"--socket="+filepath.Join(home, "socket"), "--pid-file="+filepath.Join(home, "pid"), "--skip-name-resolve",
			"--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb4")...),
		Home: home, Address: address, Keep: keep,
	})
	return address, err
}
