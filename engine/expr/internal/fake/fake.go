// Package fake makes values that look like data of people and machines, for test data.
// Start at [Of]. Addresses and numbers lead nowhere: domains are those that RFC 2606
// keeps free, IP addresses those of RFC 5737 and RFC 3849, phone numbers those of films.
package fake

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Of is a function that makes values of a kind: texts, numbers, or true and false. ok is false if there is no such kind.
func Of(kind string) (value func(r *rand.Rand) any, ok bool) {
	value, ok = kinds()[kind]
	return value, ok
}

// Kinds are all kinds, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }

// kinds is made on its first use.
var kinds = sync.OnceValue(func() map[string]func(r *rand.Rand) any {
	return map[string]func(r *rand.Rand) any{
		"name":          func(r *rand.Rand) any { return firstNames.one(r) + " " + lastNames.one(r) },
		"first_name":    func(r *rand.Rand) any { return firstNames.one(r) },
		"last_name":     func(r *rand.Rand) any { return lastNames.one(r) },
		"username":      func(r *rand.Rand) any { return username(r) },
		"email":         func(r *rand.Rand) any { return username(r) + "@" + domains.one(r) },
		"phone":         func(r *rand.Rand) any { return digits(r, "+1-2##-555-01##") },
		"job":           func(r *rand.Rand) any { return jobs.one(r) },
		"company":       func(r *rand.Rand) any { return lastNames.one(r) + " " + suffixes.one(r) },
		"product":       func(r *rand.Rand) any { return adjectives.one(r) + " " + nouns.one(r) },
		"sku":           func(r *rand.Rand) any { return strings.ToUpper(nouns.one(r)[:3]) + digits(r, "-#####") },
		"price":         func(r *rand.Rand) any { return float64(100+r.IntN(99_900)) / 100 },
		"color":         func(r *rand.Rand) any { return colors.one(r) },
		"hex_color":     func(r *rand.Rand) any { return fmt.Sprintf("#%06x", r.IntN(1<<24)) },
		"word":          func(r *rand.Rand) any { return nouns.one(r) },
		"sentence":      func(r *rand.Rand) any { return sentence(r) },
		"paragraph":     func(r *rand.Rand) any { return paragraph(r) },
		"street":        func(r *rand.Rand) any { return street(r) },
		"city":          func(r *rand.Rand) any { return cities.one(r) },
		"zip":           func(r *rand.Rand) any { return digits(r, "#####") },
		"address":       func(r *rand.Rand) any { return street(r) + ", " + digits(r, "#####") + " " + cities.one(r) },
		"country":       func(r *rand.Rand) any { return place(r, 0) },
		"country_code":  func(r *rand.Rand) any { return place(r, 1) },
		"currency":      func(r *rand.Rand) any { return place(r, 2) },
		"language":      func(r *rand.Rand) any { return place(r, 3) },
		"time_zone":     func(r *rand.Rand) any { return zones.one(r) },
		"latitude":      func(r *rand.Rand) any { return float64(r.IntN(180_000_001)-90_000_000) / 1e6 },
		"longitude":     func(r *rand.Rand) any { return float64(r.IntN(360_000_001)-180_000_000) / 1e6 },
		"date":          func(r *rand.Rand) any { return moment(r).Format(time.DateOnly) },
		"timestamp":     func(r *rand.Rand) any { return moment(r).Format(time.RFC3339) },
		"bool":          func(r *rand.Rand) any { return r.IntN(2) == 1 },
		"digit":         func(r *rand.Rand) any { return r.IntN(10) },
		"int":           func(r *rand.Rand) any { return r.IntN(1_000_000) },
		"float":         func(r *rand.Rand) any { return r.Float64() },
		"domain":        func(r *rand.Rand) any { return nouns.one(r) + "." + domains.one(r) },
		"url":           func(r *rand.Rand) any { return "https://" + domains.one(r) + path(r) },
		"path":          func(r *rand.Rand) any { return path(r) },
		"hostname":      func(r *rand.Rand) any { return nouns.one(r) + digits(r, "-##") },
		"ipv4":          func(r *rand.Rand) any { return ipv4(r) },
		"ipv6":          func(r *rand.Rand) any { return ipv6(r) },
		"mac":           func(r *rand.Rand) any { return mac(r) },
		"user_agent":    func(r *rand.Rand) any { return agents.one(r) },
		"http_method":   func(r *rand.Rand) any { return methods.one(r) },
		"http_status":   func(r *rand.Rand) any { return statuses[r.IntN(len(statuses))] },
		"log_level":     func(r *rand.Rand) any { return levels.one(r) },
		"mime_type":     func(r *rand.Rand) any { return mimeTypes.one(r) },
		"file_name":     func(r *rand.Rand) any { return nouns.one(r) + digits(r, "_##.") + endings.one(r) },
		"version":       func(r *rand.Rand) any { return fmt.Sprintf("%d.%d.%d", r.IntN(10), r.IntN(20), r.IntN(50)) },
		"password":      func(r *rand.Rand) any { return password(r) },
		"credit_card":   func(r *rand.Rand) any { return card(r) },
		"iban":          func(r *rand.Rand) any { return iban(r) },
		"license_plate": func(r *rand.Rand) any { return letters(r, 3) + digits(r, "-####") },
	}
})

func place(r *rand.Rand, column int) string { return strings.Split(places.one(r), "|")[column] }

func username(r *rand.Rand) string {
	return strings.ToLower(firstNames.one(r)) + "." + strings.ToLower(lastNames.one(r)) + strconv.Itoa(r.IntN(1000))
}

func street(r *rand.Rand) string {
	return strconv.Itoa(1+r.IntN(200)) + " " + capital(nouns.one(r)) + " " + streets.one(r)
}

func path(r *rand.Rand) string { return "/" + nouns.one(r) + "/" + digits(r, "####") }

func ipv4(r *rand.Rand) string {
	return []string{"192.0.2.", "198.51.100.", "203.0.113."}[r.IntN(3)] + strconv.Itoa(1+r.IntN(254))
}

func ipv6(r *rand.Rand) string {
	part := func() int { return 1 + r.IntN(0xffff) }
	return fmt.Sprintf("2001:db8:%x:%x::%x", part(), part(), part())
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func sentence(r *rand.Rand) string {
	return fmt.Sprintf("The %s %s %s the %s %s.", adjectives.one(r), nouns.one(r), verbs.one(r), adjectives.one(r),
		nouns.one(r))
}

func paragraph(r *rand.Rand) string {
	all := make([]string, 3+r.IntN(4))
	for i := range all {
		all[i] = sentence(r)
	}
	return strings.Join(all, " ")
}

// digits is a form with a digit in place of each #.
func digits(r *rand.Rand, form string) string {
	text := []byte(form)
	for i := range text {
		if text[i] == '#' {
			text[i] = byte('0' + r.IntN(10))
		}
	}
	return string(text)
}

func letters(r *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('A' + r.IntN(26))
	}
	return string(text)
}

func password(r *rand.Rand) string {
	const from = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789!#%+-_=?"
	text := make([]byte, 14)
	for i := range text {
		text[i] = from[r.IntN(len(from))]
	}
	return string(text)
}

// mac is a locally administered address.
func mac(r *rand.Rand) string {
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256))
}

// moment is a time in the years 2020 to 2025. It must repeat with the same seed, so it does not depend on the clock.
func moment(r *rand.Rand) time.Time {
	from := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	return from.Add(time.Duration(r.IntN(6*365*24*3600)) * time.Second)
}

// card is a number in the form of Visa's cards, with a valid check digit.
func card(r *rand.Rand) string {
	text := digits(r, "4##############")
	sum := 0
	for i := range len(text) {
		d := int(text[i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return text + strconv.Itoa((10-sum%10)%10)
}

// iban is a German IBAN with valid check digits.
func iban(r *rand.Rand) string {
	account := digits(r, "##################")
	rest := 0
	for _, d := range account + "131400" { // DE00
		rest = (rest*10 + int(d-'0')) % 97
	}
	return fmt.Sprintf("DE%02d%s", 98-rest, account)
}
