package tables

import (
	"bytes"
	"math/big"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/flowd-io/flowd/engine/doc"
)

// database is a database of networks in MaxMind's format.
func database(t testing.TB, version int, records map[string]mmdbtype.DataType) string {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-City", IPVersion: version, RecordSize: 24,
		IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for network, record := range records {
		_, n, err := net.ParseCIDR(network)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Insert(n, record); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var cities = map[string]mmdbtype.DataType{
	"192.0.2.0/24": mmdbtype.Map{"city": mmdbtype.Map{"geoname_id": mmdbtype.Uint32(1),
		"names": mmdbtype.Map{"en": mmdbtype.String("Ulm")}},
		"location": mmdbtype.Map{"latitude": mmdbtype.Float64(48.4), "metro": mmdbtype.Uint16(7)}},
	"2001:db8::/32": mmdbtype.Map{"all": mmdbtype.Slice{mmdbtype.Bool(true), mmdbtype.Int32(-5), mmdbtype.Float32(0.5),
		mmdbtype.Bytes("\x00\xff"), mmdbtype.Uint64(1 << 63), (*mmdbtype.Uint128)(big.NewInt(9))}},
}

func TestNetworks(t *testing.T) {
	made := table(t, `{"file": "x.mmdb"}`, "x.mmdb", database(t, 6, cities))
	ulm := object{"city": object{"geoname_id": 1, "names": object{"en": "Ulm"}}, "location": object{"latitude": 48.4,
		"metro": 7}}
	for ip, want := range map[string]any{
		"192.0.2.7": ulm, "::ffff:192.0.2.9": ulm, "198.51.100.1": nil, "2001:db9::1": nil,
		"2001:db8::1": object{"all": []any{true, -5, 0.5, "AP8=", doc.Number("9223372036854775808"), 9}},
	} {
		for range 2 { // as it is made, and as it is kept
			got, err := made.Lookup(ip)
			if diff := cmp.Diff(got, want); diff != "" || err != nil {
				t.Errorf("%s: %v, -got +want:\n%s", ip, err, diff)
			}
		}
	}
	for key, want := range map[any]string{"192.0.2": `"192.0.2" is not an IP address`, "": "is not an IP address",
		7: "the key is an IP address as text", nil: "the key is an IP address as text"} {
		if v, err := made.Lookup(key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, %v, want %q", key, v, err, want)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() { _, _ = made.Lookup("192.0.2.7") }); allocs > 1 { // the list of keys
		t.Errorf("a lookup allocates %v times", allocs)
	}
	if !made.Networks() || Only(map[string]*Table{"geo": made}) != "geo" || Only(map[string]*Table{"geo": made,
		"b": made}) != "" {
		t.Error("the only database is not found, or one of two is")
	}
	old := table(t, `{"file": "x.mmdb"}`, "x.mmdb", database(t, 4,
		map[string]mmdbtype.DataType{"192.0.2.0/24": mmdbtype.String("x")}))
	if v, err := old.Lookup("2001:db8::1"); v != nil || err != nil {
		t.Errorf("IPv6 in a database of IPv4: got %v, %v, want nothing", v, err)
	}
	for _, ip := range []string{"192.0.2.1", "::ffff:192.0.2.1"} {
		if v, err := old.Lookup(ip); v != "x" || err != nil {
			t.Errorf("%s: got %v, %v, want x", ip, v, err)
		}
	}
	n := old.now.Load().content.(*networks)
	for i := range n.made { // records of which none is at its offset
		n.made[i].Store(&record{uintptr(len(n.made)*(len(n.made)+1) + i), "another"})
	}
	if v, err := old.Lookup("192.0.2.1"); v != "x" || err != nil {
		t.Errorf("got %v, %v, want x and not what was kept in its place", v, err)
	}
}

// A database that is cut or changed is refused, or lookups in it fail or find something.
func FuzzNetworks(f *testing.F) {
	good := database(f, 6, cities)
	f.Add([]byte(good), "192.0.2.7")
	f.Add([]byte(good[:len(good)/2]), "::1")
	f.Add([]byte(strings.ReplaceAll(good, "city", "\xff\xff\xff\xff")), "2001:db8::1")
	f.Fuzz(func(t *testing.T, data []byte, ip string) {
		c, err := parse(&Config{MaxSize: 1 << 20}, "mmdb", data)
		if err != nil {
			return
		}
		for _, key := range []string{ip, "192.0.2.7", "2001:db8::1"} {
			v, err := c.find([]any{key})
			if err != nil {
				continue
			}
			if _, err := doc.Append(nil, v); err != nil && !strings.Contains(err.Error(), "not UTF-8") { // which says so itself
				t.Errorf("%s: a record is not a value of a document: %v", key, err)
			}
		}
	})
}

// What is a table has as many rows as it tells, of which each is a valid value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"id,n\na,1\n", "id\n\"a\nb\"\n", `{"id":1}` + "\n" + `{"id":"x","b":[1e5]}`,
		`[{"id":1},{"id":2}]`,
		`{"a":{"b":1}}`, "- id: a\n- id: b\n", "a: &x {b: 1}\nc: *x\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for format, key := range map[string][]string{"csv": {"id"}, "ndjson": {"id"}, "json": {"id"}, "yaml": nil} {
			const most = 64 << 10
			c, err := parse(&Config{MaxSize: most, Key: key, Numbers: true}, format, data)
			if err != nil {
				continue
			}
			r := c.(*rows)
			if len(r.index) != len(r.spans) {
				t.Errorf("%s: %d rows, %d keys", format, len(r.spans), len(r.index))
			}
			if n, size := c.size(); n != len(r.spans) || size > 3*most {
				t.Errorf("%s: %d rows take %d bytes", format, n, size)
			}
			for i, s := range r.spans {
				text, err := r.text[s.from:s.to], error(nil)
				if r.parse != nil {
					text, err = r.parse.object(text)
				}
				if err == nil {
					err = valid(text)
				}
				if err != nil {
					t.Errorf("%s: row %d: %v", format, i, err)
				}
			}
		}
	})
}
