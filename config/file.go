package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/formats/registry"
	"github.com/flowd-io/flowd/internal/migrate/bloblang"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/state/tables"
	"github.com/flowd-io/flowd/internal/systems/secrets"
	"github.com/flowd-io/flowd/schema"
)

// file is a pipeline file on its way through Load.
type file struct {
	path string // as given, or found in a given directory
	root *schema.Node
	spec document
	cuts yamltext.Cuts

	decoder *schema.Decoder   // of spec; knows the origin of every value
	plugins map[string]string // by name of a type: a text that changes with its manifest
	tables  map[string]string // resources of the tables that were read, by name

	resourcesOnlyIncluded bool // its resources all come from files that it includes
	managed               bool // in the directory of service.pipelines
	onlyProcess           bool // it configures the process, and is not a pipeline
}

// document is the whole content of a pipeline file.
type document struct {
	engine.Pipeline `yaml:",inline"`
	Include         engine.Names `yaml:"include" doc:"Files whose resources are added to this file's: a path or a list of paths, relative to this file, or patterns such as parts/*.yaml. They may contain only resources, include and x- keys."`
	Resources       Resources    `yaml:"resources" doc:"Resources that pipelines share. The section belongs to the process: only one file may have it, apart from included files."`
	Service         Service      `yaml:"service" doc:"The process itself: its log and the admin API. Only one file may have it."`
	Tests           []Test       `yaml:"tests" doc:"Messages and their expected results, for flowd test."`
}

// Resources is the section `resources`.
type Resources struct {
	Caches     schema.Map[CacheSpec]        `yaml:"caches" doc:"Caches by name."`
	RateLimits schema.Map[engine.RateLimit] `yaml:"rate_limits" doc:"Rate limits by name. Everything that names a limit shares it."`
	Registries schema.Map[registry.Config]  `yaml:"registries" doc:"Schema registries by name."`
	Secrets    schema.Map[secrets.Config]   `yaml:"secrets" doc:"Secrets managers by name, for placeholders such as ${vault:PATH#FIELD}. A manager without an entry is configured by the variables that its own tools use, such as VAULT_ADDR and VAULT_TOKEN, or AWS_REGION."`
	Tables     schema.Map[tables.Config]    `yaml:"tables" doc:"Tables by name, in which lookup() and geoip look up rows. They are read before anything else, and again when they change."`
	Steps      schema.Map[engine.StepList]  `yaml:"steps" scope:"batch" doc:"Lists of steps by name, used by - steps: NAME or, with values for parameters, - steps: {NAME: {PARAMETER: value}}."`
}

// CacheSpec is one entry of `resources.caches`.
type CacheSpec struct {
	Use engine.Plugin[engine.Cache] `yaml:",variant"`
}

// Service is the section `service`.
type Service struct {
	Listen    string         `yaml:"listen" doc:"Address of the admin API, such as 127.0.0.1:9600: metrics, health, and requests from flowd ctl. It must be a loopback address unless tls and token_file are set. For scrapers and probes on other machines, metrics.listen is simpler."`
	TokenFile string         `yaml:"token_file" doc:"File with the token that flowd ctl sends, readable only by its owner; it is created if missing. By default it is in the user's runtime or configuration directory, named after the port."`
	TLS       tlsconf.Server `yaml:"tls" doc:"TLS of the admin API. An address other than loopback requires it, with token_file."`
	Pipelines string         `yaml:"pipelines" doc:"Directory for pipelines that are managed over the admin API. Its .yaml files are pipelines of the process, which keeps running without any; it is created if missing. -s does not apply to them."`
	Plugins   engine.Names   `yaml:"plugins" doc:"Folders of programs with a plugin.yaml, or folders that contain such folders, relative to this file: a path or a list. Each program is a type of component."`
	Log       Log            `yaml:"log" doc:"The log, on standard error: levels and format."`
	Metrics   *Metrics       `yaml:"metrics" doc:"Metrics for Prometheus at a second listener, only for scrapers and probes, and metrics by OTLP."`
	Notify    *Notify        `yaml:"notify" doc:"A webhook or a program that is told when a pipeline fails, stops, or is not ready."`
	History   *History       `yaml:"history" doc:"Remembers the last messages, for flowd trace. Without this section nothing is remembered."`
	Tap       Tap            `yaml:"tap" doc:"What flowd tap shows of messages."`
	Tracing   *Tracing       `yaml:"tracing" doc:"Sends what happens to messages as spans, by OpenTelemetry's protocol. Like that of the listener, a change takes effect at the next start."`
	Cluster   *wire.Config   `yaml:"cluster" doc:"The address where pool workers join this process."`
}

// Tap is `service.tap`.
type Tap struct {
	Redact []string `yaml:"redact" doc:"More fields whose values are hidden: names such as email, wherever they are, or paths such as customer.name. Fields that are called like passwords, tokens, keys or card numbers are hidden anyway, and so are text and numbers that look like these."`
}

// History is `service.history`.
type History struct {
	ID       expr.Expr `yaml:"id" check:"required" doc:"What identifies a message, such as order.id or meta(\"message_id\"), when it is read. Messages for which it is null are not remembered."`
	Messages int       `yaml:"messages" check:"min=1,max=10000000" default:"100000" doc:"How many messages are remembered, in the process: the last ones, with a few hundred bytes each."`
}

// Metrics is `service.metrics`.
type Metrics struct {
	Listen string       `yaml:"listen" doc:"Address such as 0.0.0.0:9601, for Prometheus and kubelets. It has /metrics, /live and /ready without a token and TLS, shows no data and no errors, and changes nothing. Metrics of steps metric are only at service.listen, since their labels may be data."`
	OTLP   *MetricsOTLP `yaml:"otlp" doc:"A receiver of OTLP that gets all metrics, beside the listener or instead of it. Their names and meaning are the same as at /metrics."`
}

// MetricsOTLP is `service.metrics.otlp`.
type MetricsOTLP struct {
	otlp.Sender `yaml:",inline"`
	Interval    time.Duration `yaml:"interval" check:"min=1s,max=1h" doc:"Time between two requests. By default that of OTEL_METRIC_EXPORT_INTERVAL (in milliseconds), else 60s."`
}

// CheckConfig reports that nobody gets the metrics.
func (m *Metrics) CheckConfig(report func(path, message, remedy string)) {
	if m.Listen == "" && m.OTLP == nil {
		report("", "nobody gets the metrics", "write `listen: 0.0.0.0:9601` for scrapers, or `otlp: {endpoint: URL}`")
	}
}

// Notify is `service.notify`.
type Notify struct {
	On    []string      `yaml:"on" check:"required,oneof=failed|stopped|not_ready|ready" doc:"The events to send: failed and stopped (a pipeline has ended, with or without an error), not_ready (it has not been ready for the time after), and ready (at the start, and after not_ready)."`
	After time.Duration `yaml:"after" check:"min=0s,max=24h" default:"10s" doc:"How long a pipeline must not be ready before not_ready is sent. Shorter interruptions are not reported."`
	print string        // of all settings

	HTTP *Webhook       `yaml:"http" doc:"The request that sends an event, a POST. It is retried for 15 minutes unless the server rejects it."`
	Exec *NotifyProgram `yaml:"exec" doc:"The program that runs once for each event, beside http or instead of it."`
}

// CheckConfig reports that nothing receives the events.
func (n *Notify) CheckConfig(report func(path, message, remedy string)) {
	if n.HTTP == nil && n.Exec == nil {
		report("", "nothing receives the events", "write `http: URL` or `exec: [program, argument, …]`")
	}
}

// Same reports whether two sections have the same settings. nil stands for no section.
func (n *Notify) Same(other *Notify) bool {
	return n == nil && other == nil || n != nil && other != nil && n.print == other.print
}

// Webhook is `service.notify.http`.
type Webhook struct {
	httpx.Calls `yaml:",inline"`
	Body        expr.Body     `yaml:"body" doc:"The body, from the event's fields event, pipeline, host, time, reason and checks, such as '{text: host + \": \" + pipeline + \" \" + event}'; the event as JSON by default. url and headers may use the fields, too."`
	Timeout     time.Duration `yaml:"timeout" check:"min=1ms,max=5m" default:"10s" doc:"Time limit for one request."`
}

// NotifyProgram is `service.notify.exec`.
type NotifyProgram struct {
	Command programs.Command `yaml:"command,main" check:"required" doc:"The program and its arguments, without a shell. Its environment has FLOWD_EVENT, FLOWD_PIPELINE, FLOWD_HOST, FLOWD_TIME and FLOWD_REASON, in addition to flowd's own; its standard input is the event as JSON. It is run again for up to 15 minutes if it exits with status 75 or takes too long."`
	Timeout time.Duration    `yaml:"timeout" check:"min=1ms,max=5m" default:"10s" doc:"Time limit for one run; then the program is killed, along with everything that it has started."`
}

// ConfigFiles returns the program, if it is given by a path.
func (p NotifyProgram) ConfigFiles() []string { return []string{p.Command.File("")} }

// ConfigFiles returns the files that are read.
func (s Service) ConfigFiles() []string { return []string{s.TokenFile} }

// CheckConfig reports settings that can't work together.
func (s *Service) CheckConfig(report func(path, message, remedy string)) {
	s.checkMetrics(report)
	for path, set := range map[string]bool{"metrics.otlp": s.Metrics != nil && s.Metrics.OTLP != nil, "log.otlp": s.Log.OTLP != nil} {
		if set && builds.Lacks("otel") {
			report(path, "service."+path+" is not part of this build of flowd", builds.Remedy("otel"))
		}
	}
	if s.Pipelines != "" && s.Listen == "" {
		report("pipelines", "has no effect without service.listen", `write "listen: 127.0.0.1:9600", where the API listens`)
	}
	if s.Listen == "" {
		return
	}
	host, message, remedy := tlsconf.Listening(s.Listen, "127.0.0.1:9600")
	if message != "" {
		report("listen", message, remedy)
		return
	}
	if tlsconf.Loopback(host) || s.TLS.Cert != "" && s.TokenFile != "" {
		return
	}
	_, port, _ := net.SplitHostPort(s.Listen)
	report("listen", fmt.Sprintf("%q is not a loopback address: others could control this process", s.Listen),
		fmt.Sprintf(`for scrapers and probes, write "metrics: {listen: 0.0.0.0:9601}"; for flowd ctl, write "127.0.0.1:%s", `+
			"or also set tls and token_file", port))
}

// checkMetrics reports an address of the metrics listener that can't work.
func (s *Service) checkMetrics(report func(path, message, remedy string)) {
	if s.Metrics == nil || s.Metrics.Listen == "" {
		return
	}
	host, message, remedy := tlsconf.Listening(s.Metrics.Listen, "0.0.0.0:9601")
	if message != "" {
		report("metrics.listen", message, remedy)
		return
	}
	_, port, _ := net.SplitHostPort(s.Metrics.Listen)
	if adminHost, adminPort, err := net.SplitHostPort(s.Listen); err == nil && port == adminPort && port != "0" &&
		(host == adminHost || anyHost(host) || anyHost(adminHost)) {
		report("metrics.listen", fmt.Sprintf("service.listen has port %s already", port),
			"use another port, such as 9601, or leave out service.metrics: service.listen has /metrics, /live and /ready, too")
	}
}

// anyHost reports whether a listener's host stands for all addresses of the machine.
func anyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// decode turns a file's nodes into its spec.
func (l *loader) decode(f *file) {
	f.decoder, f.plugins = l.decoder(f), l.plugins.Prints
	l.top(f)
	f.onlyProcess = l.onlyProcess(f)
	l.secrets(f)
	f.read()
	l.report(slices.DeleteFunc(f.cuts.Without(f.decoder.Problems()), func(p schema.Problem) bool {
		return f.onlyProcess && p.Code == schema.Required && (p.Path == "inputs" || p.Path == "outputs")
	})...)
}

// decoder makes a decoder for a file. All files of a process share its secrets.
func (l *loader) decoder(f *file) *schema.Decoder {
	d := schema.NewDecoder(l.options.Lookup)
	d.Hide(l.options.Secrets)
	schema.Shared[engine.StepLists](d).Defined = l.listsFor(f)
	*schema.Shared[expr.Translator](d) = translator
	return d
}

// translator explains Bloblang in place of expressions.
var translator = expr.Translator{Steps: bloblang.Flow, Query: bloblang.Counterpart, Template: bloblang.Interpolated}

// read decodes the file's nodes with its decoder.
func (f *file) read() {
	f.decoder.Decode(f.root, &f.spec)
	*schema.Shared[expr.Limits](f.decoder) = f.spec.Engine.Limits.Expression
	*schema.Shared[engine.Environment](f.decoder) = f.environment()
	if f.spec.Name == "" {
		f.spec.Name = baseName(f.path)
	}
}

// components returns the file's components of a kind and type.
func (f *file) components(kind, name string) []runtime.Component {
	return slices.DeleteFunc(runtime.Components(f.spec.Pipeline), func(c runtime.Component) bool {
		return c.Kind != kind || c.Type != name
	})
}
