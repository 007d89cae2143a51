package service

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// token authorizes requests that change something or see data.
type token struct {
	text string
	file string
}

// minToken is the minimum length of a token. Tokens that flowd creates have 43 characters, which are 256 random bits.
const minToken = 32

// shown reports whether a request has the token, in constant time. No request has a token that is empty.
func (t token) shown(r *http.Request) bool {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(t.text))
	return t.text != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// serverToken reads the token from its file, or creates the file.
func serverToken(file string, at net.Addr) (token, error) {
	if file == "" {
		places := tokenPlaces(port(at.String()))
		if len(places) == 0 {
			return token{},
				errors.New("there is no directory for the token: neither XDG_RUNTIME_DIR nor HOME is set (set service.token_file)")
		}
		file = places[0]
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return token{}, fmt.Errorf("service.token_file: %w (set it to a file in a directory that can be written)",
				err)
		}
	}
	err := createToken(file)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return token{}, fmt.Errorf("service.token_file: %w (set it to a file that exists or can be created)", err)
	}
	t, err := readToken(file, ownedByUs)
	if err != nil {
		return token{}, fmt.Errorf("service.token_file: %w", err)
	}
	return t, nil
}

// tokenPlaces returns the files where a listener's token may be, unless one is configured. It is created in the first
// one. Names contain only the port, so that localhost finds the token of 127.0.0.1.
func tokenPlaces(port string) []string {
	var places []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		places = append(places, filepath.Join(dir, "flowd", "token-"+port))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		places = append(places, filepath.Join(dir, "flowd", "token-"+port))
	}
	return places
}

// unitDir is where the flowd of the systemd unit creates its tokens. They belong to the user of the unit.
var unitDir = "/run/flowd"

func createToken(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	_, err = f.WriteString(base64.RawURLEncoding.EncodeToString(random[:]) + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// readToken reads a file that no other user can read and whose owner is trusted.
func readToken(file string, trusted func(fs.FileInfo) bool) (token, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return token{}, fmt.Errorf("%s is not a file", file) // opening a named pipe would wait for its writer
	}
	f, err := os.Open(file)
	if err != nil {
		return token{}, err
	}
	defer f.Close()
	info, err := f.Stat() // of the open file, which can't be exchanged any more
	switch {
	case err != nil:
		return token{}, err
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return token{}, fmt.Errorf("others can read or write %s, its mode is %04o (chmod 600 %[1]s)", file,
			info.Mode().Perm())
	case !trusted(info):
		return token{}, fmt.Errorf("%s belongs to another user (change its owner, or name another file)", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return token{}, err
	}
	t := token{strings.TrimSpace(string(text)), file}
	if len(t.text) < minToken || strings.ContainsFunc(t.text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return token{},
			fmt.Errorf("%s has no token: at least %d printable ASCII characters (delete the file, and flowd creates one)", file, minToken)
	}
	return t, nil
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}
