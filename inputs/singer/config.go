// Package singer is the input `singer`: it runs a Singer tap, a program that writes records as lines of JSON. Start at
// [input.Read]. tap.go runs the program; decode.go decodes its lines; catalog.go selects streams.
package singer

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/components/schedule"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	Command    programs.Command          `yaml:"command,main" check:"required" doc:"The tap and its arguments. flowd adds --config, --catalog and --state: see the other fields. Text is split at blanks outside quotes. A name without a slash is looked up in PATH."`
	Config     concealed                 `yaml:"config" doc:"The tap's configuration. Values of placeholders are text, and are masked in logs and errors."`
	Catalog    fields.Document           `yaml:"catalog" doc:"The tap's catalog, or the path of its file. Without it and with select, the tap is asked for it, with --discover, before each run."`
	Select     []string                  `yaml:"select" check:"nonempty" doc:"Streams to read, by name or pattern, such as public-*. They are selected in the catalog with all their fields, unless a field is unsupported or deselected there; other streams are deselected."`
	Properties bool                      `yaml:"properties" doc:"Pass the catalog as --properties, for taps older than --catalog."`
	Checkpoint string                    `yaml:"checkpoint" doc:"File that records the tap's state up to which all messages are settled. A restart continues after it."`
	Interval   schedule.Schedule         `yaml:"interval" doc:"Time from one run of the tap to the next: a duration, or a cron expression: five fields or @yearly, @monthly, @weekly, @daily or @hourly, in UTC or, as in \"TZ=Europe/Zurich 0 2 * * *\", in a time zone. Without it, the input ends when the tap has ended."`
	Schema     bool                      `yaml:"schema" doc:"Add the schema of the stream to the metadata."`
	Env        schema.Map[schema.Secret] `yaml:"env" doc:"Environment variables, in addition to flowd's own."`
	Dir        string                    `yaml:"dir" doc:"Working directory of the tap; that of flowd by default."`
	MaxLine    schema.Size               `yaml:"max_line" check:"min=1,max=1GiB" doc:"Longest line of the tap's output. A longer one is an error."`
}

var defaults = Config{Schema: true, MaxLine: 16 << 20}

// concealed is a document in which the values of placeholders are masked, since nothing says which of them are secrets.
type concealed struct{ fields.Document }

// UnmarshalConfig decodes a mapping.
func (c *concealed) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	d.Decode(n, &c.Document)
	var conceal func(n *schema.Node)
	conceal = func(n *schema.Node) {
		for _, item := range n.Items {
			conceal(item)
		}
		if n.Kind == schema.TextNode {
			for _, piece := range d.Pieces(n) {
				if piece.Placeholder {
					d.Secrets().Add(piece.Text)
				}
			}
		}
	}
	conceal(n)
}

// ConfigFiles returns the program and the catalog, if they are given by a path.
func (c Config) ConfigFiles() []string { return []string{c.Command.File(c.Dir), c.catalogFile()} }

// catalogFile returns the path of the catalog, or "".
func (c *Config) catalogFile() (path string) {
	_ = json.Unmarshal(c.Catalog, &path) // fails for an inline catalog
	return path
}

// catalog returns the catalog; nil: there is none.
func (c *Config) catalog() ([]byte, error) {
	if file := c.catalogFile(); file != "" {
		return os.ReadFile(file)
	}
	return c.Catalog, nil
}

// OwnFile returns the field and the path of the checkpoint.
func (c Config) OwnFile() (field, path string) { return "checkpoint", c.Checkpoint }

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	programs.CheckEnv(c.Env, report)
	if c.Config.Document != nil && doc.Kind(c.Config.Document) != doc.Object {
		report("config", "expected a mapping", "write {name: value, …}")
	}
	if kind := doc.Kind(c.Catalog); kind != doc.Missing && kind != doc.Object && c.catalogFile() == "" {
		report("catalog", "expected a mapping or a path", "write {streams: […]}, or the name of a file")
	}
	catalog := c.Catalog != nil || len(c.Select) > 0
	passed := map[string]bool{"--config": c.Config.Document != nil, "--catalog": catalog, "--properties": catalog, "--state": true,
		"--discover": true}
	for _, arg := range c.Command {
		if flag, _, _ := strings.Cut(arg, "="); passed[flag] {
			report("command", "flowd itself passes "+flag+" to the tap", "remove it: see config, catalog, select and checkpoint")
		}
	}
	for _, pattern := range c.Select {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			report("select", fmt.Sprintf("%q is not a valid pattern", pattern), `write a name, or * and ? for parts of it`)
		}
	}
	if c.Properties && !catalog {
		report("properties", "there is no catalog to pass", "add catalog or select, or remove it")
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"tap": "write `command`", "executable": "write `command`", "args": "write `command: [program, argument, …]`",
		"settings": "write `config`", "streams": "write `select`", "state": "write `checkpoint`", "schedule": "write `interval`",
		"max_buffer": "write `max_line`",
	}
}

const about = `
Runs a Singer tap, and reads the records that it writes. Taps exist for several hundred
databases and services: see https://hub.meltano.com. Install one, for example in a Python
environment of its own, and write the path of its program.

The payload of a message is the record, unchanged. Metadata: stream, key_properties (a
list), schema (the stream's JSON Schema), and version and time_extracted if the record has
them. ACTIVATE_VERSION is not passed on. A BATCH line, which names files, is an error.

The tap writes its state after some of the records. flowd saves it in checkpoint once all
messages before it are settled, and passes it to the next run. What follows the last saved
state is read again after a crash, so a record may arrive twice. Without checkpoint, each
start of flowd reads from the tap's own beginning.

A tap that ends with status 0 has read everything: the input ends, or waits for interval.
Any other end is an error, and so is a line that is not a Singer message. The tap is then
run again from the last state that it wrote, after a growing pause: see restart. What it
writes to standard error is logged.

config, catalog and state are passed as temporary files that only flowd's user can read.
They are removed when the tap has ended, unless flowd is killed. If the tap reads faster
than its messages are processed, it waits. When flowd stops, the tap gets SIGTERM; if it is
still running 2s later, it is killed along with everything that it has started.

    inputs:
      customers:
        singer:
          command: /opt/tap-postgres/bin/tap-postgres
          config: {host: db.example, dbname: shop, user: flowd, password: "${PGPASSWORD:-secret}"}
          select: [public-customers, public-order*]
          checkpoint: shop.checkpoint
          interval: 15m
`

func init() {
	engine.Register(engine.Inputs, "singer", about, defaults, newInput)
}
