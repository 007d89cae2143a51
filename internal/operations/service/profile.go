package service

import (
	"net/http"
	"runtime/pprof"
)

// profile answers with a profile of the process, for `go tool pprof`: heap, allocs, goroutine, or another that the runtime
// collects by itself. A profile names functions and lines, and holds no data of messages.
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
