package schedule

import (
	"testing"
	"time"
)

func TestCron(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("2006-01-02 15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	tests := []struct{ cron, from, want string }{
		{"* * * * *", "2026-01-01 00:00", "2026-01-01 00:01"},
		{"30 2 * * *", "2026-01-01 02:30", "2026-01-02 02:30"},
		{"0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00"},
		{"0 9-17/4 * * mon-fri", "2026-01-02 17:00", "2026-01-05 09:00"},
		{"0 0 1,15 * *", "2026-01-02 00:00", "2026-01-15 00:00"},
		{"0 0 13 * fri", "2026-02-14 00:00", "2026-02-20 00:00"}, // either is enough
		{"0 0 * * 7", "2026-01-01 00:00", "2026-01-04 00:00"},
		{"59 23 31 dec *", "2026-12-31 23:59", "2027-12-31 23:59"},
	}
	for _, tt := range tests {
		c, err := parseCron(tt.cron)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.next(at(tt.from)); !got.Equal(at(tt.want)) {
			t.Errorf("%q after %s: got %v, want %s", tt.cron, tt.from, got, tt.want)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	for _, s := range []string{"1s", "*/5 * * * *", "0 9-17/4 1,2 jan mon-fri", "* * 31 2 *", "1/99999999999 * * * *"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err != nil {
			return
		}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if next := s.Next(now); !next.After(now) {
			t.Errorf("%q: %v is not after %v", text, next, now)
		}
	})
}
