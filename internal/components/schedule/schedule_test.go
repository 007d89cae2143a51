package schedule

import (
	"strings"
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
		{"*/9223372036854775807 * * * *", "2026-01-01 00:30", "2026-01-01 01:00"},
		{"0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00"},
		{"0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"},
		{"0 9-17/4 * * mon-fri", "2026-01-02 17:00", "2026-01-05 09:00"},
		{"0 0 1,15 * *", "2026-01-02 00:00", "2026-01-15 00:00"},
		{"0 0 13 * fri", "2026-02-14 00:00", "2026-02-20 00:00"},  // either is enough
		{"0 0 */2 * fri", "2026-02-14 00:00", "2026-02-27 00:00"}, // both are needed, as for every cron
		{"0 0 ? * fri", "2026-02-14 00:00", "2026-02-20 00:00"},   // ? is *
		{"0 0 * * 7", "2026-01-01 00:00", "2026-01-04 00:00"},
		{"0 0 * * 7-7", "2026-01-01 00:00", "2026-01-04 00:00"},
		{"0 0 * * sat-7", "2026-01-03 00:00", "2026-01-04 00:00"},
		{"0 0 * * 1-7/3", "2026-01-01 00:00", "2026-01-04 00:00"}, // Monday, Thursday and Sunday
		{"0 0 * * 2-7/3", "2026-01-03 00:00", "2026-01-06 00:00"}, // Tuesday and Friday
		{"59 23 31 dec *", "2026-12-31 23:59", "2027-12-31 23:59"},
		{"@daily", "2026-01-01 00:00", "2026-01-02 00:00"},
		{"@weekly", "2026-01-01 00:00", "2026-01-04 00:00"},
		{"TZ=Europe/Zurich 30 2 * * *", "2026-01-01 02:30", "2026-01-02 01:30"},
		{"CRON_TZ=Europe/Zurich @daily", "2026-07-01 00:00", "2026-07-01 22:00"},
		{"TZ=Europe/Zurich 30 2 * * *", "2026-03-28 12:00", "2026-03-30 00:30"}, // the clock skips 2:30 on March 29
		{"TZ=Europe/Zurich 30 2 * * *", "2026-10-25 00:29", "2026-10-25 00:30"}, // and shows it twice on October 25
		{"TZ=Europe/Zurich 30 2 * * *", "2026-10-25 00:30", "2026-10-25 01:30"},
	}
	for _, tt := range tests {
		s, err := parse(tt.cron)
		if err != nil {
			t.Errorf("%q: %v", tt.cron, err)
			continue
		}
		if got := s.Next(at(tt.from)); !got.Equal(at(tt.want)) {
			t.Errorf("%q after %s: got %v, want %s", tt.cron, tt.from, got, tt.want)
		}
	}
}

func TestWhatIsNotASchedule(t *testing.T) {
	for text, want := range map[string]string{
		"often":                          `"often" is neither a duration nor a cron expression of five fields`,
		"":                               "is neither a duration nor a cron expression of five fields",
		"-1s":                            `interval "-1s" is not positive`,
		"0 0 31 2 *":                     "names a date that does not exist",
		"60 * * * *":                     `minute "60": end of range (60) above maximum (59): 60`,
		"* 24 * * *":                     `hour "24": end of range (24) above maximum (23): 24`,
		"* * * * fry":                    `weekday "fry": failed to parse int from fry`,
		"* * * * 8-7":                    `weekday "8-7": `,
		"5-1 * * * *":                    `minute "5-1": beginning of range (5) beyond end of range (1): 5-1`,
		"*/0 * * * *":                    `minute "*/0": step of range should be a positive number: */0`,
		"*/99999999999999999999 * * * *": `minute "*/99999999999999999999": failed to parse int from 99999999999999999999`,
		"1,, * * * *":                    `minute "1,,": "" is not a number`,
		"*-5 * * * *":                    `minute "*-5": "*-5" is not a number`,
		"@every 1h":                      "@every is not a cron expression (write the duration alone)",
		"@reboot":                        `"@reboot" is unknown (use @yearly, @monthly, @weekly, @daily or @hourly)`,
		"TZ=Europe/Zurich":               "is neither a duration nor a cron expression of five fields",
		"TZ= 0 0 * * *":                  `"" is not a valid time zone (write a name such as Europe/Zurich)`,
		"TZ=Local 0 0 * * *":             `"Local" is not a valid time zone`,
		"TZ=Zurich 0 0 * * *":            `"Zurich" is not a valid time zone`,
		"TZ=UTC TZ=UTC 0 0 * *":          `minute "TZ=UTC": "TZ=UTC" is not a number`,
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	for _, s := range []string{"1s", "*/5 * * * *", "0 9-17/4 1,2 jan mon-fri", "* * 31 2 *", "1/99999999999 * * * *",
		"*/9223372036854775807 * * * *", "TZ=America/Sao_Paulo 0 0 * * *", "TZ=Australia/Lord_Howe 15 2 1-7 4,10 7",
		"CRON_TZ=Africa/Casablanca @hourly", "TZ=", "TZ=UTC", "@every 1h", "0 0 * * 1-7/2"} {
		f.Add(s, int64(1767225600))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		s, err := parse(text)
		if err != nil {
			return
		}
		now := time.Unix(1_400_000_000+max(unix, -unix, 0)%(250*365*24*3600), 0).UTC()
		for range 20 {
			due := s.Next(now)
			if !due.After(now) {
				t.Fatalf("%q: %v is not after %v", text, due, now)
			}
			now = due
		}
	})
}
