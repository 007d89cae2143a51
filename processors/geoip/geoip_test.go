package geoip

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/state/tables"
	"github.com/flowd-io/flowd/schema"
)

// step returns a geoip step with this configuration (JSON), and a table of cities.
func step(t *testing.T, config string) engine.Processor {
	t.Helper()
	n, err := schema.ParseJSON(config)
	if err != nil {
		t.Fatal(err)
	}
	d := schema.NewDecoder(nil)
	var c Config
	d.Decode(n, &c)
	if len(d.Problems()) > 0 {
		t.Fatal(d.Problems())
	}
	cities := tables.ForTest("cities", tables.Config{File: database(t), MaxSize: 1 << 20}, nil)
	names := tables.ForTest("names", tables.Config{MaxSize: 1 << 20}, []byte(`{"192.0.2.7": "known"}`))
	for _, table := range []*tables.Table{cities, names} {
		if err := table.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tables.Fill(d, map[string]*tables.Table{"cities": cities, "names": names})
	p, err := build(c, engine.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// database writes a database of networks.
func database(t *testing.T) (path string) {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-City", RecordSize: 24, IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	_, network, _ := net.ParseCIDR("192.0.2.0/24")
	names := func(en, de string) mmdbtype.Map {
		return mmdbtype.Map{"en": mmdbtype.String(en), "de": mmdbtype.String(de)}
	}
	err = w.Insert(network, mmdbtype.Map{
		"country":      mmdbtype.Map{"iso_code": mmdbtype.String("DE"), "names": names("Germany", "Deutschland")},
		"subdivisions": mmdbtype.Slice{mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String("Bavaria")}}},
		"names":        mmdbtype.String("text"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "cities.mmdb")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGeoIP(t *testing.T) {
	const whole = `{"country":{"iso_code":"DE","names":{"de":"Deutschland","en":"Germany"}},"names":"text",` +
		`"subdivisions":[{"names":{"en":"Bavaria"}}]}`
	tests := []struct{ name, config, in, want string }{
		{"the record as it is", `{"ip": "ip", "into": "geo"}`, `{"ip":"192.0.2.7"}`,
			`{"ip":"192.0.2.7","geo":` + whole + `}`},
		{"names in one language", `{"ip": "a.ip", "into": "a.geo", "language": "de", "table": "cities"}`,
			`{"a":{"ip":"::ffff:192.0.2.7"}}`,
			`{"a":{"ip":"::ffff:192.0.2.7","geo":{"country":{"iso_code":"DE","name":"Deutschland"},"names":"text",` +
				`"subdivisions":[{"name":"Bavaria"}]}}}`},
		{"an unknown address", `{"ip": "ip", "into": "geo", "language": "en"}`, `{"ip":"198.51.100.1"}`,
			`{"ip":"198.51.100.1","geo":null}`},
		{"the whole document", `{"ip": "ip", "into": "this"}`, `{"ip":"192.0.2.7"}`, whole},
		{"no address", `{"ip": "ip", "into": "geo"}`, `{"ip":"-"}`, `failed permanent: geoip: "-" is not an IP address`},
		{"nothing", `{"ip": "ip", "into": "geo"}`, `{}`, `failed permanent: geoip: the key is an IP address as text`},
		{"a payload that is no document", `{"ip": "ip", "into": "geo"}`, `nope`, `failed decode: `},
		{"no such table", `{"ip": "ip", "into": "geo", "table": "citis"}`, `{"ip":"192.0.2.7"}`,
			`failed permanent: there is no table "citis" (did you mean "cities"?)`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, o := range enginetest.Apply(t, step(t, test.config), test.in) {
				got := o.Body
				if o.Err != nil {
					got = "failed " + string(o.Err.Class) + ": " + o.Err.Error()
				}
				if got != test.want && (!strings.HasPrefix(test.want, "failed") || !strings.HasPrefix(got, test.want)) {
					t.Errorf("got %s, want %s", got, test.want)
				}
			}
		})
	}
}

func TestGeoIPConforms(t *testing.T) {
	enginetest.Processor(t, func(t *testing.T) engine.Processor { return step(t, `{"ip": "ip", "into": "geo"}`) },
		`{"ip":"192.0.2.7"}`, `{"ip":"2001:db8::1"}`)
}
