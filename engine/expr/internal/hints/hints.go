// Package hints says what to write instead: for what other languages call otherwise, and for slips that expr's parser sees
// only as an unexpected token. Start at [ForToken] and [ForFunction].
package hints

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/memo"
	"github.com/flowd-io/flowd/schema"
)

// tokens are remedies by the unexpected token.
var tokens = map[string]string{
	"=": "write == to compare", "===": "write ==", "AND": "write and", "OR": "write or", "NOT": "write not",
	"IN": "write in", "&": "write and, or bitand(a, b)", "is": "write ==", "like": "write matches or contains",
	"LIKE": "write matches or contains", "then": "write condition ? a : b",
	"#": "# is the element inside a predicate: filter(items, # > 1)",
	".": ".name is the element's field inside a predicate; a field of the document needs no dot",
	":": "an object inside a predicate goes into brackets: map(items, ({name: .name}))",
}

// Reserved are the words that are not fields unless they follow `this.`.
var Reserved = []string{"and", "contains", "else", "endsWith", "if", "in", "let", "matches", "not", "or", "startsWith"}

// OtherLiterals are names that other languages give to true, false and nil.
var OtherLiterals = map[string]string{
	"null": "write nil for no value", "None": "write nil for no value", "undefined": "write nil for no value",
	"NULL": "write nil for no value", "Null": "write nil for no value",
	"True": "write true", "TRUE": "write true", "False": "write false", "FALSE": "write false",
}

// Switches are the words that some YAML readers take for true and false.
var Switches = map[string]string{"yes": "true", "on": "true", "no": "false", "off": "false"}

// infix are the words that go between two values where other languages have functions.
var infix = []string{"contains", "endsWith", "in", "matches", "startsWith"}

// otherNames are functions of other languages, in small letters without _.
var otherNames = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"abbreviate":           `write truncate(text, 20, "…")`,
		"adddate":              "write add_date(time, 0, 1)",
		"adddays":              "write add_date(time, 0, 0, 1)",
		"addmonths":            "write add_date(time, 0, 1)",
		"assign":               "write merge(a, b)",
		"astimezone":           `write in_zone(time, "Europe/Zurich")`,
		"atob":                 "write from_base64(x)",
		"average":              "write mean(list)",
		"avg":                  "write mean(list)",
		"base64decode":         "write from_base64(x)",
		"base64encode":         "write to_base64(x)",
		"bin2hex":              "write to_hex(x)",
		"btoa":                 "write to_base64(x)",
		"capture":              "write re_groups(text, pattern)",
		"catch":                "write try(x, otherwise)",
		"chars":                `write split(text, "")`,
		"coalesce":             "write a ?? b",
		"collapse":             "write flatten_keys(x)",
		"comparedigest":        "write constant_time_equal(a, b)",
		"containsany":          `write any(["a", "b"], text contains #)`,
		"content":              "write raw()",
		"converttz":            `write in_zone(time, "Europe/Zurich")`,
		"crc":                  "write crc32(x)",
		"dateadd":              "write add_date(time, 0, 1), or time + duration(\"1h\")",
		"datediff":             "write a - b",
		"dateformat":           strftimeWord,
		"dateparse":            strptimeWord,
		"datepart":             "write time_parts(time).year",
		"datetrunc":            `write truncate_time(time, "day")`,
		"deburr":               "write unaccent(text)",
		"decodebase64":         "write from_base64(x)",
		"decodepercent":        "write url_decode(text)",
		"decodeuricomponent":   "write url_decode(text)",
		"decrypt":              "write decrypt_aes_gcm(x, key)",
		"decryptaes":           "write decrypt_aes_gcm(x, key)",
		"default":              "write a ?? b",
		"defined":              "write x != nil",
		"del":                  "write a step: `unset: [field]`",
		"deleted":              "write a step: `unset: [field]` for a field, `filter: condition` for messages",
		"downcase":             "write lower(x)",
		"ellipsis":             `write truncate(text, 20, "…")`,
		"encodebase64":         "write to_base64(x)",
		"encodehex":            "write to_hex(x)",
		"encodepercent":        "write url_encode(x)",
		"encodequery":          "write build_query(object)",
		"encodeuricomponent":   "write url_encode(x)",
		"encrypt":              "write encrypt_aes_gcm(x, key)",
		"encryptaes":           "write encrypt_aes_gcm(x, key)",
		"enumerated":           "write enumerate(list)",
		"escapehtml":           "write html_escape(text)",
		"escapeurlquery":       "write url_encode(x)",
		"exists":               "write x != nil",
		"explode":              "write unflatten_keys(x)",
		"extract":              "write time_parts(time).year",
		"faker":                `write fake("email"), in generate`,
		"file":                 "write ${file:/path}, which is read once, at the start",
		"findall":              "write re_find_all(text, pattern)",
		"fnv":                  "write hash(x)",
		"fnv1a":                "write hash(x)",
		"fold":                 "write reduce(list, …, start)",
		"foreach":              "write map(list, …)",
		"formatquery":          "write build_query(object)",
		"formatstring":         "write printf(format, values…)",
		"formattimestamp":      strftimeWord,
		"fromdate":             "write unix(parse_time(text))",
		"fromtimestamp":        "write from_unix(n)",
		"fromunixtime":         "write from_unix(n)",
		"fromunixtimestamp":    `write from_unix(n, "ms")`,
		"getenv":               `write env("NAME")`,
		"getenvvar":            `write env("NAME")`,
		"gethostname":          "write hostname()",
		"gettime":              `write unix(time, "ms")`,
		"getvar":               `write vars("name")`,
		"gmtime":               "write time_parts(from_unix(n))",
		"gsub":                 "write re_replace(text, pattern, replacement)",
		"guid":                 "write uuid()",
		"hex":                  "write to_hex(x)",
		"hex2bin":              "write from_hex(x)",
		"hexdecode":            "write from_hex(x)",
		"hexdigest":            "write to_hex(sha256(x))",
		"hexencode":            "write to_hex(x)",
		"hmacsha256":           `write hmac("sha256", key, x)`,
		"htmldecode":           "write html_unescape(text)",
		"htmlencode":           "write html_escape(text)",
		"ifnull":               "write a ?? b",
		"includes":             "write value in list, or text contains \"…\"",
		"initcap":              "write title(text)",
		"isnil":                "write x == nil",
		"isnull":               "write x == nil",
		"isoformat":            "write string(time)",
		"json":                 "write from_json(x)",
		"jsonpath":             "write json_path(x, \"$.a[*]\")",
		"jwtdecode":            `write jwt_verify(token, key, "HS256")`,
		"jwtencode":            `write jwt_sign(claims, key, "HS256")`,
		"keyvalues":            "write to_pairs(x)",
		"lenght":               "write len(x)",
		"length":               "write len(x)",
		"ljust":                "write pad_right(text, 5)",
		"lowercase":            "write lower(x)",
		"lpad":                 `write pad_left(text, 5, "0")`,
		"mapeach":              "write map(list, …) or map_values(object, …)",
		"mapeachkey":           "write map_keys(object, …)",
		"match":                "write text matches \"…\"",
		"metadata":             `write meta("name")`,
		"mktime":               "write unix(time)",
		"nanoid":               "write ksuid()",
		"not":                  "write not a",
		"number":               "write parse_number(x)",
		"or":                   "write a ?? b",
		"padend":               "write pad_right(text, 5)",
		"padstart":             `write pad_left(text, 5, "0")`,
		"parameterize":         "write slug(text)",
		"parsedate":            strptimeWord,
		"parseduration":        `write duration("1h30m")`,
		"parsedurationiso8601": `write duration("PT1H30M")`,
		"parsefloat":           "write float(x)",
		"parseformurlencoded":  "write parse_query(text)",
		"parseint":             "write int(x)",
		"parsejson":            "write from_json(x)",
		"parsejwths256":        `write jwt_verify(token, secret, "HS256")`,
		"parseqs":              "write parse_query(text)",
		"parsequerystring":     "write parse_query(text)",
		"parseregex":           "write re_groups(text, pattern)",
		"parseregexall":        "write re_groups_all(text, pattern)",
		"parsetimestamp":       strptimeWord,
		"quotemeta":            "write re_escape(text)",
		"raise":                "write throw(why), or a step, `- fail: why`, with `when`",
		"rand":                 "write random()",
		"randint":              "write random_int(1, 6)",
		"randomfloat":          "write random()",
		"randomuuid":           "write uuid()",
		"range":                "write 1..n",
		"readfile":             "write ${file:/path}, which is read once, at the start",
		"redact":               "write re_replace(text, pattern, replacement); walk(x, …) goes through a whole document",
		"refindallobject":      "write re_groups_all(text, pattern)",
		"refindallsubmatch":    "write re_groups_all(text, pattern)",
		"refindobject":         "write re_groups(text, pattern)",
		"regex":                "write text matches \"…\"",
		"regexescape":          "write re_escape(text)",
		"regexextract":         "write re_groups(text, pattern)",
		"regexfind":            "write re_find(text, pattern)",
		"regexmatch":           "write text matches \"…\"",
		"regexplike":           "write text matches \"…\"",
		"regexpreplace":        "write re_replace(text, pattern, replacement)",
		"regexreplace":         "write re_replace(text, pattern, replacement)",
		"regexsplit":           "write re_split(text, pattern)",
		"rematch":              "write text matches \"…\"",
		"removeaccents":        "write unaccent(text)",
		"removehtml":           "write strip_html(text)",
		"replaceall":           "write replace(text, old, new), or re_replace(text, pattern, replacement)",
		"rereplaceall":         "write re_replace(text, pattern, replacement)",
		"research":             "write re_find(text, pattern)",
		"resub":                "write re_replace(text, pattern, replacement)",
		"rjust":                `write pad_left(text, 5, "0")`,
		"rpad":                 "write pad_right(text, 5)",
		"scan":                 "write re_find_all(text, pattern)",
		"securecompare":        "write constant_time_equal(a, b)",
		"sha":                  "write sha256(x)",
		"sha2":                 "write sha256(x)",
		"signjwths256":         `write jwt_sign(claims, secret, "HS256")`,
		"size":                 "write len(x)",
		"slice":                "write x[0:5]",
		"slugify":              "write slug(text)",
		"snowflakeid":          "write snowflake(node)",
		"splitlines":           "write lines(text)",
		"splits":               "write re_split(text, pattern)",
		"sprintf":              "write printf(format, values…)",
		"str":                  "write string(x)",
		"strftime":             strftimeWord,
		"stringify":            "write to_json(x)",
		"strip":                "write trim(x)",
		"striptags":            "write strip_html(text)",
		"strlen":               "write len(x)",
		"strptime":             strptimeWord,
		"sub":                  "write re_replace(text, pattern, replacement)",
		"substr":               "write text[0:5]",
		"test":                 "write text matches \"…\"",
		"timedelta":            `write duration("24h")`,
		"timestamp":            "write now()",
		"timestampunix":        "write unix(now())",
		"timestampunixmilli":   `write unix(now(), "ms")`,
		"timestampunixnano":    `write unix(now(), "ns")`,
		"titlecase":            "write title(text)",
		"tochar":               strftimeWord,
		"todate":               strptimeWord,
		"tofloat":              "write float(x)",
		"toint":                "write int(x)",
		"toisostring":          "write string(time)",
		"tolower":              "write lower(x)",
		"tolowercase":          "write lower(x)",
		"tostring":             "write string(x)",
		"totimestamp":          strptimeWord,
		"tounixtimestamp":      "write unix(time)",
		"toupper":              "write upper(x)",
		"touppercase":          "write upper(x)",
		"tsaddiso8601":         `write time + duration("PT1H")`,
		"tsformat":             strftimeWord,
		"tsparse":              strptimeWord,
		"tsround":              `write round_time(time, "hour")`,
		"tsstrftime":           strftimeWord,
		"tsstrptime":           strptimeWord,
		"tssub":                "write a - b",
		"tssubiso8601":         `write time - duration("PT1H")`,
		"tstz":                 `write in_zone(time, "Europe/Zurich")`,
		"tsunix":               "write unix(time)",
		"tsunixmicro":          `write unix(time, "us")`,
		"tsunixmilli":          `write unix(time, "ms")`,
		"tsunixnano":           `write unix(time, "ns")`,
		"unescapehtml":         "write html_unescape(text)",
		"unescapeurlquery":     "write url_decode(text)",
		"unhex":                "write from_hex(x)",
		"unidecode":            "write unaccent(text)",
		"unique":               "write uniq(list)",
		"untranslated":         "write here what the mapping did; the comment of the step says why it stayed",
		"upcase":               "write upper(x)",
		"uppercase":            "write upper(x)",
		"upperfirst":           "write capitalize(text)",
		"urlescape":            "write url_encode(x)",
		"urlparse":             "write parse_url(text)",
		"urlunescape":          "write url_decode(text)",
		"utcnow":               "write now()",
		"uuid4":                "write uuid()",
		"uuid5":                "write uuid_v5(namespace, name)",
		"uuidv4":               "write uuid()",
		"var":                  `write vars("name")`,
		"variable":             `write vars("name")`,
		"xxhash":               "write xxhash64(x)",
		"zfill":                `write pad_left(text, 5, "0")`,
	}
})

const (
	strftimeWord = `write format_time(time, "%Y-%m-%d %H:%M:%S")`
	strptimeWord = `write parse_time(text, "%Y-%m-%d %H:%M:%S")`
)

// ForToken is the remedy for a token that does not fit at offset, or "".
func ForToken(code, kind, token string, offset int) string {
	before, after := code[:offset], code[offset+min(len(token), len(code)-offset):]
	call := strings.HasPrefix(strings.TrimLeft(after, " "), "(")
	switch {
	case token == ">" && strings.HasSuffix(before, "<"):
		return "write !="
	case slices.Contains(infix, token) && call && codetext.OperandMissing(before):
		return fmt.Sprintf("%s goes between its operands: a %s b", token, token)
	case slices.Contains(Reserved, token):
		return fmt.Sprintf("a field of this name is written this.%s", token)
	case tokens[token] != "":
		return tokens[token]
	case kind == "Identifier" && codetext.LastWord(strings.TrimRight(before, " \t\r\n")) == "NOT":
		return tokens["NOT"]
	case strings.Contains(")]}", token) && codetext.OpenBracket(before) < 0:
		return "it closes nothing: remove it, or open it before"
	case kind == "Identifier" || kind == "Number" || kind == "String":
		return "an operator is missing before it"
	}
	return ""
}

// ForEarlyEnd is the remedy for code that lacks its end, or "". The functions are those that the code may call.
func ForEarlyEnd(code string, functions []string) string {
	open, word := codetext.OpenBracket(code), codetext.LastWord(code)
	switch pipe := codetext.EndsWithPipe(code, word); {
	case pipe && slices.Contains(functions, word):
		return fmt.Sprintf("write | %s()", word)
	case pipe:
		return "write or, or bitor(a, b); | hands a value to a function"
	case word == code && slices.Contains(Reserved, word):
		return fmt.Sprintf("a field of this name is written this.%s", word)
	case strings.HasPrefix(code, "let ") && open < 0 && !strings.Contains(code, ";"):
		return "write what to do with it: let x = a; x + 1"
	case open >= 0:
		return fmt.Sprintf("the %c before it is not closed", code[open])
	}
	if operator := lastOperator().FindString(code); operator != "" {
		return "write a value after " + operator
	}
	return ""
}

// lastOperator matches an operator at the end of code.
var lastOperator = memo.Regexp(`(?:[-+*/%^<>=!?]+|&&|\|\||\b(?:and|or|not|in|contains|matches|startsWith|endsWith))$`)

// ForFunction is the remedy for a call of a function that does not exist, or "". The functions are those that do.
func ForFunction(name string, functions []string) string {
	if remedy := otherNames()[strings.ReplaceAll(strings.ToLower(name), "_", "")]; remedy != "" {
		return remedy
	}
	near := schema.Nearest(name, append(slices.Clone(functions), infix...))
	switch {
	case near == "":
		return ""
	case slices.Contains(infix, near):
		return fmt.Sprintf("did you mean a %s b?", near)
	}
	return fmt.Sprintf("did you mean %s()?", near)
}
