package config

import (
	"fmt"
	"net"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// ownFile is a config struct with a file that no other component may use. OwnFile returns the field that names the
// file, and its path, which may be "".
type ownFile interface{ OwnFile() (field, path string) }

// checkOwn rejects a second component that needs the same file for itself: it could not open the file.
func (l *loader) checkOwn() {
	type owner struct {
		file *engine.Reads
		at   schema.Place
	}
	var owners []owner
	seen := map[schema.Place]bool{} // several files may include the same component
	for _, f := range l.files {
		for _, c := range append(runtime.Components(f.spec.Pipeline), runtime.Components(f.spec.Resources.Caches)...) {
			own, ok := c.Config.(ownFile)
			if !ok || seen[schema.Place{Pos: c.Place.Pos, Path: c.Place.Path}] {
				continue
			}
			seen[schema.Place{Pos: c.Place.Pos, Path: c.Place.Path}] = true
			field, path := own.OwnFile()
			at := c.Place
			if path == "" || at.Node == nil {
				continue
			}
			if at.Node.Find(field) != nil {
				at = at.At(field)
			}
			for _, o := range owners {
				if _, same := o.file.Meet(path, true); same {
					l.complain(at, schema.Problem{Code: "shared-file",
						Message: fmt.Sprintf("%s is already used at %v, and can't be shared", path, o.at.Node.Pos),
						Remedy:  "give each component its own file"})
					break
				}
			}
			owners = append(owners, owner{engine.ReadFrom([]string{path}), at})
		}
	}
}

// readsFiles is a config struct of an input that reads files. FilesRead returns their paths, without patterns.
type readsFiles interface{ FilesRead() []string }

// writesFile is a config struct of an output that writes a file. FileWritten returns the field that names the file, and its
// path, which is "" if messages choose it.
type writesFile interface{ FileWritten() (field, path string) }

// checkFileLoops rejects an output, such as one for dead letters, that writes to a file that its own pipeline reads: the
// pipeline would read its own messages, without end.
func (l *loader) checkFileLoops() {
	for _, f := range l.files {
		all := runtime.Components(f.spec.Pipeline)
		for _, in := range all {
			r, reads := in.Config.(readsFiles)
			if !reads || in.Place.Node == nil {
				continue
			}
			read := engine.ReadFrom(r.FilesRead())
			for _, out := range all {
				w, writes := out.Config.(writesFile)
				if !writes || out.Place.Node == nil {
					continue
				}
				field, path := w.FileWritten()
				if path == "" {
					continue
				}
				if _, same := read.Meet(path, true); !same {
					continue
				}
				at := out.Place
				if at.Node.Find(field) != nil {
					at = at.At(field)
				}
				l.complain(at, schema.Problem{Code: "file-loop",
					Message: fmt.Sprintf("%s is read at %v, so the pipeline would read its own messages", path, in.Place.Node.Pos),
					Remedy:  "write to another file; flowd dlq replay sends dead letters through a pipeline again"})
			}
		}
	}
}

// ownAddresses is a config struct with addresses that the component listens on. OwnAddresses calls report with the field that has
// an address, and the address.
type ownAddresses interface {
	OwnAddresses(report func(field, address string))
}

// checkPorts rejects a second listener on the port of another one: whichever opened it first would have it.
func (l *loader) checkPorts() {
	type owner struct {
		host string
		at   schema.Place
	}
	owners := map[string][]owner{} // by port
	check := func(at schema.Place, address string) {
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "" || port == "0" || at.Node == nil {
			return
		}
		for _, o := range owners[port] {
			if o.host == host || anyHost(o.host) || anyHost(host) {
				l.complain(at, schema.Problem{Code: "shared-port",
					Message: fmt.Sprintf("port %s is already used at %v", port, o.at.Node.Pos),
					Remedy:  "give each listener its own port"})
				return
			}
		}
		owners[port] = append(owners[port], owner{host, at})
	}
	if s := l.service(); s.Listen != "" {
		check(l.placeOf("service").At("listen"), s.Listen)
	}
	for _, f := range l.files {
		for _, c := range runtime.Components(f.spec.Pipeline) {
			own, ok := c.Config.(ownAddresses)
			if !ok {
				continue
			}
			own.OwnAddresses(func(field, address string) {
				at := c.Place
				if at.Node != nil && at.Node.Find(field) != nil {
					at = at.At(field)
				}
				check(at, address)
			})
		}
	}
}
