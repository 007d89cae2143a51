package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fuzzed has the fuzz targets of packages that decode external data or files.
var fuzzed = map[string][]string{
	"batchers/window": {"FuzzInstantsAreInBoundsOrRefused"},
	"config":          {"FuzzLoad", "FuzzRewrite"},
	"config/yamltext": {"FuzzFormat"},
	"engine/doc":      {"FuzzCanonical", "FuzzDecode", "FuzzEdit", "FuzzParsePath", "FuzzPeek", "FuzzSearch", "FuzzString"},
	"engine/expr":     {"FuzzCompile", "FuzzEval", "FuzzParameter", "FuzzPlaceholder", "FuzzTemplate"},

	"engine/expr/internal/builtin/crypto":   {"FuzzEncodings"},
	"engine/expr/internal/builtin/patterns": {"FuzzPatterns"},
	"engine/expr/internal/builtin/text":     {"FuzzTexts"},
	"engine/expr/internal/builtin/webtoken": {"FuzzJWT", "FuzzPEM"},
	"engine/expr/internal/calendar":         {"FuzzDuration", "FuzzParseTime"},

	"engine/source":                 {"FuzzLoad"},
	"inputs/http":                   {"FuzzEvents", "FuzzNextLink"},
	"inputs/kafka":                  {"FuzzPatterns"},
	"inputs/singer":                 {"FuzzDecode", "FuzzSelect"},
	"internal/formats/avro":         {"FuzzCompile", "FuzzContainer", "FuzzDecode", "FuzzEncode"},
	"internal/systems/aws":          {"FuzzParseQueue"},
	"internal/state/caches/file":    {"FuzzOpen"},
	"internal/state/caches/nats_kv": {"FuzzSubjectsDiffer"},
	"internal/state/checkpoint":     {"FuzzOpen"},
	"internal/formats/codec": {"FuzzAnswer", "FuzzBinaryAndPatterns", "FuzzCBOR", "FuzzCEF", "FuzzCSV", "FuzzForm",
		"FuzzGrok", "FuzzINI", "FuzzKV", "FuzzLTSV", "FuzzMsgPack", "FuzzSyslog", "FuzzTOML", "FuzzWithin", "FuzzXML", "FuzzYAML"},
	"internal/formats/compression": {"FuzzDecompress", "FuzzFrames"},
	"internal/formats/csv":         {"FuzzWritten"},
	"internal/formats/framing":     {"FuzzCSV", "FuzzCSVTwice", "FuzzJSON", "FuzzLines", "FuzzMessages", "FuzzPlace", "FuzzReader"},
	"internal/formats/otlpdocs":    {"FuzzEncode", "FuzzPartialSuccess", "FuzzSplit"},
	"internal/network/grpcx":       {"FuzzResult"},
	"internal/network/httpx":       {"FuzzRetryAfter", "FuzzURL"},
	"internal/formats/jsonschema":  {"FuzzCheck"},
	"internal/migrate":             {"FuzzBenthos"},
	"internal/migrate/bloblang":    {"FuzzParse", "FuzzSteps"},
	"internal/systems/mqtt":        {"FuzzDecode"},
	"internal/systems/nats":        {"FuzzMessages"},
	"internal/systems/objects":     {"FuzzParse"},
	"internal/systems/objects/s3":  {"FuzzNotice"},
	"internal/systems/pgoutput":    {"FuzzDecode", "FuzzValues"},
	"internal/systems/pgwire":      {"FuzzWatch"},
	"internal/formats/parquet":     {"FuzzDecode", "FuzzValues"},
	"internal/pool/wire":           {"FuzzDecodeAnswer", "FuzzDecodeJob", "FuzzUnseal"},
	"internal/formats/protobuf":    {"FuzzCompile", "FuzzDecode", "FuzzEncode"},
	"internal/systems/queue/amqp":  {"FuzzFrames", "FuzzParse"},
	"internal/systems/queue/kafka": {"FuzzDecodeProgress"},
	"internal/systems/queue/nats":  {"FuzzPlaceOf"},
	"internal/systems/queue/redis": {"FuzzEntries", "FuzzParse", "FuzzReplies"},
	"internal/components/schedule": {"FuzzSchedule"},
	"internal/operations/service":  {"FuzzRead"},
	"internal/program/frame":       {"FuzzRead", "FuzzSent"},
	"internal/program/manifest":    {"FuzzRead"},
	"internal/systems/sqldb":       {"FuzzArray", "FuzzArrayText", "FuzzBind", "FuzzColumn", "FuzzMySQL"},
	"internal/state/tables":        {"FuzzNetworks", "FuzzParse"},
	"schema":                       {"FuzzDecode", "FuzzMask", "FuzzScalars"},
}

// notFuzzed has packages with such functions but without a fuzz target, and the reason.
var notFuzzed = map[string]string{
	"internal/components/builds":   "decodes nothing: it rejects any input",
	"internal/components/programs": "the configuration, decoded by schema",

	"internal/formats": "formats that are left out of a build decode nothing",
	"cmd/flowd/cli":    "arguments of its own user",
	"engine":           "lists of names, decoded by schema",

	"engine/expr/internal/builtin/numbers": "a number in a text, read by package strconv",
	"engine/expr/internal/builtin/times":   "engine/expr/internal/calendar",
	"engine/expr/internal/builtin/web":     "FuzzTexts of engine/expr/internal/builtin/text",
	"engine/expr/internal/lang":            "FuzzCompile, FuzzEval and FuzzTemplate of engine/expr",

	"engine/polling":               "a name, decoded by schema",
	"inputs/file":                  "paths of the configuration, decoded by schema",
	"inputs/sequence":              "the configuration, decoded by schema",
	"inputs/mqtt":                  "filters of the configuration, decoded by schema",
	"internal/components/fields":   "paths, parsed by engine/doc",
	"internal/operations/observe":  "records of flowd itself, read by encoding/json",
	"internal/operations/tap":      "parameters of its own commands; the expression is fuzzed by engine/expr",
	"internal/operations/pipetest": "tests that config has decoded",
	"internal/network/otlp":        "variables of the environment",
	"internal/formats/registry":    "the configuration, decoded by schema",
	"internal/testing/steptest":    "text in a test",
	"processors/decode":            "internal/formats/codec",
	"processors/map":               "the configuration, decoded by schema",
	"processors/pool":              "the configuration, decoded by schema",
	"processors/sleep":             "a duration, parsed by schema",
	"processors/steps":             "the configuration, decoded by schema",
	"processors/state":             "state that the step itself has written, checked by engine/doc",
	"processors/validate":          "the configuration, decoded by schema",
}

var decoderName = regexp.MustCompile(`^([dD]ecode|[dD]ecompress|[pP]arse|[uU]nmarshal|[uU]nseal)`)

func TestEveryDecoderHasAFuzzTarget(t *testing.T) {
	found, decodes := map[string][]string{}, map[string]string{}
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		pkg := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
		if pkg == "test" || strings.HasPrefix(pkg, "test/") || strings.HasPrefix(pkg, "examples/") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			switch isTest := strings.HasSuffix(path, "_test.go"); {
			case !ok:
			case isTest && strings.HasPrefix(f.Name.Name, "Fuzz"):
				found[pkg] = append(found[pkg], f.Name.Name)
			case !isTest && decoderName.MatchString(f.Name.Name):
				decodes[pkg] = f.Name.Name
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, name := range decodes {
		if fuzzed[pkg] == nil && notFuzzed[pkg] == "" {
			t.Errorf("%s.%s has no fuzz target (add one, or give the reason in notFuzzed)", pkg, name)
		}
	}
	for pkg, targets := range fuzzed {
		if slices.Sort(found[pkg]); !slices.Equal(found[pkg], targets) {
			t.Errorf("%s has the fuzz targets %v, the table %v", pkg, found[pkg], targets)
		}
	}
	for pkg := range found {
		if fuzzed[pkg] == nil {
			t.Errorf("the table fuzzed lacks the fuzz targets of %s: %v", pkg, found[pkg])
		}
	}
}
