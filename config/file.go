package config

import (
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// file is a pipeline file on its way through Load.
type file struct {
	path string // as given, or found in a directory that was given
	root *schema.Node
	spec document

	decoder *schema.Decoder // of spec
}

// document is the whole of a pipeline file.
type document struct {
	engine.Pipeline `yaml:",inline"`
	Resources       Resources    `yaml:"resources" doc:"What pipelines share. It belongs to the process: one file holds it."`
	Service         Service      `yaml:"service" doc:"The process itself: logs, and the interface for operators. One file holds it."`
	Tests           *schema.Node `yaml:"tests" doc:"Messages and what has to become of them, for flowd test."`
}

// Resources is the section `resources`.
type Resources struct {
	Caches     *schema.Node             `yaml:"caches" pending:"caches" doc:"Caches by name."`
	RateLimits *schema.Node             `yaml:"rate_limits" pending:"rate limits" doc:"Rate limits by name, shared by all who name them."`
	Steps      schema.Map[engine.Steps] `yaml:"steps" scope:"batch" doc:"Lists of steps by name, used by - steps: NAME."`
}

// Service is the section `service`.
type Service struct {
	Listen  string       `yaml:"listen" pending:"interfaces for operators" doc:"Address of the operators' interface."`
	Log     Log          `yaml:"log" doc:"What is logged, and how."`
	Metrics *schema.Node `yaml:"metrics" pending:"metrics" doc:"Where metrics are offered."`
	Tracing *schema.Node `yaml:"tracing" pending:"tracing" doc:"Where traces are sent."`
	Cluster *schema.Node `yaml:"cluster" pending:"clusters" doc:"The other processes that share the work."`
}

// Log is `service.log`.
type Log struct {
	Level  string `yaml:"level" check:"oneof=debug|info|warn|error" pending:"log settings" doc:"The least important level that is logged."`
	Format string `yaml:"format" check:"oneof=text|json" pending:"log settings" doc:"text for people, json for machines."`
}

// decode turns a file's nodes into its spec.
func (l *loader) decode(f *file) {
	f.decoder = schema.NewDecoder(l.options.Lookup)
	f.decoder.Decode(f.root, &f.spec)
	l.report(f.decoder.Problems()...)
	if f.spec.Name == "" {
		f.spec.Name = baseName(f.path)
	}
}

// baseName is a file's name without folder and extension.
func baseName(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
