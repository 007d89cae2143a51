package redis

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/network/bounds"
)

// replies is a [bounds.Check] of the answers of a server, in version 2 or 3 of the protocol. The client library uses version 3 with
// sentinels. It would allocate memory for as many parts as a list announces, and read nested lists until the stack overflows. See
// [newReplies].
type replies struct {
	bounds.Lines
	most int64   // largest size of a reply, in bytes
	open []int64 // of each list that has begun: how many parts are missing
	size int64   // size of the current reply so far
}

func newReplies(most int64) *replies {
	r := &replies{most: most}
	r.Lines = bounds.Lines{First: first, Next: r.next, Strange: errNotRedis}
	return r
}

// The first bytes of answers: lines, texts, lists, and maps. The client does not ask for attributes, which come before answers.
const (
	kindsOfText = "$=!"
	kindsOfList = "*~>"
	kindsOfMap  = "%"
	kinds       = "+-:_#,(" + kindsOfText + kindsOfList + kindsOfMap
)

const (
	longestLine = 64 << 10 // bytes of an error or a number
	deepestList = 128      // nesting of lists
	perPart     = 32       // bytes that the client needs for a part of a list in addition to its text
)

var errNotRedis = errors.New("the server does not speak the protocol of Redis")

// first implements [bounds.Lines.First].
func first(kind byte) (most int, err error) {
	if strings.IndexByte(kinds, kind) < 0 {
		return 0, fmt.Errorf("%w: an answer begins with %q", errNotRedis, kind)
	}
	return longestLine, nil
}

// next implements [bounds.Lines.Next].
func (r *replies) next(line []byte) (pass int64, err error) {
	kind, rest := line[0], bytes.TrimSuffix(line[1:], []byte("\r\n"))
	if len(rest) == len(line)-1 {
		return 0, fmt.Errorf("%w: a line does not end with CR and LF", errNotRedis)
	}
	n := int64(-1) // the reply has no further bytes or parts
	if strings.IndexByte(kindsOfText+kindsOfList+kindsOfMap, kind) < 0 {
		r.size += int64(len(rest))
	} else if n, err = strconv.ParseInt(string(rest), 10, 64); err != nil || n < -1 {
		return 0, fmt.Errorf("%w: %.20q is not a length", errNotRedis, rest)
	}
	r.size += perPart
	parts := int64(0)
	switch {
	case n < 0:
	case strings.IndexByte(kindsOfText, kind) >= 0:
		if n > r.most-r.size {
			return 0, r.tooLarge()
		}
		r.size += n
		pass = n + int64(len("\r\n"))
	case strings.IndexByte(kindsOfMap, kind) >= 0:
		parts = 2 * min(n, r.most) // min avoids an overflow, and r.most parts are too many
	default:
		parts = n
	}
	switch {
	case r.size > r.most, parts > (r.most-r.size)/perPart:
		return 0, r.tooLarge()
	case parts == 0:
		r.endPart()
	case len(r.open) == deepestList:
		return 0, fmt.Errorf("%w: lists are nested more than %d deep", errNotRedis, deepestList)
	default:
		r.open = append(r.open, parts)
	}
	return pass, nil
}

// endPart records that a part is complete, and with it the lists of which it is the last part.
func (r *replies) endPart() {
	for len(r.open) > 0 {
		last := len(r.open) - 1
		if r.open[last]--; r.open[last] > 0 {
			return
		}
		r.open = r.open[:last]
	}
	r.size = 0
}

func (r *replies) tooLarge() error {
	return bounds.TooLarge("the server's reply needs more than max_reply, %d bytes (raise max_reply if replies may be that large)",
		r.most)
}
