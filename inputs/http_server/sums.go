package httpserver

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/flowd-io/flowd/internal/components/reply"
)

// mostListed is how many messages get a result each. The results of a larger request are summed up, unless messages get replies.
const mostListed = 100

// sum is the result of all messages that ended in the same way.
type sum struct {
	verdict
	Count int   `json:"count"`
	At    []int `json:"at,omitempty"` // the first of them that did not succeed, by index
}

// sums are the results of a request with many messages. Their number is bounded, however different the results are.
type sums struct {
	all   []sum
	named int // indexes in all of them
}

// add counts a result.
func (s *sums) add(v verdict, index int) {
	x := s.of(v)
	x.Count++
	x.delay = max(x.delay, v.delay)
	if v.Status != http.StatusOK && s.named < mostListed {
		x.At = append(x.At, index)
		s.named++
	}
}

// of returns the sum in which v counts. When there are many sums, errors no longer distinguish them.
func (s *sums) of(v verdict) *sum {
	alike := func(x *sum) bool { return x.Status == v.Status && x.fate == v.fate && x.Class == v.Class }
	for i := range s.all {
		if x := &s.all[i]; alike(x) && x.Error == v.Error && x.Ref == v.Ref {
			return x
		}
	}
	if len(s.all) >= mostSums {
		for i := range s.all {
			if alike(&s.all[i]) {
				return &s.all[i]
			}
		}
	}
	s.all = append(s.all, sum{verdict: v})
	return &s.all[len(s.all)-1]
}

// mostSums is how many sums errors may distinguish.
const mostSums = 20

// answerSums answers a request whose messages have been summed up, the worst first.
func (in *input) answerSums(w http.ResponseWriter, r *request, draining bool) {
	all, n := r.sums.all, 0
	for i := range all {
		all[i].settle(draining)
		slices.Sort(all[i].At)
		n += all[i].Count
	}
	slices.SortStableFunc(all, func(a, b sum) int {
		return cmp.Compare(reply.Severity(b.Status), reply.Severity(a.Status))
	})
	worst := &all[0]
	if worst.Status == http.StatusServiceUnavailable {
		retryAfter(w, worst.delay)
	}
	in.respond(w, worst.Status, map[string]any{"status": worst.Status, "count": n, "summary": all})
}
