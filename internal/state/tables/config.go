// Package tables implements `resources.tables`, which the function lookup() and the step `geoip` use. Start at
// [Config] and [Table].
package tables

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Config configures one table.
type Config struct {
	File      string          `yaml:"file,main" doc:"The file. It is read before anything else, and again when it has changed; until the new version is complete, the old one stays in use. Write a new file under another name and rename it."`
	URL       string          `yaml:"url" doc:"Instead of a file: an http or https URL, which is checked every interval for a newer version (by ETag and Last-Modified)."`
	SQL       *Query          `yaml:"sql" doc:"Instead of a file: the rows of a query, which is run again every interval."`
	Format    string          `yaml:"format" check:"oneof=csv|ndjson|json|yaml|mmdb" doc:"Format; by default the extension of the file or URL decides (.csv, .tsv, .ndjson, .jsonl, .json, .yaml, .yml, .mmdb). json and yaml are a list of objects, or an object by key; mmdb is a database of networks, looked up by IP address."`
	Key       engine.Names    `yaml:"key" doc:"Field or column that is the key of a row, or a list of several. They are names, not paths. Objects by key and databases of networks need none."`
	Columns   []string        `yaml:"columns" doc:"Names of the columns of CSV without a header line."`
	Delimiter codec.Delimiter `yaml:"delimiter" doc:"The character between values of CSV; a comma by default, a tab for .tsv."`
	Numbers   bool            `yaml:"numbers" doc:"CSV values that are JSON numbers become numbers; otherwise all are text."`
	MaxSize   schema.Size     `yaml:"max_size" check:"min=1KiB,max=2GiB" default:"256MiB" doc:"Maximum size of the file, and about how much memory the table may take. A new version takes as much again while it is read."`
	Interval  time.Duration   `yaml:"interval" check:"min=100ms" doc:"How often the file is checked, 1s by default, or the URL or database queried, 5m by default."`
	Timeout   time.Duration   `yaml:"timeout" check:"min=1ms,max=1h" default:"30s" doc:"Time limit for a complete response of the URL or database."`
	Auth      httpx.Auth      `yaml:"auth" doc:"Credentials to send to the URL."`
	TLS       tlsconf.Client  `yaml:"tls" doc:"TLS settings for the URL other than the system's defaults."`
	Place     schema.Place    `yaml:",place"`
}

// Words are words of other systems, with what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{
		"path": "write `file`", "source": "write `file` or `url`", "primary_key": "write `key`", "keys": "write `key`",
		"index": "write `key`", "database": "write `sql`", "type": "write `format`", "refresh": "write `interval`",
		"refresh_interval": "write `interval`",
		"header":           "write `columns` if there is no header line", "separator": "write `delimiter`",
	}
}

// ConfigFiles returns the file, which no output may write to.
func (c Config) ConfigFiles() []string { return []string{c.File} }

// formats maps extensions to formats.
var formats = map[string]string{
	".csv": "csv", ".tsv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "json", ".yaml": "yaml",
	".yml": "yaml", ".mmdb": "mmdb",
}

// extension returns the extension of the file, or of the URL's path.
func (c *Config) extension() string {
	path := c.File
	if u, err := url.Parse(c.URL); err == nil && c.URL != "" {
		path = u.Path
	}
	return strings.ToLower(filepath.Ext(path))
}

// remote reports whether the table comes from a server.
func (c *Config) remote() bool { return c.URL != "" || c.SQL != nil }

// format returns the format of the table, or "".
func (c *Config) format() string {
	switch {
	case c.SQL != nil:
		return "json"
	case c.Format != "":
		return c.Format
	}
	return formats[c.extension()]
}

// CheckConfig reports settings that can't be a table.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	format := c.format()
	switch {
	case c.File == "" && !c.remote():
		report("", "has neither a file nor a URL nor sql", "write `file: lookup.csv`")
	case c.SQL != nil && (c.File != "" || c.URL != ""):
		report("sql", "a table has a file, a URL or sql", "keep one")
	case c.File != "" && c.URL != "":
		report("url", "a table has a file, a URL or sql", "keep one")
	case c.SQL != nil && c.Format != "":
		report("format", "the rows of a database have none", "remove it")
	case format == "":
		report("", fmt.Sprintf("the extension %q does not determine the format", c.extension()),
			"write `format: csv`, or ndjson, json, yaml, mmdb")
	}
	c.checkURL(report)
	c.checkKey(format, report)
	if format != "csv" && format != "" {
		set := map[string]bool{"columns": len(c.Columns) > 0, "delimiter": c.Delimiter != 0, "numbers": c.Numbers}
		for field, is := range set {
			if is {
				report(field, "is for CSV only", "remove it")
			}
		}
	}
}

func (c *Config) checkKey(format string, report func(path, message, remedy string)) {
	for i, k := range c.Key {
		switch {
		case k == "":
			report("key", "it contains an empty name", "write the name of a field")
		case slices.Index(c.Key, k) < i:
			report("key", fmt.Sprintf("names %q twice", k), "remove one")
		case format == "csv" && len(c.Columns) > 0 && !slices.Contains(c.Columns, k):
			report("key", fmt.Sprintf("there is no column %q", k), schema.Suggest(k, c.Columns, "name a column"))
		}
	}
	switch {
	case len(c.Key) == 0 && (format == "csv" || format == "ndjson" || c.SQL != nil):
		report("key", "required", "write the name of the column by which rows are looked up, such as `key: id`")
	case len(c.Key) > 0 && format == "mmdb":
		report("key", "a database of networks is looked up by IP address", "remove it")
	}
}

func (c *Config) checkURL(report func(path, message, remedy string)) {
	if c.URL == "" {
		if c.Auth != (httpx.Auth{}) {
			report("auth", "is for a URL only", "remove it")
		}
		return
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		report("url", "is not an http or https URL", "write one such as https://host/items.csv")
	case u.User != nil:
		report("url", "contains credentials, which would be shown wherever the URL is", "write them under `auth`")
	}
}
