package config

import (
	"fmt"

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
