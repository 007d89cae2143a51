package calendar

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// python runs a program over a list of cases, one JSON value per line, and returns what it prints for each.
func python(t *testing.T, program string, cases [][]any) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := exec.CommandContext(ctx, "python3", "-c", `import zoneinfo; zoneinfo.ZoneInfo("Europe/Zurich")`).Run(); err != nil {
		t.Skip("there is no python3 with time zones")
	}
	var in, problems bytes.Buffer
	if err := json.NewEncoder(&in).Encode(cases); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "python3", "-c", "import json, sys\n"+program)
	cmd.Stdin, cmd.Stderr = &in, &problems
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, problems.Bytes())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(cases) {
		t.Fatalf("python3 gave %d results of %d", len(lines), len(cases))
	}
	return lines
}

var oracleZones = []string{"UTC", "Europe/Zurich", "America/New_York", "America/St_Johns", "Asia/Kolkata", "Australia/Lord_Howe",
	"America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "America/Havana", "Atlantic/Azores", "Asia/Tehran"}

// Local times agree with Python's, even where a clock skips or repeats an hour.
func TestLocalTimesAreThoseOfPython(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var cases [][]any
	add := func(wall time.Time, zone string) {
		cases = append(cases, []any{wall.Format("2006-01-02T15:04:05"), zone})
	}
	for _, name := range oracleZones {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 200 {
			add(at.Add(time.Duration(rng.Int64N(100*365*24*60))*time.Minute), name)
		}
		for range 100 { // around each change
			if _, at = at.In(loc).ZoneBounds(); at.IsZero() {
				break
			}
			for _, d := range []time.Duration{-91, -60, -59, -30, -1, 0, 1, 29, 30, 59, 60, 61, 90} {
				add(wallOf(at).Add(d*time.Minute), name)
			}
		}
	}
	results := python(t, `
from datetime import datetime, timezone
from zoneinfo import ZoneInfo
for wall, zone in json.load(sys.stdin):
    print(datetime.fromisoformat(wall).replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc).isoformat())`, cases)
	for i, c := range cases {
		wall, _ := ParseISO(c[0].(string))
		loc, _ := time.LoadLocation(c[1].(string))
		if want, _ := ParseISO(results[i]); !fromWall(wall, loc).Equal(want) {
			t.Errorf("%s in %s: got %s, want %s", c[0], c[1], fromWall(wall, loc).UTC(), want)
		}
	}
}

// Each directive of Python writes the same text, and flowd reads what Python reads.
func TestDirectivesAreThoseOfPython(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var cases [][]any
	layouts := []string{"%Y|%y|%C|%m|%d|%e|%j|%H|%I|%M|%S|%f|%p|%a|%A|%b|%B|%h|%u|%w|%U|%W|%V|%G|%g|%s|%F|%T|%R|%D|%c|%x|%X|%r|%%",
		"%-d.%-m.%-H %_d %k %l %-j"}
	for _, l := range layouts {
		for range 500 {
			at := time.Unix(rng.Int64N(253402300800+30610224000)-30610224000, rng.Int64N(1e9)/1e3*1e3).UTC() // from 1000 on
			cases = append(cases, []any{at.Format("2006-01-02T15:04:05.000000+00:00"), l})
		}
	}
	results := python(t, `
from datetime import datetime
for at, layout in json.load(sys.stdin):
    print(datetime.fromisoformat(at).strftime(layout))`, cases)
	for i, c := range cases {
		at, why := ParseISO(c[0].(string))
		l := mustLayout(c[1].(string))
		if got := string(l.Append(nil, at)); got != results[i] || why != "" {
			t.Errorf("%s: got %s %s, want %s", c[0], got, why, results[i])
		}
	}
}

// flowd parses texts as Python's strptime does, including invalid ones.
func TestTextsAreReadAsPythonDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	pairs := [][2]string{
		{"%Y-%m-%d %H:%M:%S", "2026-01-02 15:04:05"}, {"%d/%b/%Y:%H:%M:%S %z", "02/Jan/2026:15:04:05 +0100"},
		{"%A, %d %B %Y", "Friday, 02 January 2026"}, {"%a %b %d %I:%M:%S %p %Y", "Fri Jan 02 03:04:05 PM 2026"},
		{"%y-%m-%d", "26-01-02"}, {"%Y %j", "2024 366"}, {"%G-W%V-%u", "2026-W53-7"}, {"%Y-%m-%dT%H:%M:%S.%f%z", "2026-01-02T15:04:05.123Z"},
	}
	var cases [][]any
	for _, p := range pairs {
		cases = append(cases, []any{p[1], p[0]})
		for range 400 {
			text := []byte(p[1])
			for range 1 + rng.IntN(2) {
				at := rng.IntN(len(text))
				switch rng.IntN(4) {
				case 0:
					text = append(text[:at:at], text[at+1:]...)
				default:
					text[at] = "0123456789 -:Aa"[rng.IntN(15)]
				}
				if len(text) == 0 {
					text = []byte("0")
				}
			}
			cases = append(cases, []any{string(text), p[0]})
		}
	}
	results := python(t, `
from datetime import datetime, timezone
for text, layout in json.load(sys.stdin):
    try:
        t = datetime.strptime(text, layout)
        if t.tzinfo is None:
            t = t.replace(tzinfo=timezone.utc)
        if "%G" in layout and t.isocalendar()[0] != int(text[:4]) or "%j" in layout and t.year != int(text[:4]):
            raise ValueError("older versions go on in the next year")
        print(t.isoformat())
    except (ValueError, OverflowError):
        print("-")`, cases)
	for i, c := range cases {
		at, why := mustLayout(c[1].(string)).Parse(c[0].(string), time.UTC)
		if want, none := ParseISO(results[i]); (why == "") != (none == "") || why == "" && !at.Equal(want) {
			t.Errorf("%q by %s: got %v %s, want %s", c[0], c[1], at, why, results[i])
		}
	}
}
