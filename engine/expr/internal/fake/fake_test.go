package fake

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestEveryKindHasAValueThatASeedRepeats(t *testing.T) {
	if len(Kinds()) < 40 || !slices.IsSorted(Kinds()) {
		t.Errorf("got %d kinds: %v", len(Kinds()), Kinds())
	}
	for _, kind := range Kinds() {
		value, ok := Of(kind)
		if !ok {
			t.Fatalf("no %s", kind)
		}
		run := func(seed uint64) (all []any) {
			r := rand.New(rand.NewPCG(seed, 0))
			for range 50 {
				v := value(r)
				if s, ok := v.(string); ok && (s == "" || strings.Contains(s, "~") || s != strings.TrimSpace(s)) {
					t.Errorf("%s: got %q", kind, s)
				}
				all = append(all, v)
			}
			return all
		}
		first := run(1)
		if again := run(1); fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("%s: one seed gives different values", kind)
		}
		if fmt.Sprint(first) == fmt.Sprint(run(2)) {
			t.Errorf("%s: two seeds give the same", kind)
		}
	}
	if _, ok := Of("nothing"); ok {
		t.Error("there is a kind called nothing")
	}
}

// Values are valid for their kinds, as independent code reads them.
func TestValuesAreValid(t *testing.T) {
	valid := map[string]func(v any) bool{
		"email": func(v any) bool {
			a, err := mail.ParseAddress(v.(string))
			return err == nil && a.Address == v && strings.Contains(a.Address, "@example.")
		},
		"ipv4": func(v any) bool { a, err := netip.ParseAddr(v.(string)); return err == nil && a.Is4() },
		"ipv6": func(v any) bool {
			a, err := netip.ParseAddr(v.(string))
			return err == nil && netip.MustParsePrefix("2001:db8::/32").Contains(a)
		},
		"url":       func(v any) bool { u, err := url.Parse(v.(string)); return err == nil && u.Host != "" },
		"timestamp": func(v any) bool { _, err := time.Parse(time.RFC3339, v.(string)); return err == nil },
		"date":      func(v any) bool { _, err := time.Parse(time.DateOnly, v.(string)); return err == nil },
		"time_zone": func(v any) bool { _, err := time.LoadLocation(v.(string)); return err == nil },
		"latitude":  func(v any) bool { return v.(float64) >= -90 && v.(float64) <= 90 },
		"longitude": func(v any) bool { return v.(float64) >= -180 && v.(float64) <= 180 },
		"price":     func(v any) bool { return v.(float64) >= 1 && v.(float64) < 1000 },
		"credit_card": func(v any) bool {
			sum := 0
			for i, c := range v.(string) {
				d := int(c - '0')
				if i%2 == 0 {
					d = d*2/10 + d*2%10
				}
				sum += d
			}
			return len(v.(string)) == 16 && sum%10 == 0
		},
		"iban": func(v any) bool {
			s := v.(string)
			digits := ""
			for _, c := range s[4:] + s[:4] {
				if c >= 'A' {
					digits += strconv.Itoa(int(c-'A') + 10)
				} else {
					digits += string(c)
				}
			}
			n, ok := new(big.Int).SetString(digits, 10)
			return ok && n.Mod(n, big.NewInt(97)).Int64() == 1
		},
	}
	for kind, form := range map[string]string{
		"phone": `^\+1-2\d\d-555-01\d\d$`, "mac": `^02(:[0-9a-f]{2}){5}$`, "hex_color": `^#[0-9a-f]{6}$`,
		"country_code": `^[A-Z]{2}$`, "currency": `^[A-Z]{3}$`, "language": `^[a-z]{2}$`, "sku": `^[A-Z]{3}-\d{5}$`,
		"sentence": `^The [a-z ]+\.$`, "name": `^[A-Z][a-z]+ [A-Z][a-z]+$`, "version": `^\d+\.\d+\.\d+$`,
		"user_agent": `^[A-Za-z-]+/[\d.]+`, "password": `^\S{14}$`,
	} {
		re := regexp.MustCompile(form)
		valid[kind] = func(v any) bool { return re.MatchString(v.(string)) }
	}
	r := rand.New(rand.NewPCG(1, 2))
	for kind, ok := range valid {
		value, _ := Of(kind)
		for range 300 {
			if v := value(r); !ok(v) {
				t.Fatalf("%s: %v is not valid", kind, v)
			}
		}
	}
}
