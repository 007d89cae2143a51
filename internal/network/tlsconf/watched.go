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

// pause is the minimum time between checks of files.
const pause = time.Second

// watched holds the content of files, and reads them again when a handshake finds that they have changed. Unusable
// content does not replace usable content.
type watched[T any] struct {
	files []string
	read  func() (T, error)
	what  string       // for the log
	log   *slog.Logger // nil: no log

	mu     sync.Mutex // guards the fields below
	value  T
	seen   []os.FileInfo
	looked time.Time
	err    error // why the current files can't be used; nil: they are in use
}

// watch reads the files for the first time.
func watch[T any](what string, log *slog.Logger, read func() (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, read: read, what: what, log: log, seen: stats(files), looked: time.Now()}
	var err error
	w.value, err = read()
	return w, err
}

// now returns the content in use, and the error of newer files that can't be used.
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
		w.logChange(slog.LevelInfo, w.what+" was read again")
	} else if w.err == nil || w.err.Error() != err.Error() {
		w.logChange(slog.LevelError, w.what+" has changed and can't be used: the previous one stays in use", "err", err)
	}
	w.err = err
	return w.value, err
}

func (w *watched[T]) logChange(level slog.Level, text string, attrs ...any) {
	if w.log != nil {
		w.log.Log(context.Background(), level, text, append(attrs, "file", w.files[0])...)
	}
}

// stats returns the current file infos; nil for a missing file.
func stats(files []string) []os.FileInfo {
	all := make([]os.FileInfo, len(files))
	for i, f := range files {
		all[i], _ = os.Stat(f) // follows links: Kubernetes replaces those
	}
	return all
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// inForce returns an error if a pair is not valid at a time.
func inForce(pair *tls.Certificate, at time.Time) error {
	switch leaf := pair.Leaf; {
	case at.After(leaf.NotAfter):
		return fmt.Errorf("the certificate has expired at %s", leaf.NotAfter.UTC().Format(time.DateTime))
	case at.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s", leaf.NotBefore.UTC().Format(time.DateTime))
	}
	return nil
}

// verified checks that a client's certificates lead to one in pool.
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
