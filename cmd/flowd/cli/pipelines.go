package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/disk/flock"
	"github.com/flowd-io/flowd/internal/operations/service"
	managers "github.com/flowd-io/flowd/internal/systems/secrets"
	"github.com/flowd-io/flowd/schema"
)

// managed is a process whose pipelines are managed over the admin API.
type managed struct{ *process }

var _ service.Pipelines = managed{}

// List returns the pipelines of the process, sorted by name.
func (m managed) List() []service.PipelineFile {
	m.mu.Lock()
	set, held := m.set, maps.Clone(m.held)
	m.mu.Unlock()
	all := []service.PipelineFile{}
	states := m.states()
	for _, l := range set.Pipelines {
		name := l.Plan.Name
		state := states[name]
		if state == "" && held[name] {
			state = string(engine.Stopped)
		}
		file, managed := set.FileOf(name)
		all = append(all, service.PipelineFile{Name: name, State: state, File: file, Managed: managed, Held: held[name]})
	}
	slices.SortFunc(all, func(a, b service.PipelineFile) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// states returns the state of each pipeline. One that has no run yet is starting.
func (m managed) states() map[string]string {
	states := map[string]string{}
	for _, s := range m.Snapshots() {
		states[s.Pipeline] = string(s.State)
	}
	return states
}

// Text returns the YAML of a pipeline.
func (m managed) Text(name string) ([]byte, error) {
	m.mu.Lock()
	set := m.set
	m.mu.Unlock()
	file, _ := set.FileOf(name)
	if file == "" {
		return nil, service.NoPipeline(name, set.Names())
	}
	return os.ReadFile(file)
}

// Put saves a pipeline and runs it.
func (m managed) Put(name string, text []byte) (created bool, problems []schema.Problem, err error) {
	if text == nil {
		text = []byte{} // nil means to remove the pipeline
	}
	return m.change(name, text)
}

// Remove removes a pipeline and drains it.
func (m managed) Remove(name string) error {
	_, _, err := m.change(name, nil)
	return err
}

// change saves a change of one pipeline and applies it. text is nil to remove it. The problems are warnings.
func (m managed) change(name string, text []byte) (created bool, problems []schema.Problem, err error) {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	if m.stop.Err() != nil {
		return false, nil, service.Refused(http.StatusConflict, "the process is draining (it is too late to change pipelines)")
	}
	file, err := m.fileFor(name, text != nil)
	if err != nil {
		return false, nil, err
	}
	before, err := os.ReadFile(file)
	if created = errors.Is(err, fs.ErrNotExist); created {
		before, err = nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	set, problems, err := m.set.Change(config.Change{Name: name, File: file, Text: text, Ended: m.ended}, m.options,
		func() error {
			if err := save(file, text); err != nil {
				return fmt.Errorf("nothing has changed, since the file can't be saved: %w", err)
			}
			what := "pipeline saved"
			if text == nil {
				what = "pipeline removed"
			}
			m.log.Info(what, "pipeline", name, "file", file)
			return nil
		})
	if err != nil {
		return false, nil, err
	}
	// The warnings of other files are not news.
	problems = slices.DeleteFunc(problems, func(p schema.Problem) bool { return p.Warning && p.Pos.File != file })
	if n, _ := count(problems); n > 0 {
		return false, nil, errors.Join(notApplied(problems), save(file, before))
	}
	if text == nil {
		err = m.hold(name, false)
	}
	m.replace(set)
	return created, problems, err
}

// notApplied returns the error for a change with these problems. The same request may succeed later if all errors are those of
// a secrets manager that is down.
func notApplied(problems []schema.Problem) error {
	if slices.ContainsFunc(problems, func(p schema.Problem) bool { return !p.Warning && p.Code != managers.Unavailable }) {
		return service.Invalid(problems)
	}
	return service.Unavailable(problems)
}

// Start runs a pipeline unless it runs.
func (m managed) Start(name string) error {
	if !m.ended(name) {
		return nil
	}
	return m.Restart(name)
}

// ended reports whether a pipeline does not run, or is about to end.
func (m managed) ended(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.runs[name]
	if run == nil || m.held[name] || run.drained {
		return true
	}
	select {
	case <-run.ended:
		return true
	default:
		return false
	}
}

// Stop drains a pipeline, which does not run until it is started.
func (m managed) Stop(name string) error {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	file, _ := m.set.FileOf(name)
	if file == "" {
		return service.NoPipeline(name, m.set.Names())
	}
	if other := m.set.Linked(name); other != "" {
		return service.Refused(http.StatusConflict, "pipeline %q is connected to %q by a pipe, which would have no other end "+
			"(pause it instead)", name, other)
	}
	if err := m.hold(name, true); err != nil {
		return err
	}
	m.replace(m.set)
	return nil
}

// Restart ends a pipeline if it runs, and starts it.
func (m managed) Restart(name string) error {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	if m.stop.Err() != nil {
		return service.Refused(http.StatusConflict, "the process is draining (it is too late to start pipelines)")
	}
	if file, _ := m.set.FileOf(name); file == "" {
		return service.NoPipeline(name, m.set.Names())
	}
	set, problems := m.set.Again(name, m.ended, m.options)
	if n, _ := count(problems); n > 0 {
		return notApplied(problems)
	}
	if err := m.hold(name, false); err != nil {
		return err
	}
	m.replace(set)
	return nil
}

// hold records that a pipeline is stopped, or no longer. The record is a file, for the next process.
func (m managed) hold(name string, held bool) error {
	switch {
	case service.ValidName(name):
		var record []byte // nil: the file is removed
		if held {
			record = []byte{}
		}
		if err := save(filepath.Join(m.service.Pipelines, name+stoppedExt), record); err != nil {
			return err
		}
	case held:
		return service.Refused(http.StatusConflict, "pipeline %q can't be stopped, since its name can't be that of a file "+
			"(rename it, or pause it instead)", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = map[string]bool{}
	}
	m.held[name] = held
	return nil
}

// stoppedExt ends the names of files that record stopped pipelines.
const stoppedExt = ".stopped"

// readHeld finds out which pipelines an operator stopped in an earlier process.
func (p *process) readHeld() {
	p.held = map[string]bool{}
	for _, name := range p.set.Names() {
		if _, err := os.Stat(filepath.Join(p.service.Pipelines, name+stoppedExt)); err == nil && service.ValidName(name) {
			p.held[name] = true
		}
	}
	p.releaseLinked(p.set)
	for name, held := range p.held {
		if held {
			p.log.Info("pipeline stays stopped (start it with: flowd ctl pipelines start "+name+")", "pipeline", name)
		}
	}
}

// releaseLinked marks a stopped pipeline as one that runs if pipes connect it with others, since these would wait for it.
func (p *process) releaseLinked(set *config.Set) {
	for _, name := range set.Names() {
		other := set.Linked(name)
		if !p.isHeld(name) || other == "" {
			continue
		}
		if err := (managed{p}).hold(name, false); err != nil {
			p.log.Error("a stopped pipeline can't be started", "pipeline", name, "err", err)
			continue
		}
		p.log.Warn("a stopped pipeline runs again, since a pipe connects it with another one", "pipeline", name, "other", other)
	}
}

func (p *process) isHeld(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[name]
}

// fileFor returns the file of a pipeline that a request may change. It need not exist if the request may create it.
func (m managed) fileFor(name string, create bool) (string, error) {
	file, managed := m.set.FileOf(name)
	switch {
	case file != "" && managed:
		return file, nil
	case file != "":
		return "", service.Refused(http.StatusConflict, "pipeline %q is in %s, which flowd was started with, and not in "+
			"service.pipelines (change this file and reload)", name, file)
	case !create:
		return "", service.NoPipeline(name, m.set.Names())
	}
	dir := m.service.Pipelines
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		is, ext := e.Name(), filepath.Ext(e.Name())
		if base := strings.TrimSuffix(is, ext); (ext == ".yaml" || ext == ".yml") && strings.EqualFold(base, name) {
			if base == name {
				return "", service.Refused(http.StatusConflict, "%s exists already, but is not loaded (reload, or remove it)",
					filepath.Join(dir, is))
			}
			return "", service.Refused(http.StatusConflict, "pipeline %q differs from %q only in case, which not all file "+
				"systems tell apart (choose another name)", name, base)
		}
	}
	return filepath.Join(dir, name+".yaml"), nil
}

// save writes the file of a pipeline in one step, or removes it if text is nil.
func save(file string, text []byte) error {
	if text != nil {
		return files.Replace(file, text, 0o600)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return files.SyncDir(filepath.Dir(file))
}

// ownPipelines makes the directory of service.pipelines, if there is one, and keeps other processes out of it until
// release is called.
func (p *process) ownPipelines() (release func() error, err error) {
	dir := p.service.Pipelines
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("service.pipelines: %w (give a directory that can be written)", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("service.pipelines: %w (give a directory that can be written)", err)
	}
	if _, err := flock.Lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("service.pipelines: %s belongs to another flowd that runs (give each its own directory)",
			dir), f.Close())
	}
	p.readHeld()
	return f.Close, nil
}

// accept checks what a reload can't change, and applies what it changes first.
func (p *process) accept(c config.Service) error {
	if p.stop.Err() != nil {
		return errTooLate
	}
	if c.Pipelines != p.service.Pipelines {
		return fmt.Errorf("service.pipelines was %q at the start, and can't change while flowd runs (restart flowd)",
			p.service.Pipelines)
	}
	return errors.Join(p.serveMetrics(c), p.sendMetrics(c))
}

// pipelines returns what the API manages pipelines with; nil: service.pipelines is not set.
func (p *process) pipelines() service.Pipelines {
	if p.service.Pipelines == "" {
		return nil
	}
	return managed{p}
}
