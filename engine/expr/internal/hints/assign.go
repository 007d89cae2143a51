package hints

import (
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/memo"
)

var (
	bloblang = memo.Regexp(`(?m)^\s*(?:root[\w.]*\s*=[^=]|meta(?:\s+[\w"]+)?\s*=[^=]|let\s+\w+\s*=[^;\n]*\n\s*(?:root|let|meta|map)\b|` +
		`map\s+\w+\s*\{|(?:import|from)\s+")`)
	vrl = memo.Regexp(`^\s*(?:\.[\w."@\[\]]*\s*(?:\|?=[^=]|\?\?=)|del\(\s*\.|` +
		`if\s[^{}]*\{\s*\.[\w.]+\s*=[^=]|[a-z_]\w*\s*=\s*[a-z_]\w*!?\(\s*\.)`)
	setLine = memo.Regexp(`^\.([\w.]*)\s*=\s*([^=].*)$`)
	ifLine  = memo.Regexp(`^if\s+([^{}]*?)\s*\{\s*\.([\w.]+)\s*=\s*([^={}][^{};\n]*?)\s*\}$`)
	delLine = memo.Regexp(`^del\(\s*\.([\w.]+)\s*\)$`)
)

// IsBloblang reports whether code that is not valid is a mapping of Bloblang.
func IsBloblang(code string) bool { return bloblang().MatchString(code) }

// IsVRL reports whether code that is not valid begins with an assignment of VRL, Vector's language.
func IsVRL(code string) bool { return vrl().MatchString(code) }

// FromVRL gives the steps for assignments and deletions of VRL, each as an item of a list of steps. It is nil if some of the code
// is anything else.
func FromVRL(code string, l *Language) (steps []string) {
	if m := ifLine().FindStringSubmatch(strings.TrimSpace(code)); m != nil {
		condition, value := translated(m[1], l), translated(m[3], l)
		if condition == "" || value == "" {
			return nil
		}
		return []string{fmt.Sprintf("{set: {%s: %s}, when: %s}", m[2], InYAML(value), InYAML(condition))}
	}
	var sets []string
	flush := func() {
		if len(sets) > 0 {
			steps = append(steps, "set: {"+strings.Join(sets, ", ")+"}")
		}
		sets = nil
	}
	for line := range strings.Lines(code) {
		line = strings.TrimRight(strings.TrimSpace(line), ";")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if m := delLine().FindStringSubmatch(line); m != nil {
			flush()
			steps = append(steps, "unset: "+m[1])
			continue
		}
		m := setLine().FindStringSubmatch(line)
		if m == nil {
			return nil
		}
		value := translated(m[2], l)
		if value == "" {
			return nil
		}
		if m[1] == "" {
			flush()
			steps = append(steps, "map: "+InYAML(value))
			continue
		}
		sets = append(sets, fmt.Sprintf("%s: %s", m[1], InYAML(value)))
	}
	flush()
	return steps
}

// translated is code in the language of expressions, or "".
func translated(code string, l *Language) string {
	if l.Compiles(code) {
		return code
	}
	found, _ := Foreign(code, l)
	return found.Code
}

var plainYAML = memo.Regexp(`^[A-Za-z_(][\w.()+*/<>=!?^ -]*$`)

// InYAML is code as a value in YAML, in quotes unless it is valid anywhere without.
func InYAML(code string) string {
	if plainYAML().MatchString(code) && !strings.HasSuffix(code, " ") && !strings.Contains(code, " ?") {
		return code
	}
	return "'" + strings.ReplaceAll(code, "'", "''") + "'"
}
