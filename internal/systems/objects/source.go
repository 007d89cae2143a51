package objects

import (
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/schema"
)

// Source is the configuration that the inputs of all stores embed, with [Defaults].
type Source struct {
	Prefix              string `yaml:"prefix" doc:"Prefix of the objects' keys, such as logs/2026/."`
	framing.Config      `yaml:",inline"`
	framing.Compression `yaml:",inline"`
	Interval            time.Duration `yaml:"interval" check:"min=0s" doc:"List again after this time, for new or changed objects. Without it, the input ends after the last object."`
	Checkpoint          string        `yaml:"checkpoint" doc:"File that records which objects have been read, and how far: up to the first message that is not settled. A restart continues there, and does not read finished objects again."`
	After               After         `yaml:"after" doc:"What to do with an object once all its messages are settled; keep by default."`

	own *int // identifies this configuration, which the instances of an input share
}

// Defaults are the defaults of [Source].
var Defaults = Source{Config: framing.Defaults, Compression: framing.Compression{Compression: "auto"}}

// After is what becomes of an object. The zero After keeps it.
type After struct {
	Keep   *struct{}           `yaml:"keep" oneof:"after,optional" doc:"Leave it as it is."`
	Delete *struct{}           `yaml:"delete" oneof:"after,optional" doc:"Delete it."`
	Tag    *schema.Map[string] `yaml:"tag" oneof:"after,optional" doc:"Add these tags to its own."`
	Move   *string             `yaml:"move" oneof:"after,optional" doc:"Move it: this text replaces the input's prefix in its key. Keys that begin with this text are not read."`
}

// Check reports what can't work. notify says that there is a queue of notices. It is called once for each configuration, when
// that is read.
func (s *Source) Check(notify bool, report func(path, message, remedy string)) {
	s.own = new(int)
	if notify && s.Interval > 0 {
		report("interval", "is for listings, but `notify` names the objects to read", "remove one of them")
	}
	if to := s.After.Move; to != nil && strings.HasPrefix(s.Prefix, *to) {
		report("after.move", "moved objects would be read again: the input's prefix begins with it",
			"move to another prefix, such as done/")
	}
	if t := s.After.Tag; t != nil && (t.Len() == 0 || t.Len() > mostTags) {
		report("after.tag", "needs 1 to 10 tags", "write {tag: {processed: \"yes\"}}")
	}
}

// OwnFile returns the field and the path of the checkpoint.
func (s Source) OwnFile() (field, path string) { return "checkpoint", s.Checkpoint }

// mostTags bounds the tags of an object.
const mostTags = 10

// acts reports whether objects are changed after they have been read.
func (a *After) acts() bool { return a.Delete != nil || a.Tag != nil || a.Move != nil }

// stays reports whether objects that have been read are listed again.
func (a *After) stays() bool { return a.Delete == nil && a.Move == nil }

// wants reports whether an object is to be read. Markers of folders are not, nor are objects that were moved by `after`.
func (s *Source) wants(key string) bool {
	return strings.HasPrefix(key, s.Prefix) && !strings.HasSuffix(key, "/") &&
		(s.After.Move == nil || !strings.HasPrefix(key, *s.After.Move))
}

// Words returns what users of other systems may write, and what to write instead.
func Words() map[string]string {
	return map[string]string{
		"codec": "write `framing`", "scanner": "write `framing`", "poll_interval": "write `interval`",
		"delete_objects": "write `after: delete`", "delete": "write `after: delete`", "path": "write `key`",
		"sqs": "write `notify`", "force_path_style_urls": "write `path_style`", "force_path_style": "write `path_style`",
		"max_in_flight": "write `concurrency` beside the component", "kms_key_id": "write `encryption: {kms: KEY}`",
		"server_side_encryption": "write `encryption`", "tagging": "write `tags`", "object": "write `key`",
	}
}
