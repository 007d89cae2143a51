package cli

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/operations/pipetest"
	"github.com/flowd-io/flowd/schema"
)

const green = "32"

// testReport collects the outcomes of tests and shows them.
type testReport struct {
	out    io.Writer
	color  bool
	quiet  bool // write a document at the end instead
	runs   []*testRun
	failed int
}

// mostDifferences bounds the differences that are shown of a test.
const mostDifferences = 40

func (r *testReport) add(t *testRun) error {
	r.runs = append(r.runs, t)
	if t.failed() {
		r.failed++
	}
	if r.quiet {
		return nil
	}
	var b strings.Builder
	place := paint(r.color, dim, t.place())
	if !t.failed() {
		fmt.Fprintf(&b, "%s    %s  %s\n", paint(r.color, green, "ok"), printable(t.test.Name), place)
	} else {
		fmt.Fprintf(&b, "%s  %s  %s\n", paint(r.color, red, "FAIL"), printable(t.test.Name), place)
		r.differences(&b, t.result.Differences)
		if t.result.Log != "" {
			b.WriteString("      log\n")
			for line := range strings.Lines(t.result.Log) {
				b.WriteString(setIn(line, "        "))
			}
		}
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// masked masks secrets in a result, except in the messages that arrived, which --update writes to the file.
func masked(r pipetest.Result, secrets *schema.Secrets) pipetest.Result {
	for i := range r.Differences {
		d := &r.Differences[i]
		d.Want, d.Got = secrets.Mask(d.Want), secrets.Mask(d.Got)
	}
	r.Log = secrets.Mask(r.Log)
	return r
}

func (t *testRun) place() string {
	return t.pipeline.File + ":" + strconv.Itoa(t.test.Place.Pos.Line)
}

// differences writes each difference: place, field, and below them what was expected and what arrived.
func (r *testReport) differences(b *strings.Builder, all []pipetest.Difference) {
	at := ""
	for i, d := range all {
		if i == mostDifferences {
			fmt.Fprintf(b, "      and %s\n", plural(len(all)-i, "more difference"))
			return
		}
		if d.At != at {
			at = d.At
			b.WriteString("      " + printable(at) + "\n")
		}
		if d.Path != "" {
			b.WriteString("        " + printable(d.Path) + "\n")
		}
		if d.Want != "" {
			b.WriteString(paint(r.color, red, strings.TrimRight(setIn("- "+d.Want, "        "), "\n")) + "\n")
		}
		if d.Got != "" {
			b.WriteString(paint(r.color, green, strings.TrimRight(setIn("+ "+d.Got, "        "), "\n")) + "\n")
		}
	}
}

// setIn indents text, and its further lines more than the first.
func setIn(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(printable(text), "\n"), "\n", "\n"+by+"  ") + "\n"
}

// finish writes the requested reports.
func (r *testReport) finish(o testOptions) error {
	var errs []error
	if o.json {
		errs = append(errs, writeJSON(r.out, r.json()))
	}
	if o.junit != "" {
		errs = append(errs, r.junit(o.junit))
	}
	return errors.Join(errs...)
}

// testJSON is the JSON form of a test.
type testJSON struct {
	File        string                `json:"file"`
	Line        int                   `json:"line"`
	Pipeline    string                `json:"pipeline"`
	Name        string                `json:"name"`
	Passed      bool                  `json:"passed"`
	Seconds     float64               `json:"seconds"`         // real time
	Virtual     float64               `json:"virtual_seconds"` // time of the pipeline's clock
	Differences []pipetest.Difference `json:"differences,omitempty"`
}

func (r *testReport) json() any {
	doc := struct {
		Passed int        `json:"passed"`
		Failed int        `json:"failed"`
		Tests  []testJSON `json:"tests"`
	}{len(r.runs) - r.failed, r.failed, []testJSON{}}
	for _, t := range r.runs {
		doc.Tests = append(doc.Tests, testJSON{
			t.pipeline.File, t.test.Place.Pos.Line, t.pipeline.Spec.Name, t.test.Name, !t.failed(),
			t.took.Seconds(), t.result.Took.Seconds(), t.result.Differences,
		})
	}
	return doc
}

// The JUnit report for CI systems: one suite per file.
type (
	junitSuites struct {
		XMLName  xml.Name      `xml:"testsuites"`
		Tests    int           `xml:"tests,attr"`
		Failures int           `xml:"failures,attr"`
		Suites   []*junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		File     string      `xml:"file,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
		took     time.Duration
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",cdata"`
	}
)

func (r *testReport) junit(path string) error {
	doc := junitSuites{Tests: len(r.runs), Failures: r.failed}
	for _, t := range r.runs {
		if n := len(doc.Suites); n == 0 || doc.Suites[n-1].File != t.pipeline.File {
			doc.Suites = append(doc.Suites, &junitSuite{Name: t.pipeline.Spec.Name, File: t.pipeline.File})
		}
		s := doc.Suites[len(doc.Suites)-1]
		c := junitCase{Name: t.test.Name, Class: s.Name, File: s.File, Line: t.test.Place.Pos.Line,
			Time: inSeconds(t.took)}
		if t.failed() {
			var b strings.Builder
			(&testReport{}).differences(&b, t.result.Differences)
			first := t.result.Differences[0]
			c.Failure = &junitFailure{strings.Join(strings.Fields(first.At+" "+first.Path+": "+cmp.Or(first.Got,
				"missing")), " "), "\n" + strings.ToValidUTF8(b.String(), "\uFFFD")}
			s.Failures++
		}
		s.Tests++
		s.took += t.took
		s.Time = inSeconds(s.took)
		s.Cases = append(s.Cases, c)
	}
	text, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o666) // #nosec G306 -- a report for others, within the umask
}

func inSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
