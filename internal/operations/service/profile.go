package service

import (
	"fmt"
	"net/http"
	"net/http/pprof" // #nosec G108 -- its handlers are on http.DefaultServeMux, which nothing serves
	"net/url"
	runtime "runtime/pprof"
	"strconv"
	"time"
)

// maxProfile is how long a profile may be recorded, in seconds.
const maxProfile = 300

// profile serves what net/http/pprof serves, for `go tool pprof`, except for the command line, which may have secrets:
// profile (the CPU), trace, heap, goroutine, and other profiles that the runtime collects. A profile names functions and
// lines, and contains no data of messages.
func profile(w http.ResponseWriter, r *http.Request) {
	seconds, err := recordFor(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	// Recording may take longer than reading a request. pprof extends the time for writing the response.
	deadline := time.Now().Add(answerTimeout + time.Duration(seconds)*time.Second)
	if err := http.NewResponseController(w).SetReadDeadline(deadline); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	switch name := r.PathValue("profile"); {
	case name == "profile":
		pprof.Profile(w, r)
	case name == "trace":
		pprof.Trace(w, r)
	case runtime.Lookup(name) != nil:
		pprof.Handler(name).ServeHTTP(w, r)
	default:
		refuse(w, http.StatusNotFound,
			"there is no profile "+shorten(name)+" (there are profile, trace, heap, allocs, goroutine, block and mutex)")
	}
}

// recordFor returns how long a profile is to be recorded, in seconds. Without a value, CPU profiles take 30 seconds.
func recordFor(q url.Values) (int, error) {
	if !q.Has("seconds") {
		return 30, nil
	}
	text := q.Get("seconds")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxProfile {
		return 0, fmt.Errorf("seconds: %s is not a whole number from 1 to %d", shorten(strconv.Quote(text)), maxProfile)
	}
	return n, nil
}
