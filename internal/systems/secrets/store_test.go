package secrets

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a secrets manager that has a value for every path. While it is down, it takes a second to say so.
type fake struct {
	mu    sync.Mutex
	value string
	err   error
	reads map[string]int
}

func (*fake) origin() string { return "here" }

func (*fake) close() {}

func (f *fake) read(ctx context.Context, path string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads == nil {
		f.reads = map[string]int{}
	}
	f.reads[path]++
	if isDown(f.err) {
		f.mu.Unlock()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		f.mu.Lock()
	}
	if f.err != nil {
		return nil, f.err
	}
	return map[string]string{"pw": f.value + " of " + path}, nil
}

func (f *fake) set(value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value = value
}

// ask reads secrets from a fake, and returns the values or errors.
func ask(s *Store, f *fake, again bool, log *slog.Logger, names ...string) (got []string) {
	r := s.newReading(names, again, log, func(string) (manager, error) { return f, nil })
	ctx, cancel := context.WithTimeout(context.Background(), mostTime)
	defer cancel()
	r.run(ctx)
	for _, name := range names {
		value, ok, err := r.lookup(name)
		if !ok {
			value = err.Error()
		}
		got = append(got, value)
	}
	return got
}

func TestValuesSurviveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Store
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		f := &fake{value: "first"}
		want := func(what, text string, again bool) {
			t.Helper()
			if got := ask(&s, f, again, log, "vault:a#pw"); got[0] != text {
				t.Errorf("%s: got %q, want %q", what, got[0], text)
			}
		}
		want("at first", "first of a", false)
		f.value = "second"
		want("in the second part of a reload", "first of a", true)
		want("at a reload", "second of a", false)
		f.err = down("wait", "sealed")
		want("in an outage", "second of a", false)
		if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "secret=vault:a err=sealed") ||
			strings.Contains(text, "second") {
			t.Errorf("the log has\n%s", text)
		}
		f.err = refused("log in", "permission denied")
		want("without permission", "permission denied", false)
		f.err = down("wait", "sealed")
		want("in an outage after that", "second of a", false)
		f.err = Missing("no such secret", "create it")
		want("once it is deleted", "no such secret", false)
		f.err = down("wait", "sealed")
		want("in an outage after that", "sealed", false)
	})
}

func TestASecretIsReadOnce(t *testing.T) {
	f := &fake{}
	got := ask(&Store{}, f, false, slog.New(slog.DiscardHandler), "vault:a#pw", "vault:a#other", "vault:/a/#pw", "vault:b#pw")
	if fmt.Sprint(f.reads) != "map[a:1 b:1]" || !strings.Contains(got[1], `no field "other"`) {
		t.Errorf("reads %v, got %q", f.reads, got)
	}
}

func TestAnOutageDelaysTheStartOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{err: down("wait", "sealed")}
		var names []string
		for i := range 500 {
			names = append(names, fmt.Sprintf("vault:%d#pw", i))
		}
		began := time.Now()
		for _, got := range ask(&Store{}, f, false, slog.New(slog.DiscardHandler), names...) {
			if got != "sealed" {
				t.Fatalf("got %q", got)
			}
		}
		if took := time.Since(began); took > mostTime || len(f.reads) != atOnce {
			t.Errorf("it took %v, and %d secrets were asked for", took, len(f.reads))
		}
	})
}

func TestPlaceholdersNameAFieldOfASecret(t *testing.T) {
	for _, name := range []string{"vault:", "vault:a", "vault:#pw", "vault:a#", "vault:a//b#pw", "vault:../sys#pw", "vault:a/./b#pw"} {
		if err := Check(name); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, name := range []string{"vault:a#pw", "vault:/a/b/#pw", "vault:a#b#pw"} {
		if err := Check(name); err != nil && lacks("vault") == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailedRenewalsAreLogged(t *testing.T) {
	if lacks("vault") != nil {
		t.Skip("this build lacks Vault")
	}
	t.Setenv("VAULT_ADDR", "not a URL")
	synctest.Test(t, func(t *testing.T) {
		var s Store
		var logged bytes.Buffer
		configs := map[string]*Config{"vault": {Vault: &Vault{}, Refresh: time.Minute}}
		s.Renew(configs, []string{"vault:a#pw"}, slog.New(slog.NewTextHandler(&logged, nil)))
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if got := strings.Count(logged.String(), "secret can't be renewed"); got != 2 {
			t.Errorf("the log has\n%s", logged.String())
		}
		select {
		case <-s.Changed():
			t.Error("a reload is due, although nothing is known to have changed")
		default:
		}
		s.Renew(nil, nil, nil) // ends it
	})
}

// useFake makes a fake the manager of all secrets in Vault.
func useFake(t *testing.T, f *fake) {
	t.Helper()
	real := openers["vault"]
	openers["vault"] = func(*Config) (manager, error) { return f, nil }
	t.Cleanup(func() { openers["vault"] = real })
}

func TestARenewedSecretThatIsNotInUseIsToldAgain(t *testing.T) {
	f := &fake{value: "first"}
	useFake(t, f)
	synctest.Test(t, func(t *testing.T) {
		var s Store
		configs, names := map[string]*Config{"vault": {Vault: &Vault{}, Refresh: time.Minute}}, []string{"vault:a#pw"}
		s.Read(configs, names, false, nil)
		s.Renew(configs, names, slog.New(slog.DiscardHandler))
		told := func() bool {
			time.Sleep(time.Minute)
			synctest.Wait()
			select {
			case <-s.Changed():
				return true
			default:
				return false
			}
		}
		if told() {
			t.Error("nothing has changed, but a renewal tells")
		}
		f.set("second")
		if !told() {
			t.Error("a new value is not told")
		}
		s.Again() // the reload has failed
		if !told() {
			t.Error("a value that is not in use is not told again")
		}
		if told() {
			t.Error("it is told once more, although it is in use")
		}
		s.Renew(nil, nil, nil)
		f.set("third")
		if told() {
			t.Error("the renewals have not ended")
		}
	})
}

func TestAReadEndsWithTheProcess(t *testing.T) {
	f := &fake{err: down("wait", "sealed")}
	useFake(t, f)
	synctest.Test(t, func(t *testing.T) {
		process, stop := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(100*time.Millisecond, stop)
		_, ok, err := NewStore(process).Read(nil, []string{"vault:a#pw"}, false, nil)("vault:a#pw")
		if took := time.Since(began); took != 100*time.Millisecond || ok || !isDown(err) {
			t.Errorf("after %v: %v, %v", took, ok, err)
		}
	})
}
