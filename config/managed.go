package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/internal/systems/secrets"
	"github.com/flowd-io/flowd/schema"
)

// unread is the code of a secret that is not read, since only a run asks secrets managers. The value counts as known, but
// what needs it is not built.
const unread = "unread-secret"

// managed are the secrets of secrets managers that the files use.
type managed struct {
	configs map[string]*secrets.Config // by kind
	names   []string                   // of placeholders

	values  schema.Lookup // nil: none has been read
	lint    bool          // no manager is asked, or its settings have an error that is reported
	testing bool
}

func (m *managed) lookup(name string) (string, bool, error) {
	switch err := secrets.Check(name); {
	case err != nil:
		return "", false, err
	case m.values != nil:
		return m.values(name)
	case m.testing:
		return "", false, secrets.Missing("flowd test asks no secrets managers", "give a default: ${"+name+":-…}")
	case m.lint:
		return "", false, &schema.LookupError{Code: unread, Err: errors.New("is not read")}
	}
	return "", false, &schema.LookupError{Err: errors.New("secrets can't be used here"), Remedy: "use ${NAME} or ${file:PATH}"}
}

// manage reads the secrets that placeholders in the files refer to, if the options have a store for them.
func (l *loader) manage() {
	m := &l.managed
	m.configs = map[string]*secrets.Config{}
	for _, f := range slices.Concat(l.files, l.parts) {
		settings := f.root.Find("resources", "secrets")
		l.managers(f, settings)
		placeholders(f.root, settings, func(_ *schema.Node, name string) { m.names = append(m.names, name) })
	}
	if !m.lint && len(m.names) > 0 {
		m.values = l.options.Managers.Read(m.configs, m.names, l.options.instead != nil, l.options.Log)
	}
}

// RenewSecrets makes Options.Managers read the secrets of this set again as often as `refresh` says, in place of those of the
// set before it.
func (s *Set) RenewSecrets() {
	if l := s.loader; l.options.Managers != nil {
		l.options.Managers.Renew(l.managed.configs, l.managed.names, l.options.Log)
	}
}

// managers adds the configurations of secrets managers in a file, by their kind.
func (l *loader) managers(f *file, settings *schema.Node) {
	if settings == nil {
		return
	}
	placeholders(settings, nil, func(n *schema.Node, name string) {
		l.managed.lint = true
		l.report(n.Problem(schema.Problem{Code: schema.BadPlaceholder, Path: "resources.secrets",
			Message: fmt.Sprintf("${%s} is in the settings of a secrets manager, which can't come from one", name),
			Remedy:  "use ${NAME} or ${file:PATH}"}))
	})
	var found schema.Map[secrets.Config]
	if !schema.NewDecoder(l.options.Lookup).Decode(settings, &found) {
		l.managed.lint = true // decoding the whole file reports it
		return
	}
	for name, c := range found.All() {
		if l.managed.configs[c.Kind()] != nil {
			l.managed.lint = true
			l.complain(f.place().Key("resources", "secrets", name), schema.Problem{Code: "declared-twice",
				Message: fmt.Sprintf("resources.secrets already has a manager of type %s", c.Kind()),
				Remedy:  "remove one of them: placeholders can't tell them apart"})
		}
		l.managed.configs[c.Kind()] = &c
	}
}

// placeholders calls found for each secret that a node and the nodes in it refer to, also in defaults. It skips one node.
func placeholders(n, skip *schema.Node, found func(n *schema.Node, name string)) {
	if n == nil || n == skip {
		return
	}
	for _, item := range n.Items {
		placeholders(item, skip, found)
	}
	if n.Kind == schema.ListNode || n.Kind == schema.MapNode || !strings.Contains(n.Text, "${") {
		return
	}
	// Everything is empty, so that defaults are looked up, too. If it were missing, each placeholder would be a problem.
	d := schema.NewDecoder(func(name string) (string, bool, error) {
		if schema.Managed(name) {
			found(n, name)
		}
		return "", true, nil
	})
	d.Glance(n)
}

// withoutUnread removes the problems of secrets that are not read.
func (l *loader) withoutUnread() {
	if l.managed.lint {
		l.problems = slices.DeleteFunc(l.problems, func(p schema.Problem) bool { return p.Code == unread })
	}
}
