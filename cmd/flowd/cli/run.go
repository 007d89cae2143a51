package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/headroom"
	"github.com/flowd-io/flowd/internal/operations/metrics"
	"github.com/flowd-io/flowd/internal/operations/notify"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/internal/operations/systemd"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/program/manifest"
	managers "github.com/flowd-io/flowd/internal/systems/secrets"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// newRun returns the command that runs pipelines. It is the root command, too.
func newRun(use string) *cobra.Command {
	var files, set, plugins []string
	var watch bool
	var flags logFlags
	cmd := &cobra.Command{
		Use:               use,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := mistyped(cmd.Root(), args); err != nil {
				return err
			}
			if files = append(files, args...); len(files) == 0 {
				cmd.SetOut(cmd.ErrOrStderr())
				_ = cmd.Help() // more helpful than an error
				return exit(invalid)
			}
			return run(cmd, files, config.Options{Set: set, Plugins: plugins}, watch, flags)
		},
	}
	addFiles(cmd, &files)
	cmd.Flags().BoolVar(&watch, "watch", false, "reload the files when they change")
	addSet(cmd, &set)
	addPlugins(cmd, &plugins)
	flags.add(cmd)
	return cmd
}

func addFiles(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "config", "c", nil, "pipeline `FILE` or directory; may be repeated")
}

func addSet(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVarP(set, "set", "s", nil, "override one value, as `path=value`; may be repeated")
}

func addPlugins(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "plugins", nil, "`DIR` with programs that have a plugin.yaml; may be repeated")
	_ = cmd.MarkFlagDirname("plugins") // the flag exists
}

// usePlugins reads the manifests of programs, for a command that reads no pipeline.
func usePlugins(cmd *cobra.Command, dirs []string) error {
	var all []manifest.Dir
	for _, path := range dirs {
		all = append(all, manifest.Dir{Path: path})
	}
	_, problems := manifest.Load(all)
	return showProblems(newConsole(cmd.ErrOrStderr()), problems)
}

func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// mistyped finds an argument that is not a file but looks like a misspelt command.
func mistyped(root *cobra.Command, args []string) error {
	for _, a := range args {
		if strings.ContainsAny(a, "./\\") {
			continue
		}
		if _, err := os.Stat(a); err == nil {
			continue
		}
		if near := root.SuggestionsFor(a); len(near) > 0 {
			return usage(fmt.Sprintf("%q is neither a file nor a command (did you mean %q?)", a, near[0]))
		}
		return usage(fmt.Sprintf("%q is neither a file nor a command", a))
	}
	return nil
}

func run(cmd *cobra.Command, files []string, o config.Options, watch bool, flags logFlags) error {
	headroom.Set(usualInFlight) // until the files are read
	con := newConsole(cmd.ErrOrStderr())
	secrets := &schema.Secrets{}
	logs := newLogging(con, secrets, flags)
	// Before the files are read, since a SIGHUP that arrives meanwhile must not end the process.
	stop, kill, release := signals(cmd.Context(), con)
	defer release()
	caught := catch()
	logs.libraries(secrets)
	defer logs.sent.Close()
	defer logs.sums.Flush()
	sees := &sight{secrets: secrets}
	defer func() { sees.closeTracer(logs.log) }()
	o.Log, o.Secrets, o.Managers, o.Observe, o.Trace = logs.log, secrets, managers.NewStore(stop), sees.observers, sees.tracing(logs.log)
	signalled := func() bool { return context.Cause(stop) == errSignal }
	starts := context.AfterFunc(stop, func() {
		if signalled() { // nothing has been read yet
			os.Exit(clean)
		}
	})
	loaded, problems := config.Load(files, o)
	logs.configure(loaded.Service.Log)
	err := showProblems(con, problems)
	if !starts() && signalled() {
		select {} // the process exits
	}
	if err != nil {
		return err
	}
	if len(loaded.Pipelines) == 0 && loaded.Service.Pipelines == "" {
		return usage("none of the files is a pipeline")
	}

	if err := logs.send(loaded.Service.Log.OTLP); err != nil {
		return err
	}
	p := &process{con: con, sight: sees, log: logs.log, logs: logs, files: files, options: o, stop: stop, kill: kill, set: loaded,
		parts: loaded.Included, service: loaded.Service, wake: make(chan struct{}, 1), stays: loaded.Service.Pipelines != ""}
	p.systemd = systemd.New(p.Snapshots, p.log)
	code, err := p.serve(watch, caught)
	if err != nil {
		if con.record(slog.LevelError, err.Error()) {
			return exit(failed)
		}
		return err
	}
	if code != clean {
		return exit(code)
	}
	return nil
}

// serve runs the pipelines, and everything that concerns the process as a whole.
func (p *process) serve(watch bool, caught chan os.Signal) (code int, err error) {
	release, err := p.ownPipelines()
	if err != nil {
		return failed, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := p.serveMetrics(p.set.Service); err != nil {
		return failed, err
	}
	defer func() { err = errors.Join(err, p.closeMetrics()) }()
	if err := p.sendMetrics(p.set.Service); err != nil {
		return failed, err
	}
	defer p.stopSending()
	if c := p.set.Service; c.Listen != "" {
		info := version()
		s, err := service.Start(context.WithoutCancel(p.stop), service.Config{Listen: c.Listen, TokenFile: c.TokenFile,
			TLS: c.TLS, Pipelines: p.pipelines(), Tap: p.sight.tap, Trace: p.sight.trace, Version: info.Version, Revision: info.Revision,
			Metrics: processMetrics(), Exemplars: p.sight.exemplars}, p, metrics.Registry(p.set.Shared), p.log)
		if err != nil {
			return failed, err
		}
		defer func() { err = errors.Join(err, closeServer(s)) }()
	}
	if p.set.Service.Cluster != nil {
		hub, err := wire.HubOf(p.set.Shared)
		if err != nil {
			return failed, err
		}
		release, err := hub.Hold(p.stop, "pipeline "+strings.Join(p.set.Names(), ", "), p.log)
		if err != nil {
			return failed, err
		}
		defer release()
	}
	headroom.Set(inFlight(p.set))
	if limit, need, short := headroom.Shortage(inFlight(p.set)); short {
		p.log.Warn("messages in flight may take more memory than the container has (raise its limit, or lower "+
			"engine.max_in_flight.bytes)", "limit", inMiB(limit), "need", inMiB(need))
	}
	if err := p.notifies(p.set.Service.Notify); err != nil {
		return failed, err
	}
	var loops sync.WaitGroup
	defer loops.Wait()
	notifying, stopNotifying := context.WithCancel(context.WithoutCancel(p.stop)) // lasts until all pipelines have ended
	defer stopNotifying()
	loops.Go(func() { p.notify.Run(notifying, p.kill) })
	around, done := context.WithCancel(p.stop)
	defer done()
	p.start()
	loops.Go(func() { p.systemd.Run(around) })
	loops.Go(func() { p.operate(around, caught) })
	loops.Go(func() { p.followSecrets(around) })
	if watch {
		loops.Go(func() { p.watch(around) })
	}
	if sharesNoTerminal(p.set.Pipelines) {
		loops.Go(func() { p.con.progress(around, p.Snapshots) })
	}
	return p.wait(), nil // the watcher, the API and the signals end with the process
}

// notifies makes the notifier of service.notify, if there is one.
func (p *process) notifies(c *config.Notify) (err error) {
	if c == nil {
		return nil
	}
	n := notify.Config{On: c.On, After: c.After}
	if c.HTTP != nil {
		n.HTTP = &notify.HTTP{Calls: c.HTTP.Calls, Body: c.HTTP.Body, Timeout: c.HTTP.Timeout}
	}
	if c.Exec != nil {
		n.Exec = &notify.Exec{Command: c.Exec.Command, Timeout: c.Exec.Timeout}
	}
	p.notify, err = notify.New(n, p.Snapshots, p.options.Secrets, p.log)
	return err
}

// usualInFlight is the default limit of bytes in flight per pipeline.
const usualInFlight = 64 << 20

// inFlight returns how many bytes all pipelines together may have in flight.
func inFlight(set *config.Set) (n int) {
	for _, l := range set.Pipelines {
		n += min(l.Plan.MaxBytes, math.MaxInt-n)
	}
	return n
}

func inMiB(bytes int) string { return strconv.Itoa(bytes>>20) + "MiB" }

// worse returns the more serious of two exit codes.
func worse(a, b int) int {
	rank := map[int]int{clean: 0, handedBack: 1, failed: 2, invalid: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// sharesNoTerminal reports whether the terminal is free for a progress line: no pipeline reads from it or writes its
// data to it.
func sharesNoTerminal(pipelines []config.Loaded) bool {
	for _, p := range pipelines {
		for _, in := range p.Spec.Inputs.All() {
			if in.Use.Name == "stdin" && isTerminal(os.Stdin) {
				return false
			}
		}
		for _, out := range p.Spec.Outputs.All() {
			if out.Use.Name == "stderr" || out.Use.Name == "stdout" && isTerminal(os.Stdout) {
				return false
			}
		}
	}
	return true
}
