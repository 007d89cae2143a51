package config

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// ownFile is a config struct with a file that no other component may use: the field that names it, and its path, which
// may be "".
type ownFile interface{ OwnFile() (field, path string) }

// checkOwn refuses a second component with a file that one has for itself: it could not be opened.
func (l *loader) checkOwn() {
	type owner struct {
		file *engine.Reads
		at   schema.Place
	}
	var owners []owner
	seen := map[schema.Place]bool{} // what files include is in each of them
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
						Remedy:  "give each its own file"})
					break
				}
			}
			owners = append(owners, owner{engine.ReadFrom([]string{path}), at})
		}
	}
}
