package tlsconf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// pause is how often files are checked, at most.
const pause = time.Second

// watched is what files hold, read again when a handshake finds that they have changed.
// What can't be used does not take the place of what can.
type watched[T any] struct {
	files []string
	read  func() (T, error)
	what  string       // for the log
	log   *slog.Logger // nil: nothing is logged

	mu     sync.Mutex // guards the fields below
	value  T
	seen   []os.FileInfo
	looked time.Time
	err    error // why the files as they are can't be used; nil: they are in use
}

// watch reads files for the first time.
func watch[T any](what string, log *slog.Logger, read func() (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, read: read, what: what, log: log, seen: stats(files), looked: time.Now()}
	var err error
	w.value, err = read()
	return w, err
}

// now is what the files hold, and why it is not what they hold at present.
func (w *watched[T]) now() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.looked) < pause {
		return w.value, w.err
	}
	w.looked = now
	seen := stats(w.files)
	if w.err == nil && slices.EqualFunc(seen, w.seen, same) {
		return w.value, nil
	}
	value, err := w.read()
	if w.seen = seen; err == nil {
		w.value = value
		w.tell(slog.LevelInfo, w.what+" was read again")
	} else if w.err == nil || w.err.Error() != err.Error() {
		w.tell(slog.LevelError, w.what+" has changed and can't be used: the previous one stays in use", "err", err)
	}
	w.err = err
	return w.value, err
}

func (w *watched[T]) tell(level slog.Level, text string, attrs ...any) {
	if w.log != nil {
		w.log.Log(context.Background(), level, text, append(attrs, "file", w.files[0])...)
	}
}

// stats are the files as they are; nil is one that is not there.
func stats(files []string) []os.FileInfo {
	all := make([]os.FileInfo, len(files))
	for i, f := range files {
		all[i], _ = os.Stat(f) // through links: Kubernetes exchanges those
	}
	return all
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// inForce is a pair that others may be shown at a time.
func inForce(pair *tls.Certificate, at time.Time) error {
	switch leaf := pair.Leaf; {
	case at.After(leaf.NotAfter):
		return fmt.Errorf("the certificate has expired at %s", leaf.NotAfter.UTC().Format(time.DateTime))
	case at.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", leaf.NotBefore.UTC().Format(time.DateTime))
	}
	return nil
}

// verified reports whether a client's certificates lead to one of those in pool.
func verified(peer []*x509.Certificate, pool *x509.CertPool) error {
	if len(peer) == 0 {
		return errors.New("the client presents no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range peer[1:] {
		between.AddCert(c)
	}
	_, err := peer[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: peer, Err: err}
	}
	return nil
}
