package cli

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/operations/headroom"
	"github.com/flowd-io/flowd/internal/operations/notify"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/systemd"
	"github.com/flowd-io/flowd/internal/operations/telemetry"
)

// process is the running pipelines of this process. Signals, the admin API and changed files act on them
// through it.
type process struct {
	con        *console
	log        *slog.Logger
	logs       *logging
	files      []string
	options    config.Options
	stop, kill context.Context
	service    config.Service // as read at the start
	systemd    *systemd.Notifier
	sight      *sight
	notify     *notify.Notifier // nil: nobody is notified

	wake chan struct{} // room for one: something has ended

	reloading sync.Mutex      // held during a reload; guards the fields below
	metrics   *service.Server // the listener for scrapers; nil: there is none
	metricsAt string          // its address in the configuration
	sender    *telemetry.Metrics
	sendsTo   *config.MetricsOTLP // nil: there is no sender

	mu     sync.Mutex // guards the fields below
	set    *config.Set
	parts  []string                // files that the last version read includes, in force or not, and their patterns
	runs   map[string]*pipelineRun // by name
	active int                     // runs and reloads in progress
	worst  int
	held   map[string]bool // pipelines that an operator has stopped, by name
	stays  bool            // the process continues without pipelines: an operator drained them, or may add some
}

// pipelineRun is the run of a plan. ended is closed when it has ended.
type pipelineRun struct {
	plan  *runtime.Plan
	began time.Time // when the first of the runs whose counts it continues began, less the breaks between them
	ended chan struct{}

	took time.Duration // since began; set before ended is closed, like told
	told int64         // messages received according to the last summary; -1: no summary yet

	drained bool // by an operator; guarded by process.mu
	gone    bool // its pipeline has left the files, so it is forgotten when it ends; guarded by process.mu
}

var _ service.Process = (*process)(nil)

// start runs all pipelines of the set.
func (p *process) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs = map[string]*pipelineRun{}
	p.set.RenewSecrets()
	for _, l := range p.set.Pipelines {
		if !p.held[l.Plan.Name] {
			p.run(l.Plan, nil)
		}
	}
}

// run starts a plan. If old is not nil, the new run continues the counts of old, which has ended. p.mu is
// held.
func (p *process) run(plan *runtime.Plan, old *pipelineRun) {
	r := &pipelineRun{plan: plan, began: time.Now(), ended: make(chan struct{}), told: -1}
	if old != nil {
		r.told = old.told
		if r.began = old.began; !old.plan.Replaced() {
			r.began = time.Now().Add(-old.took)
		}
	}
	p.runs[plan.Name] = r
	p.begin()
	go func() {
		report := plan.Run(p.stop, p.kill)
		r.took = time.Since(r.began)
		// A reload starts a pipeline again whose inputs had ended, often without any new message: then say
		// nothing.
		news := !plan.Replaced() && (report.Err != nil || report.Drained || report.Stats.Roots.Received != r.told)
		if news {
			r.told = report.Stats.Roots.Received
		}
		p.mu.Lock()
		close(r.ended)
		p.forget(r)
		p.mu.Unlock()
		if plan.Replaced() {
			p.end(clean)
			return
		}
		if news {
			p.con.report(report, r.took)
		}
		p.notify.Ended(plan.Name, report.Err)
		p.end(report.Code())
	}()
}

// forget removes a run that has ended if its pipeline has left the files. p.mu is held.
func (p *process) forget(r *pipelineRun) {
	select {
	case <-r.ended:
		if r.gone && p.runs[r.plan.Name] == r {
			delete(p.runs, r.plan.Name)
		}
	default:
	}
}

// begin and end count what keeps the process alive: runs and reloads.
func (p *process) begin() { p.active++ }

func (p *process) end(code int) {
	p.mu.Lock()
	p.active--
	p.worst = worse(p.worst, code)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// wait waits until all pipelines have ended and, if they were drained to stay, until the process is told to stop. It
// returns the worst exit code.
func (p *process) wait() int {
	for {
		p.mu.Lock()
		idle, stays, worst := p.active == 0, p.stays, p.worst
		p.mu.Unlock()
		if idle && (!stays || p.stop.Err() != nil) {
			return worst
		}
		if idle {
			select {
			case <-p.wake:
			case <-p.stop.Done():
			}
			continue
		}
		<-p.wake
	}
}

// each calls f for a pipeline, or for all if pipeline is "".
func (p *process) each(pipeline string, f func(*runtime.Plan)) error {
	p.mu.Lock()
	runs := maps.Clone(p.runs)
	p.mu.Unlock()
	if pipeline != "" {
		r := runs[pipeline]
		if r == nil {
			return service.NoPipeline(pipeline, slices.Sorted(maps.Keys(runs)))
		}
		runs = map[string]*pipelineRun{pipeline: r}
	}
	for _, r := range runs {
		f(r.plan)
	}
	return nil
}

// Snapshots returns the current state of each pipeline.
func (p *process) Snapshots() (all []engine.Snapshot) {
	p.mu.Lock()
	if p.runs != nil {
		all = []engine.Snapshot{}
	}
	p.mu.Unlock()
	_ = p.each("", func(plan *runtime.Plan) { all = append(all, plan.Snapshot()) })
	slices.SortFunc(all, func(a, b engine.Snapshot) int { return strings.Compare(a.Pipeline, b.Pipeline) })
	return all
}

// Pause makes the inputs of a pipeline stop reading, or those of all if pipeline is "".
func (p *process) Pause(pipeline string) error {
	return p.each(pipeline, (*runtime.Plan).Pause)
}

// Resume makes inputs read again. A drained pipeline needs a new run, which a reload starts.
func (p *process) Resume(pipeline string) error {
	if p.drained(pipeline) {
		if err := p.Reload(); err != nil {
			return err
		}
	}
	return p.each(pipeline, (*runtime.Plan).Resume)
}

// drained reports whether an operator has drained a pipeline, or any if pipeline is "".
func (p *process) drained(pipeline string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, r := range p.runs {
		if r.drained && (pipeline == "" || name == pipeline) {
			return true
		}
	}
	return false
}

// Drain finishes the messages in flight of a pipeline, or of all. The process continues to run.
func (p *process) Drain(pipeline string) error {
	p.mu.Lock()
	p.stays = true
	for name, r := range p.runs {
		r.drained = r.drained || pipeline == "" || name == pipeline
	}
	p.mu.Unlock()
	return p.each(pipeline, (*runtime.Plan).Drain)
}

// SetLimit changes a rate limit.
func (p *process) SetLimit(pipeline, name string, l service.Limit) error {
	var errs []error
	found := false
	err := p.each(pipeline, func(plan *runtime.Plan) {
		err := plan.SetLimit(name, l.Messages, l.Per, l.Burst, l.AtOnce)
		found = found || err == nil
		errs = append(errs, err)
	})
	if err != nil || found {
		return err
	}
	return errors.Join(errs...)
}

// Push has an input of a pipeline read messages, and waits for their fates.
func (p *process) Push(ctx context.Context, pipeline, input string, b *engine.Batch) ([]*engine.Result, error) {
	var plan *runtime.Plan
	if err := p.each(pipeline, func(of *runtime.Plan) { plan = of }); err != nil {
		return nil, err
	}
	return plan.Push(ctx, input, b)
}

var errTooLate = errors.New("the process is draining (it is too late to reload)")

// Reload reads the files again. If they are valid, new plans replace the running ones, pipelines that have left the
// files are drained, and new pipelines start.
func (p *process) Reload() error {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	defer p.systemd.Reload()()
	if p.stop.Err() != nil {
		return errTooLate
	}
	set, problems := p.set.Reload(p.files, p.options, p.accept)
	p.mu.Lock()
	p.parts = set.Included
	p.mu.Unlock()
	if n, _ := count(problems); n > 0 {
		if p.stop.Err() != nil { // the process no longer reads secrets
			return errTooLate
		}
		_ = showProblems(p.con, problems)
		return notApplied(problems)
	}
	p.logs.configure(set.Service.Log)
	if err := p.logs.send(set.Service.Log.OTLP); err != nil {
		p.log.Error("the log is sent as before", "err", err)
	}
	p.log.Info("reloading", "pipelines", len(set.Pipelines))
	if is, was := set.Service, p.service; is.Listen != was.Listen || is.TokenFile != was.TokenFile ||
		is.TLS != was.TLS || !is.Notify.Same(was.Notify) || !is.Tracing.Same(was.Tracing) || !reflect.DeepEqual(is.Cluster, was.Cluster) {
		p.log.Warn("the changed section service is not applied (restart flowd to apply it)")
	}
	p.replace(set)
	p.log.Info("reloaded")
	return nil
}

// replace puts a new set in the place of the running one. It replaces the runs of the pipelines that have new plans, drains
// those that are not in the new set, and starts those that are new. p.reloading is held.
func (p *process) replace(set *config.Set) {
	p.releaseLinked(set)
	p.mu.Lock()
	p.stays = set.Service.Pipelines != ""
	p.begin()
	defer p.end(clean)
	before, was := maps.Clone(p.runs), p.set
	p.set = set
	plans := map[string]*runtime.Plan{} // of the pipelines that are to run
	for _, l := range set.Pipelines {
		if !p.held[l.Plan.Name] {
			plans[l.Plan.Name] = l.Plan
		}
	}
	for name, r := range before {
		r.gone = plans[name] == nil
		p.forget(r)
	}
	p.mu.Unlock()
	headroom.Set(inFlight(set))
	set.RenewSecrets()
	stays := func(name string) bool { return before[name] != nil && before[name].plan == plans[name] }
	var swaps sync.WaitGroup
	for name, plan := range plans {
		if !stays(name) {
			swaps.Go(func() { p.swap(plan, before[name]) })
		}
	}
	for name, r := range before {
		switch {
		case r.gone:
			r.plan.Drain()
		case !stays(name):
			swaps.Go(func() { yield(r, slices.DeleteFunc(was.Upstream(name), stays), before) })
		}
	}
	swaps.Wait()
}

// swap replaces a run by a plan. The old run stays visible until it has ended. old is nil for a new pipeline.
func (p *process) swap(plan *runtime.Plan, old *pipelineRun) {
	if old != nil {
		old.plan.Replace(plan)
		<-old.ended
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run(plan, old)
}

// yield lets a run that is being replaced stop reading from pipes once the runs that write to them have ended.
// Earlier, those would wait for it; later, their successors would keep it reading.
func yield(r *pipelineRun, upstream []string, runs map[string]*pipelineRun) {
	for _, name := range upstream {
		if up := runs[name]; up != nil {
			select {
			case <-up.ended:
			case <-r.ended:
			}
		}
	}
	r.plan.Yield()
}
