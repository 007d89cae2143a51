package schema

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// fields are the fields of a struct in a configuration, including inlined ones.
type fields struct {
	list     []*field // in order
	by       map[string]*field
	main     *field
	groups   []group
	variant  []int // index of the Variant; nil: none
	optional bool  // the variant may be missing
	places   [][]int
	inlined  []inlined
}

// field is one key of a struct.
type field struct {
	name    string
	index   []int // for reflect's FieldByIndex
	shape   *shape
	tag     reflect.StructTag
	doc     string
	check   check
	def     string // the tag `default`
	group   string // of the tag `oneof`
	pending string
}

// group is a choice between fields.
type group struct {
	name     string
	optional bool
	members  []*field
}

// inlined is a struct whose fields belong to its outer struct.
type inlined struct {
	index    []int
	embedded bool // embedded, so its methods are promoted
}

// collect adds the fields of a struct at index in the outermost struct. around are the tags of the inline fields
// around it, which apply to fields without such a tag.
func (d *describer) collect(fs *fields, rt reflect.Type, index []int, around reflect.StructTag) {
	for i := range rt.NumField() {
		sf := rt.Field(i)
		tag, tagged := sf.Tag.Lookup("yaml")
		if tag == "-" || !sf.IsExported() && !tagged {
			continue
		}
		place := rt.String() + "." + sf.Name + ": "
		bad := func(why string) { panic("schema: " + place + why) }
		if !tagged {
			bad(`has no yaml tag; yaml:"-" leaves it out`)
		}
		at := append(append([]int(nil), index...), i)
		d.field = place
		name, options, _ := strings.Cut(tag, ",")
		switch options {
		case "inline":
			if sf.Type.Kind() != reflect.Struct {
				bad("only structs can be inline")
			}
			fs.inlined = append(fs.inlined, inlined{at, sf.Anonymous})
			d.collect(fs, sf.Type, at, sf.Tag+" "+around)
			continue
		case "place":
			if sf.Type != placeType {
				bad("a place is a schema.Place")
			}
			fs.places = append(fs.places, at)
			continue
		case "variant", "variant,optional":
			if fs.variant != nil || !reflect.PointerTo(sf.Type).Implements(variantType) {
				bad("a struct has one variant, a schema.Variant")
			}
			fs.variant, fs.optional = at, options != "variant"
			continue
		case "", "main":
		default:
			bad("unknown option " + options)
		}
		if !sf.IsExported() || name == "" || fs.by[name] != nil {
			bad("needs an exported field and a name of its own")
		}
		f := &field{
			name: name, index: at, shape: d.describe(sf.Type), tag: sf.Tag + " " + around,
			doc: sf.Tag.Get("doc"), def: sf.Tag.Get("default"), pending: sf.Tag.Get("pending"),
		}
		var err error
		if f.check, err = parseCheck(sf.Tag.Get("check"), f.shape.leaf()); err != nil {
			bad(err.Error())
		}
		if _, scalar := f.shape.scalar(); scalar && f.def != "" && f.shape.kind != customKind {
			if err := parse(reflect.New(sf.Type).Elem(), f.shape, f.def); err != nil {
				bad(fmt.Sprintf("default %q %v", f.def, err))
			}
		}
		if options == "main" {
			if fs.main != nil {
				bad("a struct has one main field")
			}
			fs.main = f
		}
		if oneof := sf.Tag.Get("oneof"); oneof != "" {
			if f.shape.kind != pointerKind {
				bad("a choice is between pointers")
			}
			fs.choose(f, oneof)
		}
		fs.list = append(fs.list, f)
		fs.by[name] = f
	}
}

// choose adds f to the group in its tag.
func (fs *fields) choose(f *field, tag string) {
	name, option, _ := strings.Cut(tag, ",")
	f.group = name
	for i, g := range fs.groups {
		if g.name == name {
			fs.groups[i].members = append(g.members, f)
			fs.groups[i].optional = g.optional || option == "optional"
			return
		}
	}
	fs.groups = append(fs.groups, group{name, option == "optional", []*field{f}})
}

// names returns the keys of all fields, in order.
func (fs *fields) names() []string { return namesOf(fs.list) }

// names returns the keys of the choices.
func (g *group) names() []string { return namesOf(g.members) }

func namesOf(list []*field) []string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = f.name
	}
	return names
}

// words returns the remedies for other systems' words that a struct knows, including those of inlined structs.
func (s *shape) words() map[string]string {
	all := map[string]string{}
	learn := func(rt reflect.Type) {
		if w, ok := reflect.New(rt).Interface().(Worder); ok {
			maps.Copy(all, w.Words())
		}
	}
	for _, in := range s.inlined {
		learn(s.rt.FieldByIndex(in.index).Type)
	}
	learn(s.rt)
	return all
}
