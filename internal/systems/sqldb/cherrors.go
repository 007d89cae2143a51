package sqldb

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
)

// chException is an error of ClickHouse.
type chException struct {
	code int
	text string
}

func (e *chException) Error() string { return e.text }

// chCode is how an error begins, in all versions; newer ones say at its end what the number means.
var (
	chCode  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Code: (\d+)[.,] `) })
	chNoise = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Code: \d+[.,] (?:e\.displayText\(\) = )?|DB::Exception: |` +
			`, (?:e\.what\(\) = DB::|Stack trace).*$| \(version [^()]*(?:\([^()]*\))?\)`)
	})
)

// exception reads an error, and is nil for text that is none.
func (p *chPool) exception(text []byte) error {
	at := chCode().FindSubmatchIndex(text)
	if at == nil {
		return nil
	}
	code, err := strconv.Atoi(string(text[at[2]:at[3]]))
	if err != nil {
		return nil
	}
	if code == unknownSetting || slices.Contains(chNoSuch, code) {
		p.forget() // the server, or the table, is another one
	}
	said, _, marked := strings.Cut(string(text[at[0]:]), "\n__exception__")
	if marked { // the last line before has its length, and a tag
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
	chSaid         = 500 // bytes that are shown of an error: one of syntax lists all that might follow
	unknownSetting = 115
)

// refused is the error of an answer that is one.
func (p *chPool) refused(res *http.Response, text []byte) error {
	if err := p.exception(text); err != nil {
		return err
	}
	said := strings.ToValidUTF8(string(bytes.TrimSpace(text)), "\uFFFD")
	err := fmt.Errorf("%s: %s: %.300q", p.url.Host, res.Status, said)
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden:
		return engine.WithClass(engine.Auth, remedied(err, checkLogin))
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		return held(err)
	}
	return held(remedied(err, "this is not ClickHouse: the dsn is to name its port for HTTP")) // or what stands before it
}

// What the numbers of errors mean.
var (
	chLogin  = []int{192, 193, 194, 195, 516}
	chGrant  = []int{291, 482, 492, 497}
	chNoSuch = []int{8, 10, 16, 47, 60, 81}
	chMisfit = []int{6, 13, 19, 20, 21, 22, 25, 26, 27, 32, 38, 41, 53, 69, 70, 72, 117, 120, 128, 130, 131, 153, 190, 248,
		321, 349, 366, 376, 395, 407, 441, 467, 469, 490, 675, 676, 691}
	chTimeout = []int{159, 160}
	chOutage  = []int{3, 23, 24, 33, 74, 75, 76, 77, 95, 96, 97, 171, 172, 173, 198, 201, 202, 203, 204, 209, 210, 216, 218,
		225, 236, 241, 242, 243, 252, 254, 265, 279, 285, 286, 289, 297, 319, 369, 394, 410, 415, 416, 425, 439, 499, 519,
		999}
	chMistake = []int{34, 35, 36, 42, 43, 44, 45, 46, 48, 50, 51, 52, 62, 63, 73, 78, 80, 115, 158, 164, 179, 181, 184, 206,
		207, 215, 229, 307, 344, 386, 392, 396, 446, 452, 456, 457, 471, 472}
)

// ofClickHouse goes by the number.
func ofClickHouse(e *chException) error {
	has := func(codes []int) bool { return slices.Contains(codes, e.code) }
	says := func(part string) bool { return strings.Contains(e.text, part) }
	switch {
	case has(chLogin):
		return engine.WithClass(engine.Auth, remedied(e, checkLogin))
	case has(chGrant):
		return engine.WithClass(engine.Auth, remedied(e, grant))
	case e.code == 164:
		return engine.WithClass(engine.Auth, remedied(e, "give the user a profile with readonly = 2, not 1"))
	case has(chNoSuch):
		return missing(e)
	case e.code == 36 && says("for type Enum"), e.code == 49 && says("Unknown element"),
		e.code == 252 && says("partitions for single INSERT"), has(chMisfit):
		return engine.WithClass(engine.Rejected, e)
	case has(chTimeout):
		return engine.WithClass(engine.Timeout, e)
	case e.code >= 1000 && says("No space left"), has(chOutage):
		return held(e)
	case has(chMistake):
		return engine.WithClass(engine.Permanent, e)
	}
	return engine.WithClass(engine.Transient, e)
}
