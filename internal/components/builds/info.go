package builds

import "runtime/debug"

// Info describes the source that this flowd was built from.
type Info struct {
	Version  string // "(devel)" where Go recorded none
	Revision string // of the commit; "" outside of a repository
	Date     string // of the commit, as RFC 3339
	Modified bool   // the working tree had changes
}

// Source returns what Go recorded about the source of this build.
func Source() Info {
	i := Info{Version: "(devel)"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return i
	}
	const module = "github.com/flowd-io/flowd" // a custom build has a version of its own
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" && m.Replace == nil {
			i.Version = m.Version
		}
	}
	if info.Main.Path != module {
		return i
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Revision = s.Value
		case "vcs.time":
			i.Date = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}
