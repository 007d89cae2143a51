package bloblang

import (
	"strings"
)

// asked is one call of a function or method that is being translated.
type asked struct {
	*translator
	n      *call
	e      *env
	params []string
}

// node returns an argument, or nil.
func (a *asked) node(i int) node {
	for at, arg := range a.n.args {
		if arg.name == "" && at == i || arg.name != "" && i < len(a.params) && arg.name == a.params[i] {
			return arg.value
		}
	}
	return nil
}

// has reports whether an argument is given. A null does not count.
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

// text returns an argument that is a literal text.
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

// truth returns an argument that is a literal true or false.
func (a *asked) truth(i int, otherwise bool) bool {
	if v, ok := a.literalOf(a.node(i)); ok {
		if b, ok := v.(bool); ok {
			return b
		}
	}
	return otherwise
}

func (a *asked) of() expression { return a.expr(a.n.of, a.e) }

// rest returns all arguments.
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

// method says how a method or function is translated, and names its parameters.
type method struct {
	params []string
	do     func(*asked) expression
}

func params(names string) []string { return strings.Fields(names) }

// plain makes a method that is a function of flowd, with the receiver first and the same arguments.
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

// unixMethod makes a method of times with a unit.
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

func fillMethods() {
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

// stepOnly lists methods that are steps of flowd, with the only place where they work.
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
