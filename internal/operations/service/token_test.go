package service

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestATokenIsMadeOnceAndForItsOwnerAlone(t *testing.T) {
	for _, place := range []string{"XDG_RUNTIME_DIR", "HOME"} {
		t.Run(place, func(t *testing.T) {
			home(t, place)
			at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9600}
			first, err := serverToken("", at)
			if err != nil {
				t.Fatal(err)
			}
			if len(first.text) != 43 || filepath.Base(first.file) != "token-9600" {
				t.Errorf("got %q in %s", first.text, first.file)
			}
			for path, want := range map[string]os.FileMode{first.file: 0o600, filepath.Dir(first.file): 0o700} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s: got %v, %v, want %v", path, info.Mode(), err, want)
				}
			}
			if again, err := serverToken("", at); err != nil || again != first {
				t.Errorf("a second start: got %v, %v, want the same token", again, err)
			}
			if client, err := clientToken("", "9600"); err != nil || client != first {
				t.Errorf("a client: got %v, %v, want the same token", client, err)
			}
			at.Port++
			if other, err := serverToken("", at); err != nil || other.text == first.text {
				t.Errorf("another port: got %v, %v, want another token", other, err)
			}
		})
	}
}

// The user of the systemd unit is another one than the superuser who operates it.
func TestTheSuperuserFindsTheTokenOfTheUnit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser reads the token of another user")
	}
	home(t, "HOME")
	was := unitDir
	unitDir = t.TempDir()
	t.Cleanup(func() { unitDir = was })
	file := filepath.Join(unitDir, "token-9600")
	if err := createToken(file); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if err := os.Chown(file, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if got, err := clientToken("", "9600"); err != nil || got.file != file {
		t.Errorf("got %v, %v, want the token in %s", got, err, file)
	}
	if _, err := readToken(file, ownedByUs); err == nil {
		t.Error("a server uses a token that another user has made")
	}
}

// home sets one of the variables that say where a user's files are.
func home(t *testing.T, name string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have other variables")
	}
	for _, v := range []string{"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "HOME"} {
		t.Setenv(v, "")
	}
	dir := t.TempDir()
	if name != "" {
		t.Setenv(name, dir)
	}
	return dir
}

func TestWithoutAHomeATokenFileMustBeNamed(t *testing.T) {
	home(t, "")
	_, err := serverToken("", &net.TCPAddr{Port: 1})
	if err == nil || !strings.HasSuffix(err.Error(), "(set service.token_file)") {
		t.Errorf("got %v", err)
	}
}

func TestTokenFilesThatAreRefused(t *testing.T) {
	tests := []struct {
		name, text string
		mode       os.FileMode
		err        string
	}{
		{"its owner alone", tokenText, 0o600, ""},
		{"its owner alone, to read", "\n" + tokenText + "\r\n", 0o400, ""},
		{"readable by the group", tokenText, 0o640, "its mode is 0640 (chmod 600 "},
		{"readable by all", tokenText, 0o604, "its mode is 0604 (chmod 600 "},
		{"writable by the group", tokenText, 0o620, "its mode is 0620 (chmod 600 "},
		{"empty", "", 0o600, "has no token"},
		{"short", tokenText[1:], 0o600, "has no token: at least 32"},
		{"two lines", tokenText + "\n" + tokenText, 0o600, "has no token"},
		{"not ASCII", tokenText + "é", 0o600, "has no token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, tt.mode); err != nil {
				t.Fatal(err)
			}
			got, err := serverToken(file, nil)
			switch {
			case tt.err == "" && (err != nil || got.text != tokenText):
				t.Errorf("got %q, %v", got.text, err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("got %v, want %q", err, tt.err)
			case err != nil && strings.Contains(err.Error(), tokenText[1:]):
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func TestATokenFileThatCanNotBe(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]string{
		dir:                                     "is not a file",
		filepath.Join(dir, "no", "token"):       "no such file or directory (set it to a file that exists or can be created)",
		"/dev/null":                             "is not a file",
		filepath.Join(dir, "a\x00b"):            "invalid argument",
		filepath.Join(dir, "token") + "/beyond": "no such file or directory",
	} {
		if _, err := serverToken(file, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", file, err, want)
		}
	}
}
