package service

import (
	"net/http"
	"runtime/pprof"
)

// profile serves a profile of the process, for `go tool pprof`: heap, allocs, goroutine, or another one that the
// runtime always collects. A profile names functions and lines, and contains no data of messages.
func profile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("profile")
	p := pprof.Lookup(name)
	if p == nil {
		refuse(w, http.StatusNotFound, "there is no profile "+shorten(name)+" (there are heap, allocs and goroutine)")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	debug := 0
	if r.URL.Query().Get("debug") != "" {
		debug = 1 // text instead of protobuf
	}
	_ = p.WriteTo(w, debug) // a client that is gone gets no answer
}
