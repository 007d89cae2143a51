package reply

import (
	"encoding/json"
	"net/http"
	"slices"
	"unicode/utf8"
)

// Reply is the answer to a message.
type Reply struct {
	Status int // 0: determined by the message's fate
	Header http.Header
	Body   []byte

	dead bool // it comes from a dead letter
	part int
	ref  uint64
}

// size returns roughly how many bytes a reply holds.
func (r *Reply) size() int {
	n := len(r.Body) + 100
	for name, values := range r.Header {
		n += len(name) + 50
		for _, v := range values {
			n += len(v)
		}
	}
	return n
}

// Type returns the content type of a body.
func Type(body []byte) string {
	switch {
	case !utf8.Valid(body):
		return "application/octet-stream"
	case json.Valid(body):
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// JSON returns a body for embedding in JSON: JSON unchanged, anything else as text.
func JSON(body []byte) json.RawMessage {
	if utf8.Valid(body) && json.Valid(body) {
		return body
	}
	text, _ := json.Marshal(string(body)) // a string always has a JSON form
	return text
}

// join combines the replies to one message. If a split or several outputs made more than one, the body becomes a
// list, in the order of the parts. The status is the worst one; the headers are those of the first reply.
func join(all []Reply, dead bool) (Reply, bool) {
	if dead {
		all = slices.DeleteFunc(slices.Clone(all), func(r Reply) bool { return !r.dead })
	}
	switch {
	case len(all) == 0:
		return Reply{}, false
	case len(all) == 1 && all[0].part == 0:
		return all[0], true
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Reply) int { return a.part - b.part })
	joined := Reply{Header: all[0].Header.Clone(), Body: []byte{'['}}
	joined.Header.Del("Content-Type") // it described only one part
	for i, r := range all {
		if Severity(r.Status) > Severity(joined.Status) || i == 0 {
			joined.Status = r.Status
		}
		if i > 0 {
			joined.Body = append(joined.Body, ',')
		}
		joined.Body = append(joined.Body, JSON(r.Body)...)
	}
	joined.Body = append(joined.Body, ']')
	return joined, true
}

// Severity orders statuses from best to worst. A status that invites a retry is worse than a final one, so that the
// client does not give up a part.
func Severity(status int) int {
	switch {
	case status == http.StatusAccepted:
		return 1
	case status < 300:
		return 0
	case status == http.StatusBadRequest:
		return 2
	case status < 500:
		return 3
	case status == http.StatusGatewayTimeout:
		return 4
	}
	return 5
}
