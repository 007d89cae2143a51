package bloblang

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// asked is one call of a function or a method that is being translated.
type asked struct {
	*translator
	n      *call
	e      *env
	params []string
}

// node is an argument, or nil.
func (a *asked) node(i int) node {
	for at, arg := range a.n.args {
		if arg.name == "" && at == i || arg.name != "" && i < len(a.params) && arg.name == a.params[i] {
			return arg.value
		}
	}
	return nil
}

// has says whether an argument is given; one that is null is not.
func (a *asked) has(i int) bool {
	n := a.node(i)
	if l, ok := n.(*literal); ok && l.value == nil {
		return false
	}
	return n != nil
}

// arg translates an argument.
func (a *asked) arg(i int) expression {
	n := a.node(i)
	if n == nil {
		return a.untranslated(a.n, "%s() lacks an argument here.", a.n.name)
	}
	return a.expr(n, a.e)
}

// text is an argument that is a literal text.
func (a *asked) text(i int) (string, bool) {
	l, ok := a.literalOf(a.node(i))
	if !ok {
		return "", false
	}
	s, ok := l.(string)
	return s, ok
}

func (a *asked) literalOf(n node) (any, bool) {
	switch n := n.(type) {
	case *literal:
		return n.value, true
	case *variable:
		if u := a.vars[n.name]; u != nil && u.inline != nil {
			return a.literalOf(u.inline.value)
		}
	case *unary:
		if v, ok := a.literalOf(n.of); ok && n.op == "-" {
			switch v := v.(type) {
			case int64:
				return -v, true
			case float64:
				return -v, true
			}
		}
	}
	return nil, false
}

// truth is an argument that is a literal true or false.
func (a *asked) truth(i int, otherwise bool) bool {
	if v, ok := a.literalOf(a.node(i)); ok {
		if b, ok := v.(bool); ok {
			return b
		}
	}
	return otherwise
}

func (a *asked) of() expression { return a.expr(a.n.of, a.e) }

// rest are all arguments.
func (a *asked) rest() []expression {
	var all []expression
	for _, arg := range a.n.args {
		all = append(all, a.expr(arg.value, a.e))
	}
	return all
}

func (a *asked) unknown(format string, args ...any) expression {
	return a.untranslated(a.n, format, args...)
}

// method is how a method or function is translated, and what its parameters are called.
type method struct {
	params []string
	do     func(*asked) expression
}

func params(names string) []string { return strings.Fields(names) }

// named is a method that is a function of flowd's, with the receiver first and the arguments as they are.
func plain(name string, k kind, names string) method {
	return method{params(names), func(a *asked) expression {
		args := []expression{a.of()}
		for i := range params(names) {
			if a.has(i) {
				args = append(args, a.arg(i))
			}
		}
		return function(name, k, args...)
	}}
}

func infixMethod(op, name string) method {
	return method{params(name), func(a *asked) expression { return compare(a.of(), op, a.arg(0)) }}
}

// times are the methods of times with a unit.
func unixMethod(unit string) method {
	return method{nil, func(a *asked) expression {
		t := a.time(a.n.of)
		if unit == "" {
			return function("unix", number, t)
		}
		return function("unix", number, t, literalText(unit))
	}}
}

// loops are methods that evaluate their argument for each element.
var loops = map[string]bool{
	"map_each": true, "filter": true, "all": true, "any": true, "fold": true, "find_by": true, "find_all_by": true,
	"sort_by": true, "map_each_key": true, "unique": true, "sort": true,
}

var methods map[string]method

func init() {
	methods = map[string]method{
		// Texts.
		"capitalize":           plain("title", text, ""),
		"uppercase":            plain("upper", text, ""),
		"lowercase":            plain("lower", text, ""),
		"escape_html":          plain("html_escape", text, ""),
		"unescape_html":        plain("html_unescape", text, ""),
		"escape_url_query":     {nil, escapeQuery},
		"unescape_url_query":   {nil, unescapeQuery},
		"escape_url_path":      {nil, escapePath},
		"unescape_url_path":    plain("url_decode", text, ""),
		"has_prefix":           infixMethod("startsWith", "value"),
		"has_suffix":           infixMethod("endsWith", "value"),
		"index_of":             plain("index_of", number, "value"),
		"quote":                {nil, quoteMethod},
		"unquote":              plain("unquote", text, ""),
		"repeat":               plain("repeat", text, "count"),
		"replace":              plain("replace", text, "old new"),
		"replace_all":          plain("replace", text, "old new"),
		"replace_many":         {params("values"), replaceMany},
		"replace_all_many":     {params("values"), replaceMany},
		"reverse":              plain("reverse", unknown, ""),
		"slice":                {params("low high"), slice},
		"slug":                 {params("lang"), slug},
		"split":                {params("delimiter empty_as_null"), split},
		"strip_html":           {params("preserve"), stripHTML},
		"trim":                 plain("trim", text, "cutset"),
		"trim_prefix":          plain("trim_prefix", text, "prefix"),
		"trim_suffix":          plain("trim_suffix", text, "suffix"),
		"format":               {nil, format},
		"filepath_split":       {nil, pathSplit},
		"filepath_join":        {nil, pathJoin},
		"re_match":             infixMethod("matches", "pattern"),
		"re_find_all":          plain("re_find_all", listKind, "pattern"),
		"re_find_all_submatch": {params("pattern"), submatches},
		"re_find_object":       {params("pattern"), findObject},
		"re_find_all_object":   {params("pattern"), findAllObject},
		"re_replace":           plain("re_replace", text, "pattern value"),
		"re_replace_all":       plain("re_replace", text, "pattern value"),
		"length":               {nil, length},
		"contains":             {params("value"), containsMethod},

		// Numbers.
		"abs":         plain("abs", number, ""),
		"bitwise_and": plain("bitand", number, "value"),
		"bitwise_or":  plain("bitor", number, "value"),
		"bitwise_xor": plain("bitxor", number, "value"),
		"ceil":        plain("ceil", number, ""),
		"floor":       plain("floor", number, ""),
		"round":       plain("round", number, ""),
		"cos":         plain("cos", number, ""),
		"sin":         plain("sin", number, ""),
		"tan":         plain("tan", number, ""),
		"log":         plain("log", number, ""),
		"log10":       {nil, func(a *asked) expression { return function("log", number, a.of(), literalInt(10)) }},
		"pow":         plain("pow", number, "exponent"),
		"max":         plain("max", number, ""),
		"min":         plain("min", number, ""),
		"int64":       {params("default"), integer},
		"int32":       {params("default"), integer},
		"int16":       {params("default"), integer},
		"int8":        {params("default"), integer},
		"uint64":      {params("default"), integer},
		"uint32":      {params("default"), integer},
		"uint16":      {params("default"), integer},
		"uint8":       {params("default"), integer},
		"float64":     {params("default"), converted("float", number)},
		"float32":     {params("default"), float32Method},

		// Times.
		"ts_parse":                    {params("format"), parseTime},
		"parse_timestamp":             {params("format"), parseTime},
		"ts_strptime":                 {params("format"), parseTime},
		"parse_timestamp_strptime":    {params("format"), parseTime},
		"ts_format":                   {params("format tz"), formatTime},
		"format_timestamp":            {params("format tz"), formatTime},
		"ts_strftime":                 {params("format tz"), formatTime},
		"format_timestamp_strftime":   {params("format tz"), formatTime},
		"ts_unix":                     unixMethod(""),
		"ts_unix_milli":               unixMethod("ms"),
		"ts_unix_micro":               unixMethod("us"),
		"ts_unix_nano":                unixMethod("ns"),
		"format_timestamp_unix":       unixMethod(""),
		"format_timestamp_unix_milli": unixMethod("ms"),
		"format_timestamp_unix_micro": unixMethod("us"),
		"format_timestamp_unix_nano":  unixMethod("ns"),
		"ts_tz": {params("tz"), func(a *asked) expression {
			return function("in_zone", timeKind, a.time(a.n.of), a.arg(0))
		}},
		"ts_round":               {params("duration"), roundTime},
		"ts_sub":                 {params("t2"), subtractTime},
		"ts_add_iso8601":         {params("duration"), func(a *asked) expression { return addDuration(a, 1) }},
		"ts_sub_iso8601":         {params("duration"), func(a *asked) expression { return addDuration(a, -1) }},
		"parse_duration":         {nil, parseDuration},
		"parse_duration_iso8601": {nil, parseDuration},
		"timestamp":              {params("default"), timestamp},

		// Types.
		"array":     {nil, array},
		"bool":      {params("default"), converted("bool", boolean)},
		"bytes":     {nil, func(a *asked) expression { return function("bytes", bytesKind, a.of()) }},
		"not_empty": plain("not_empty", unknown, ""),
		"not_null":  {nil, notNull},
		"number":    {params("default"), converted("float", number)},
		"string":    {nil, stringMethod},
		"type":      {nil, typeMethod},

		// Objects and lists.
		"all":      {params("test"), all},
		"any":      {params("test"), func(a *asked) expression { return a.loop("any", boolean) }},
		"append":   {nil, appendMethod},
		"assign":   {params("with"), func(a *asked) expression { return function("merge", objectKind, a.of(), a.arg(0)) }},
		"merge":    {params("with"), merge},
		"collapse": {params("include_empty"), collapse},
		"concat": {nil, func(a *asked) expression {
			return function("concat", listKind, append([]expression{a.of()}, a.rest()...)...)
		}},
		"enumerated":   plain("enumerate", listKind, ""),
		"exists":       {params("path"), exists},
		"explode":      {params("path"), explode},
		"filter":       {params("test"), filter},
		"find":         {params("value"), find},
		"find_by":      {params("query"), findBy},
		"find_all":     {params("value"), findAll},
		"find_all_by":  {params("query"), findAllBy},
		"flatten":      {nil, flatten},
		"fold":         {params("initial query"), fold},
		"get":          {params("path"), get},
		"index":        {params("index"), index},
		"join":         plain("join", text, "delimiter"),
		"json_path":    {params("expression"), jsonPath},
		"key_values":   {nil, keyValues},
		"keys":         plain("keys", listKind, ""),
		"values":       plain("values", listKind, ""),
		"map_each":     {params("query"), mapEach},
		"map_each_key": {params("query"), mapEachKey},
		"set":          {params("path value"), setMethod},
		"sort":         {params("compare"), sortMethod},
		"sort_by":      {params("query"), func(a *asked) expression { return a.loop("sort_by", listKind) }},
		"squash":       {nil, squash},
		"sum":          plain("sum", number, ""),
		"unique":       {params("emit"), unique},
		"with": {nil, func(a *asked) expression {
			return function("pick", objectKind, append([]expression{a.of()}, a.paths()...)...)
		}},
		"without": {nil, func(a *asked) expression {
			return function("without", objectKind, append([]expression{a.of()}, a.paths()...)...)
		}},
		"zip": {nil, func(a *asked) expression {
			return function("zip", listKind, append([]expression{a.of()}, a.rest()...)...)
		}},

		// Texts that have a structure, encodings, hashes.
		"parse_json": {params("use_number"), func(a *asked) expression {
			return function("from_json", unknown, a.of())
		}},
		"format_json":            {params("indent no_indent escape_html"), formatJSON},
		"parse_form_url_encoded": plain("parse_query", objectKind, ""),
		"parse_url": {nil, func(a *asked) expression {
			return a.unknown("parse_url() gives other parts; read one of them, such as parse_url(x).host.")
		}},
		"encode":  {params("scheme"), encode},
		"decode":  {params("scheme"), decode},
		"hash":    {params("algorithm key polynomial"), hash},
		"uuid_v5": {params("ns"), uuid5},

		// Control.
		"apply":    {params("mapping"), apply},
		"catch":    {params("fallback"), catch},
		"or":       {params("fallback"), func(a *asked) expression { return a.otherwise(a.n.of, a.node(0), a.e) }},
		"from":     {params("index"), from},
		"from_all": {nil, fromAll},
	}
	for _, alg := range []string{"hs256", "hs384", "hs512", "es256", "es384", "es512", "rs256", "rs384", "rs512"} {
		upper := literalText(strings.ToUpper(alg))
		methods["parse_jwt_"+alg] = method{params("signing_secret"), func(a *asked) expression {
			return function("jwt_verify", objectKind, a.of(), a.arg(0), upper)
		}}
		methods["sign_jwt_"+alg] = method{params("signing_secret headers"), func(a *asked) expression {
			args := []expression{a.of(), a.arg(0), upper}
			if a.has(1) {
				args = append(args, a.arg(1))
			}
			return function("jwt_sign", text, args...)
		}}
	}
}

// steps are methods that are steps of flowd's, and where one can only stand.
var stepOnly = map[string]string{
	"parse_csv": "decode: csv", "parse_logfmt": "decode: logfmt", "parse_msgpack": "decode: msgpack",
	"format_msgpack": "encode: msgpack", "parse_parquet": "decode: parquet", "json_schema": "validate",
	"compress": "compress", "decompress": "decompress", "parse_xml": "decode: xml", "parse_yaml": "decode: yaml",
	"format_yaml": "encode: yaml", "format_xml": "encode: xml",
}

func (t *translator) method(n *call, e *env) expression {
	defer func(outer *call) { t.call = outer }(t.call)
	t.call = n
	m, ok := methods[n.name]
	if !ok {
		if step := stepOnly[n.name]; step != "" {
			return t.untranslated(n, "%s() is the step `%s` in flowd: put it before this one.", n.name, step)
		}
		return t.untranslated(n, "flowd has no counterpart of the method %s().", n.name)
	}
	return m.do(&asked{t, n, e, m.params})
}

func quoteMethod(a *asked) expression {
	x := a.of()
	if x.kind != text {
		a.differs(a.n, "What is not a text is written as JSON rather than refused.")
	}
	return function("to_json", text, x)
}

func all(a *asked) expression {
	a.differs(a.n, "all() of an empty list is true.")
	return a.loop("all", boolean)
}

func escapeQuery(a *asked) expression {
	return function("replace", text, function("url_encode", text, a.of()), literalText("%20"), literalText("+"))
}

func unescapeQuery(a *asked) expression {
	return function("url_decode", text, function("replace", text, a.of(), literalText("+"), literalText(" ")))
}

func escapePath(a *asked) expression {
	a.differs(a.n, "url_encode() also encodes & + = : @ and $, which escape_url_path() leaves; both decode to the same.")
	return function("url_encode", text, a.of())
}

func replaceMany(a *asked) expression {
	l, ok := a.node(0).(*list)
	if !ok || len(l.items)%2 != 0 {
		return a.unknown("%s() can be translated only with a list of texts; write replace(text, old, new) for each.",
			a.n.name)
	}
	x := a.of()
	var news []string
	for i := 0; i < len(l.items); i += 2 {
		old, okOld := a.literalOf(l.items[i])
		put, okNew := a.literalOf(l.items[i+1])
		o, isOld := old.(string)
		p, isNew := put.(string)
		if !okOld || !okNew || !isOld || !isNew ||
			slices.ContainsFunc(news, func(n string) bool { return o == "" || strings.Contains(n, o) }) {
			a.differs(a.n, "The texts are replaced one after the other, so that one may be found in what another has put in.")
		}
		news = append(news, p)
		x = function("replace", text, x, a.expr(l.items[i], a.e), a.expr(l.items[i+1], a.e))
	}
	return x
}

func slice(a *asked) expression {
	x := a.of()
	low, high := "", ""
	if a.has(0) {
		low = a.arg(0).in(bindAdd)
	}
	if a.has(1) {
		high = a.arg(1).in(bindAdd)
	}
	if low == "0" && high != "" {
		low = ""
	}
	return expression{text: x.in(bindWhole) + "[" + low + ":" + high + "]", bind: bindWhole, kind: x.kind}
}

func slug(a *asked) expression {
	a.differs(a.n, "slug() leaves & and the like out, and knows no languages to name them in.")
	return function("slug", text, a.of())
}

func split(a *asked) expression {
	x := function("split", listKind, a.of(), a.arg(0))
	if a.truth(1, false) {
		return whole(`map(`+x.text+`, # == "" ? nil : #)`, listKind)
	}
	return x
}

func stripHTML(a *asked) expression {
	if a.has(0) {
		return a.unknown("strip_html() keeps no tags in flowd.")
	}
	return function("strip_html", text, a.of())
}

var verbs = regexp.MustCompile(`%[-+# 0]*[0-9]*(\.[0-9]+)?[a-zA-Z%]`)

func format(a *asked) expression {
	x := a.of()
	if s, ok := a.literalOf(a.n.of); ok {
		if s, ok := s.(string); ok {
			for _, v := range verbs.FindAllString(s, -1) {
				if !strings.Contains("svqdbocxXfegt%", v[len(v)-1:]) {
					return a.unknown("printf() has no verb %s.", v)
				}
			}
		}
	}
	return function("printf", text, append([]expression{x}, a.rest()...)...)
}

func pathSplit(a *asked) expression {
	return a.named(a.of(), func(p string) expression {
		return whole("["+p+"[:last_index_of("+p+", \"/\") + 1], "+p+"[last_index_of("+p+", \"/\") + 1:]]", listKind)
	})
}

func pathJoin(a *asked) expression {
	a.differs(a.n, "Parts such as .. are not resolved.")
	return function("re_replace", text, function("join", text, a.of(), literalText("/")), literalText("/+"),
		literalText("/"))
}

// named gives a value a name, unless it is short, for an expression that reads it more than once.
func (a *asked) named(x expression, body func(name string) expression) expression {
	if x.path || x.isLit || x.bind == bindWhole && len(x.text) <= 12 {
		return body(x.in(bindWhole))
	}
	b := body("it")
	return expression{text: "let it = " + x.in(bindTernary) + "; " + b.text, bind: bindLet, kind: b.kind}
}

// groups names the groups of a pattern as the objects of re_find_object name them: "0" is the whole match, the others
// are numbered where they have no name.
func groups(pattern string) string {
	var b strings.Builder
	group, class := 0, false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		b.WriteByte(c)
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(pattern[i])
		case c == '[' && !class:
			class = true
			if strings.HasPrefix(pattern[i+1:], "]") || strings.HasPrefix(pattern[i+1:], "^]") {
				end := i + 1 + strings.IndexByte(pattern[i+1:], ']')
				b.WriteString(pattern[i+1 : end+1])
				i = end
			}
		case c == ']':
			class = false
		case c == '(' && !class:
			if !strings.HasPrefix(pattern[i+1:], "?") {
				group++
				b.WriteString("?P<" + strconv.Itoa(group) + ">")
			} else if strings.HasPrefix(pattern[i+1:], "?P<") || strings.HasPrefix(pattern[i+1:], "?<") {
				group++
			}
		}
	}
	return "(?P<0>" + b.String() + ")"
}

func findObject(a *asked) expression {
	p, ok := a.text(0)
	if !ok {
		return a.unknown("re_find_object() needs a pattern that is written here; write re_groups(text, pattern).")
	}
	return coalesce(function("re_groups", objectKind, a.of(), literalText(groups(p))), whole("{}", objectKind))
}

func findAllObject(a *asked) expression {
	p, ok := a.text(0)
	if !ok {
		return a.unknown("re_find_all_object() needs a pattern that is written here; write re_groups_all(text, pattern).")
	}
	return function("re_groups_all", listKind, a.of(), literalText(groups(p)))
}

func submatches(a *asked) expression {
	p, ok := a.text(0)
	if !ok || strings.Contains(p, "(?P<") || strings.Contains(p, "(?<") {
		return a.unknown("re_find_all_submatch() needs a pattern that is written here and names no groups.")
	}
	if strings.Contains(p, ")?") || strings.Contains(p, ")*") || strings.Contains(p, "|") {
		a.differs(a.n, "A group that takes no part in a match is nil rather than an empty text.")
	}
	return function("re_groups_all", listKind, a.of(), a.arg(0))
}

func length(a *asked) expression {
	x := a.of()
	switch x.kind {
	case listKind, objectKind, bytesKind:
	default:
		a.differs(a.n, "Of a text, len() counts characters rather than bytes; len(bytes(text)) counts those.")
	}
	return function("len", number, x)
}

func containsMethod(a *asked) expression {
	x, v := a.of(), a.arg(0)
	if x.kind == text {
		return compare(x, "contains", v)
	}
	return compare(v, "in", x)
}

// converted is a conversion with a default for what can't be converted.
func converted(name string, k kind) func(*asked) expression {
	return func(a *asked) expression {
		x := function(name, k, a.of())
		if a.has(0) {
			return function("try", k, x, a.arg(0))
		}
		return x
	}
}

func float32Method(a *asked) expression {
	a.differs(a.n, "The number is not rounded to 32 bits.")
	return converted("float", number)(a)
}

// ranges are the bounds of integers, by method; int() has those of 64 bits itself.
var ranges = map[string][2]string{
	"int32": {"-2147483648", "2147483647"}, "int16": {"-32768", "32767"}, "int8": {"-128", "127"},
	"uint64": {"0", ""}, "uint32": {"0", "4294967295"}, "uint16": {"0", "65535"}, "uint8": {"0", "255"},
}

func integer(a *asked) expression {
	x := a.of()
	if c, ok := a.n.of.(*call); ok && (c.name == "round" || c.name == "ceil" || c.name == "floor") {
		if a.n.name == "int64" {
			return x
		}
	} else if x.kind != text {
		a.differs(a.n, "int() cuts a fraction off, which %s() refuses.", a.n.name)
	}
	y := function("int", number, x)
	if a.has(0) {
		return function("try", number, a.ranged(y), a.arg(0))
	}
	if a.n.name != "int64" {
		a.differs(a.n, "int() does not refuse numbers that are out of the range of %s().", a.n.name)
	}
	return y
}

// ranged fails for an integer that is out of the range of what made it.
func (a *asked) ranged(x expression) expression {
	r, ok := ranges[a.n.name]
	if !ok {
		return x
	}
	test := "n >= " + r[0]
	if r[1] != "" {
		test += " and n <= " + r[1]
	}
	return expression{text: "let n = " + x.text + "; " + test + ` ? n : throw("out of range")`, bind: bindLet,
		kind: number}
}

// time translates a value that is a time: as a text in RFC 3339 or as seconds since 1970, if it is not one already.
func (a *asked) time(n node) expression {
	x := a.expr(n, a.e)
	switch x.kind {
	case timeKind:
		return x
	case number:
		return function("from_unix", timeKind, x)
	case unknown:
		y := a.named(x, func(x string) expression {
			return expression{text: "type(" + x + ") == \"string\" ? parse_time(" + x + ") : from_unix(" + x + ")",
				bind: bindTernary}
		})
		y.kind = timeKind
		return y
	}
	return function("parse_time", timeKind, x)
}

func parseTime(a *asked) expression {
	return function("parse_time", timeKind, a.of(), a.arg(0))
}

func formatTime(a *asked) expression {
	args := []expression{a.time(a.n.of)}
	if !a.has(0) {
		x := args[0]
		if a.has(1) {
			x = function("in_zone", timeKind, x, a.arg(1))
		}
		return function("string", text, x)
	}
	args = append(args, a.arg(0))
	if a.has(1) {
		args = append(args, a.arg(1))
	}
	return function("format_time", text, args...)
}

// nanoseconds is the text of a duration that an argument gives in nanoseconds, by parse_duration() or as a number.
func (a *asked) nanoseconds(n node) (string, bool) {
	if c, ok := n.(*call); ok && strings.HasPrefix(c.name, "parse_duration") && c.of != nil {
		if v, ok := a.literalOf(c.of); ok {
			s, ok := v.(string)
			return s, ok
		}
	}
	if v, ok := a.literalOf(n); ok {
		if i, ok := v.(int64); ok {
			return strconv.FormatInt(i, 10) + "ns", true
		}
	}
	return "", false
}

func roundTime(a *asked) expression {
	d, ok := a.nanoseconds(a.node(0))
	if !ok {
		return a.unknown(
			"ts_round() can be translated only with a duration that is written here; write round_time(t, \"1h\").")
	}
	return function("round_time", timeKind, a.time(a.n.of), literalText(d))
}

func subtractTime(a *asked) expression {
	ns := literalText("ns")
	return infix(function("unix", number, a.time(a.n.of), ns), "-", bindAdd,
		function("unix", number, a.time(a.node(0)), ns), number)
}

var isoDate = regexp.MustCompile(`^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(T.+)?$`)

func addDuration(a *asked, sign int) expression {
	s, ok := a.text(0)
	parts := isoDate.FindStringSubmatch(s)
	x := a.time(a.n.of)
	if !ok {
		op := map[int]string{1: "+", -1: "-"}[sign]
		a.differs(a.n, "A duration with years or months fails.")
		return infix(x, op, bindAdd, function("duration", unknown, a.arg(0)), timeKind)
	}
	if parts == nil {
		return a.unknown("%q can't be translated; write add_date(t, years, months, days) and duration().", s)
	}
	n := func(i int) int { v, _ := strconv.Atoi(parts[i]); return sign * v }
	years, months, days := n(1), n(2), n(3)*7+n(4)
	if years != 0 || months != 0 || days != 0 {
		args := []expression{x, literalInt(int64(years)), literalInt(int64(months)), literalInt(int64(days))}
		if days == 0 {
			args = args[:3]
			if months == 0 {
				args = args[:2]
			}
		}
		x = function("add_date", timeKind, args...)
	}
	if parts[5] != "" {
		op := map[int]string{1: "+", -1: "-"}[sign]
		x = infix(x, op, bindAdd, function("duration", unknown, literalText("P"+parts[5])), timeKind)
	}
	return x
}

func parseDuration(a *asked) expression {
	return function("int", number, infix(function("duration", unknown, a.of()), "/", bindMultiply,
		whole(`duration("1ns")`, unknown), number))
}

func timestamp(a *asked) expression {
	x := a.time(a.n.of)
	if a.has(0) {
		return function("try", timeKind, x, a.time(a.node(0)))
	}
	return x
}

func array(a *asked) expression {
	x := a.of()
	if x.kind == listKind {
		return x
	}
	return a.named(x, func(x string) expression {
		return expression{text: "type(" + x + ") == \"array\" ? " + x + " : [" + x + "]", bind: bindTernary, kind: listKind}
	})
}

func notNull(a *asked) expression {
	return coalesce(a.of(), whole(`throw("the value is null")`, unknown))
}

func stringMethod(a *asked) expression {
	if c, ok := a.n.of.(*call); ok {
		switch c.name {
		case "decode", "content", "format_json", "encode", "quote", "hash":
			x := a.of()
			if x.kind == text || x.kind == unknown {
				x.kind = text
				return x
			}
		}
	}
	x := a.of()
	if x.kind == text {
		return x
	}
	return function("string", text, x)
}

// typeNames are flowd's names of types, by Bloblang's.
var typeNames = map[string]string{
	"string": "string", "bytes": "bytes", "bool": "bool", "array": "array", "object": "map", "null": "nil",
	"timestamp": "time",
}

func typeMethod(a *asked) expression {
	if c, ok := a.n.of.(*call); ok && c.of == nil && c.name == "content" {
		return literalText("bytes")
	}
	if name := knownTypes[a.of().kind]; name != "" {
		return literalText(name)
	}
	return a.named(a.of(), func(x string) expression {
		return coalesce(whole(`{int: "number", float: "number", map: "object", nil: "null"}[type(`+x+`)]`, text),
			whole("type("+x+")", text))
	})
}

// knownTypes are Bloblang's names of types that are known beforehand.
var knownTypes = map[kind]string{
	boolean: "bool", number: "number", text: "string", bytesKind: "bytes", listKind: "array", objectKind: "object",
	timeKind: "timestamp",
}

// typeTest translates x.type() == "object" and the like.
func (t *translator) typeTest(n *binary, _ expression, e *env) (expression, bool) {
	c, ok := n.left.(*call)
	l, isLit := n.right.(*literal)
	if !ok || !isLit || c.name != "type" || c.of == nil {
		return expression{}, false
	}
	name, ok := l.value.(string)
	if !ok {
		return expression{}, false
	}
	x := t.expr(c.of, e)
	var y expression
	switch {
	case name == "null":
		y = compare(x, "==", nilExpression())
	case name == "number":
		y = compare(function("type", text, x), "in", whole(`["int", "float"]`, listKind))
	case typeNames[name] != "":
		y = compare(function("type", text, x), "==", literalText(typeNames[name]))
	default:
		return expression{}, false
	}
	if n.op == "!=" {
		y = y.negated()
	}
	return y, true
}
