package redis

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/bounds"
)

// replies is a [bounds.Check] of the answers of a server, in version 2 of its protocol, or in version 3, which the client
// speaks with sentinels. The client would make room for as
// many parts as a list announces, and read lists in lists until the stack overflows.
type replies struct {
	most int64 // what one reply may take, in bytes

	line []byte  // as much of a line as has come
	pass int64   // bytes of a text that are still to come, with its end of line
	open []int64 // parts that are still to come, of each list that is open
	size int64   // what this reply takes so far
}

// How answers begin: lines, texts, lists, and maps. Attributes, which come before answers, are not asked for.
const (
	kindsOfText = "$=!"
	kindsOfList = "*~>"
	kindsOfMap  = "%"
	kinds       = "+-:_#,(" + kindsOfText + kindsOfList + kindsOfMap
)

const (
	longestLine = 64 << 10 // an error, or a number
	deepestList = 128      // lists in lists
	perPart     = 32       // bytes that the client needs for a part of a list, beside its text
)

var errNotRedis = errors.New("the server does not speak the protocol of Redis")

// Check implements [bounds.Check].
func (r *replies) Check(p []byte) error {
	for len(p) > 0 {
		if r.pass > 0 {
			n := min(r.pass, int64(len(p)))
			p, r.pass = p[n:], r.pass-n
			if r.pass == 0 {
				r.ended()
			}
			continue
		}
		end := bytes.IndexByte(p, '\n')
		line := p[:end+1]
		if end < 0 {
			line = p
		}
		if len(r.line) == 0 && !bytes.ContainsRune([]byte(kinds), rune(line[0])) {
			return fmt.Errorf("%w: it begins an answer with %q", errNotRedis, line[0])
		}
		if len(r.line)+len(line) > longestLine {
			return fmt.Errorf("%w: a line has over %d bytes", errNotRedis, longestLine)
		}
		p = p[len(line):]
		if end < 0 {
			r.line = append(r.line, line...)
			return nil
		}
		if len(r.line) > 0 {
			r.line = append(r.line, line...)
			line = r.line
		}
		if err := r.begins(line); err != nil {
			return err
		}
		r.line = r.line[:0]
	}
	return nil
}

// begins takes a whole line.
func (r *replies) begins(line []byte) error {
	kind, rest := line[0], bytes.TrimSuffix(line[1:], []byte("\r\n"))
	if len(rest) == len(line)-1 {
		return fmt.Errorf("%w: a line does not end with CR and LF", errNotRedis)
	}
	r.size += perPart
	n := int64(0)
	if strings.IndexByte(kindsOfText+kindsOfList+kindsOfMap, kind) >= 0 {
		var err error
		if n, err = strconv.ParseInt(string(rest), 10, 64); err != nil || n < -1 {
			return fmt.Errorf("%w: %.20q is not a length", errNotRedis, rest)
		}
	} else {
		r.size += int64(len(rest))
	}
	switch {
	case n < 0: // nil
	case strings.IndexByte(kindsOfText, kind) >= 0:
		if n > r.most-r.size {
			return r.tooLarge()
		}
		r.size += n
		r.pass = n + 2
		return nil
	case n > 0:
		if n > (r.most-r.size)/perPart/2 && strings.IndexByte(kindsOfMap, kind) >= 0 || n > (r.most-r.size)/perPart {
			return r.tooLarge()
		}
		if strings.IndexByte(kindsOfMap, kind) >= 0 {
			n *= 2
		}
		if len(r.open) == deepestList {
			return fmt.Errorf("%w: lists are nested more than %d deep", errNotRedis, deepestList)
		}
		r.open = append(r.open, n)
		return nil
	}
	if r.size > r.most {
		return r.tooLarge()
	}
	r.ended()
	return nil
}

// ended notes that a part is complete, and with it perhaps the lists that it is the last part of.
func (r *replies) ended() {
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
	return bounds.TooLarge("the server's reply needs more than max_reply, %d bytes (raise it, if replies may be that large)",
		r.most)
}
