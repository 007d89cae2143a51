package test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var shownBy = regexp.MustCompile(`(?m)^  flowd (?:docs )?(\w.+)\n(?:\n|\z)`)

// TestDocsAnswerQuestions searches for the words of users, and expects the page that answers among the first hits.
func TestDocsAnswerQuestions(t *testing.T) {
	for words, want := range map[string]string{
		"retry forever":                       "failures#retries",
		"exactly once":                        "kafka#exactly-once",
		"dead letter":                         "failures#dead-letters",
		"replay dead letters":                 "cookbook#replay-dead-letters",
		"cron":                                "language#schedules",
		"cron timezone":                       "language#schedules",
		"order_by":                            "engine#order_by",
		"rate limit":                          "limits",
		"environment variable":                "language#environment-variables-and-secrets",
		"mask email":                          "cookbook#mask-cards-and-e-mail-addresses-anywhere",
		"parse date":                          "language#times",
		"nginx":                               "cookbook#tail-nginx-logs-into-hourly-files",
		"elasticsearch bulk":                  "cookbook#bulk-requests-with-errors-per-item",
		"join two streams":                    "cookbook#join-two-streams-with-a-timeout",
		"fan out":                             "cookbook#fan-out-with-one-bad-output",
		"grok":                                "formats#grok",
		"how do I split an array":             "from-benthos#split-an-array-into-messages",
		"prometheus":                          "operations#for-scrapers-and-probes",
		"kubernetes":                          "operations#on-kubernetes",
		"mock a step in a test":               "testing#mocks",
		"consumer lag":                        "kafka#lag",
		"embedded nats sync":                  "queues#an-embedded-server",
		"remove duplicates":                   "from-benthos#remove-duplicates",
		"lookup csv":                          "language#tables",
		"session window":                      "windows",
		"poll an API every night":             "cookbook#poll-an-api-daily-at-0230-in-berlin",
		"hide credit card numbers":            "cookbook#mask-cards-and-e-mail-addresses-anywhere",
		"backpressure":                        "operations#memory",
		"graceful shutdown":                   "lifecycle#drain",
		"deduplicate":                         "from-benthos#remove-duplicates",
		"elasticsearch":                       "cookbook#bulk-requests-with-errors-per-item",
		"set a constant string":               "language#constant-text",
		"regex replace":                       "function re_replace",
		"draw the routes of messages":         "graph --help",
		"purge a queue":                       "queue purge --help",
		"rate limit drop":                     "limits#dropping-instead-of-waiting",
		"two machines":                        "tutorial#6-two-machines",
		"what happens when an output is down": "failures#outputs-that-fail",
	} {
		got := flowd(t, repo, "", append([]string{"docs", "--search"}, strings.Fields(words)...)...)
		got.Want(t, 0)
		var pages []string
		for _, m := range shownBy.FindAllStringSubmatch(got.Stdout, 3) {
			pages = append(pages, m[1])
		}
		if !slices.Contains(pages, want) {
			t.Errorf("%s: %q, want %s", words, pages, want)
		}
		for line := range strings.Lines(got.Stdout) {
			if len([]rune(line)) > 100 {
				t.Errorf("%s: a line is too long: %s", words, line)
			}
		}
	}
}
