// Package geoip is the processor `geoip`: it looks up an IP address in a database of networks.
package geoip

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/state/tables"
)

// Config configures the geoip processor.
type Config struct {
	IP       tables.Key  `yaml:"ip" check:"required" doc:"The address, IPv4 or IPv6, as text."`
	Into     fields.Path `yaml:"into" check:"required" doc:"Field for the record of the network that contains the address; null if there is none."`
	Table    string      `yaml:"table" doc:"Table in resources.tables with the format mmdb; by default the only such table."`
	Language string      `yaml:"language" doc:"Language of names, such as en or zh-CN. Each names becomes a single name in this language, or in English if that is missing."`
}

// LooksUp returns the table.
func (c Config) LooksUp() (table, path string) { return c.Table, "table" }

// CheckConfig requires into.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if c.Into.IsZero() {
		report("into", "required", "write the field for the record, such as `into: geo`")
	}
}

// Words returns words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"source": "write `ip`", "field": "write `ip`", "target": "write `into`",
		"target_field": "write `into`", "database": "write `table`, the name of a table of `resources.tables`",
		"locale": "write `language`"}
}

const help = `
Looks up an IP address in a database of networks in MaxMind's format, such as GeoLite2 or
DB-IP, and stores the record in the document as it is in the database. The database is a table,
which is read before anything else and again when its file changes.

    processors:
      - geoip: {ip: client.ip, into: client.geo, language: en}
      - set: {country: client.geo.country.iso_code}

    resources:
      tables:
        cities: GeoLite2-City.mmdb

An address that is not in the database gives null. Text that is not an address fails the
message; write on_error: continue to leave such messages as they are. In an expression,
lookup("cities", client.ip).country.iso_code gives the same without a step.
`

func init() { engine.Register(engine.Processors, "geoip", help, Config{}, build) }

func build(c Config, _ engine.Env) (engine.Processor, error) {
	return engine.ProcessorFunc(c.process), nil
}

func (c *Config) process(_ context.Context, m *engine.Message) error {
	t, err := c.IP.Table(c.Table)
	if err != nil {
		return engine.WithClass(engine.Permanent, err)
	}
	ip, err := c.IP.Eval(m)
	if err != nil {
		return err
	}
	v, err := t.Lookup(ip)
	if err != nil {
		return fmt.Errorf("geoip: %w", err)
	}
	if c.Language != "" {
		v = c.translated(v)
	}
	return m.Set(c.Into.Path, v)
}

// translated copies a record, and replaces each names by one name. Records nest only a few levels.
func (c *Config) translated(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = c.translated(e)
		}
		return list
	case map[string]any:
		made := make(map[string]any, len(v))
		for key, e := range v {
			names, ok := e.(map[string]any)
			if key != "names" || !ok {
				made[key] = c.translated(e)
				continue
			}
			if name, ok := names[c.Language]; ok {
				made["name"] = name
			} else if name, ok := names["en"]; ok {
				made["name"] = name
			}
		}
		return made
	}
	return v
}
