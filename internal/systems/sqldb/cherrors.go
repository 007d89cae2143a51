package sqldb

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
)

// chException is an error of ClickHouse.
type chException struct {
	code int
	text string
}

func (e *chException) Error() string { return e.text }

// chCode matches the beginning of an error in all versions. Newer versions also have the name of the error at its end.
var (
	chCode  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Code: (\d+)[.,] `) })
	chNoise = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Code: \d+[.,] (?:e\.displayText\(\) = )?|DB::Exception: |` +
			`, (?:e\.what\(\) = DB::|Stack trace).*$| \(version [^()]*(?:\([^()]*\))?\)`)
	})
)

// exception returns the error in a text, or nil if the text is not an error.
func (p *chPool) exception(text []byte) error {
	match := chCode().FindSubmatchIndex(text)
	if match == nil {
		return nil
	}
	code, err := strconv.Atoi(string(text[match[2]:match[3]]))
	if err != nil {
		return nil
	}
	if code == unknownSetting || slices.Contains(chMissing, code) {
		p.forget() // the server was replaced, or the table altered
	}
	said, _, marked := strings.Cut(string(text[match[0]:]), "\n__exception__")
	if marked { // the line before the mark has the length of the error and a tag
		said = said[:max(0, strings.LastIndexByte(strings.TrimSpace(said), '\n'))]
	}
	said = strings.Join(strings.Fields(strings.ToValidUTF8(said, "\uFFFD")), " ")
	said = chNoise().ReplaceAllString(said, "")
	if len(said) > chSaid {
		said = strings.ToValidUTF8(said[:chSaid], "") + "…"
	}
	return &chException{code, fmt.Sprintf("%s (code %d)", strings.TrimRight(said, " .:"), code)}
}

const (
	chSaid         = 500 // bytes that are shown of an error; a syntax error lists all tokens that the parser expected
	unknownSetting = 115
)

// answerError returns the error that an answer with a status other than 200 means.
func (p *chPool) answerError(res *http.Response, text []byte) error {
	if err := p.exception(text); err != nil {
		return err
	}
	said := strings.ToValidUTF8(string(bytes.TrimSpace(text)), "\uFFFD")
	shown := fmt.Sprintf("%s: %s: %.300q", p.url.Host, res.Status, said)
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden:
		return engine.Errorf(engine.Auth, "%s (%s)", shown, checkLogin)
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		return cause.Held(errors.New(shown))
	}
	// The answer may come from a proxy in front of ClickHouse.
	return cause.Held(fmt.Errorf("%s (this is not ClickHouse: write its HTTP port in the dsn)", shown))
}

// clickhouseCauses says what the error numbers of ClickHouse mean. Unknown errors are retried.
var clickhouseCauses = sync.OnceValue(func() *cause.Table {
	return &cause.Table{Code: chNumber, Rows: []cause.Row{
		{Codes: codes(192, 193, 194, 195, 516), Kind: cause.Credentials, Remedy: checkLogin},
		{Codes: codes(291, 482, 492, 497), Kind: cause.Credentials, Remedy: grant},
		{Codes: codes(164), Kind: cause.Credentials, Remedy: "give the user a profile with readonly = 2, not 1"},
		{Codes: codes(chMissing...), Kind: cause.Awaited, Remedy: createTable, Means: errMissing},
		{Codes: codes(6, 13, 19, 20, 21, 22, 25, 26, 27, 32, 38, 41, 53, 69, 70, 72, 117, 120, 128, 130, 131, 153, 190, 248, 321,
			349, 366, 376, 395, 407, 441, 467, 469, 490, 675, 676, 691), If: chBlamesRow, Kind: cause.Rejected},
		{Codes: codes(159, 160), Kind: cause.Slow},
		{Codes: codes(3, 23, 24, 33, 74, 75, 76, 77, 95, 96, 97, 171, 172, 173, 198, 201, 202, 203, 204, 209, 210, 216, 218, 225,
			236, 241, 242, 243, 252, 254, 265, 279, 285, 286, 289, 297, 319, 369, 394, 410, 415, 416, 425, 439, 499, 519, 999),
			If: chDiskFull, Kind: cause.Busy},
		{Codes: codes(34, 35, 36, 42, 43, 44, 45, 46, 48, 50, 51, 52, 62, 63, 73, 78, 80, unknownSetting, 158, 179, 181, 184, 206,
			207, 215, 229, 307, 344, 386, 392, 396, 446, 452, 456, 457, 471, 472), Kind: cause.Misconfigured},
	}}
})

// chMissing are the numbers of errors about a database, table or column that does not exist.
var chMissing = []int{8, 10, 16, 47, 60, 81}

func chNumber(err error) (code, text string) {
	if e, ok := errors.AsType[*chException](err); ok {
		return strconv.Itoa(e.code), e.text
	}
	return "", ""
}

// chBlamesRow reports whether an error is about a value, where the number alone does not say so.
func chBlamesRow(err error) bool {
	e, ok := errors.AsType[*chException](err)
	if !ok {
		return false
	}
	switch e.code {
	case 36:
		return strings.Contains(e.text, "for type Enum")
	case 49:
		return strings.Contains(e.text, "Unknown element")
	case 252:
		return strings.Contains(e.text, "partitions for single INSERT")
	}
	return false
}

func chDiskFull(err error) bool {
	e, ok := errors.AsType[*chException](err)
	return ok && e.code >= 1000 && strings.Contains(e.text, "No space left")
}
