package expr

import (
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

func TestAppendKey(t *testing.T) {
	tests := []struct {
		name string
		src  string
		want string // "": the message has no key
	}{
		{"a text is quoted", `name`, `"Ann"`},
		{"a computed text alike", `"An" + "n"`, `"Ann"`},
		{"a text with escapes", `odd`, `"a\"b\\c\u000ad/é"`},
		{"the same text computed", `odd + ""`, `"a\"b\\c\u000ad/é"`},
		{"an integer", `one`, `1`},
		{"a whole float is that integer", `float`, `1`},
		{"so is one with an exponent", `exponent`, `1`},
		{"minus zero is zero", `zero`, `0`},
		{"a broken float", `half`, `0.5`},
		{"a large float", `1e20`, `100000000000000000000`},
		{"an integer beyond int64", `big`, `100000000000000000000`},
		{"true", `yes`, `true`},
		{"a list", `list`, `[1,1,"a",null,{"a":1,"b":2}]`},
		{"an object", `{b: float, a: [one]}`, `{"a":[1],"b":1}`},
		{"nil", `nothing`, ``},
		{"a missing field", `missing`, ``},
		{"nil computed", `missing ?? nil`, ``},
		{"a time", `date("2026-01-02T03:04:05+01:00")`, `"2026-01-02T02:04:05Z"`},
		{"a duration", `duration("90m")`, `"1h30m0s"`},
		{"a path of a function", `upper(name)`, `"ANN"`},
	}
	m := exprtest.NewMessage(`{"name": "Ann", "odd": "a\"b\\c\nd\/\u00e9", "one": 1, "float": 1.0, "exponent": 1e0, "zero": -0, "half": 0.5,
		"big": 100000000000000000000, "yes": true, "nothing": null, "list": [1, 1.0, "a", null, {"b": 2, "a": 1}]}`)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := MustCompile(test.src)
			key, ok, err := e.AppendKey([]byte("k:"), m)
			if err != nil || ok != (test.want != "") || string(key) != "k:"+test.want {
				t.Errorf("%s: got %s, %v, %v, want k:%s", test.src, key, ok, err, test.want)
			}
		})
	}
}

func TestAppendKeyFails(t *testing.T) {
	for _, src := range []string{`name > 1`, `timezone("UTC")`} {
		e := MustCompile(src)
		key, ok, err := e.AppendKey([]byte("k"), exprtest.NewMessage(exprtest.Sample))
		if err == nil || ok || string(key) != "k" {
			t.Errorf("%s: got %q, %v, %v, want an error and nothing appended", src, key, ok, err)
		}
	}
	e := MustCompile(`name`)
	if _, _, err := e.AppendKey(nil, exprtest.NewMessage(`{"name": `)); err == nil {
		t.Error("got no error for a broken document")
	}
}

func TestAppendBody(t *testing.T) {
	tests := []struct{ src, want string }{
		{`name`, `Ann`},
		{`status`, `503`},
		{`whole`, `2`},
		{`big`, `18446744073709551616`},
		{`missing`, `null`},
		{`ok`, `true`},
		{`{b: [1, nil], a: name}`, `{"a":"Ann","b":[1,null]}`},
		{`date("2026-01-02")`, `2026-01-02T00:00:00Z`},
		{`{at: date("2026-01-02")}`, `{"at":"2026-01-02T00:00:00Z"}`},
	}
	for _, test := range tests {
		e := MustCompile(test.src)
		got, err := e.AppendBody(nil, exprtest.NewMessage(exprtest.Sample))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.src, got, err, test.want)
		}
	}
}

func TestPath(t *testing.T) {
	tests := []struct {
		src, want string
		ok        bool
	}{
		{`user.name`, `user.name`, true},
		{`items[0].qty`, `items[0].qty`, true},
		{`this["a b"].c`, `["a b"].c`, true},
		{`user?.name`, `user.name`, true},
		{`this`, ``, true},
		{`get(this, "a.b")`, `a.b`, true},
		{`items[-1]`, ``, false},
		{`items[i]`, ``, false},
		{`name + ""`, ``, false},
		{`"name"`, ``, false},
		{`let a = user; a.name`, ``, false},
	}
	for _, test := range tests {
		e := MustCompile(test.src)
		p, ok := e.Path()
		if ok != test.ok || p.String() != test.want {
			t.Errorf("%s: got %q, %v, want %q, %v", test.src, p, ok, test.want, test.ok)
		}
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	m := exprtest.NewMessage(event)
	key := make([]byte, 0, 64)
	text := make([]byte, 0, 64)
	cond := MustCond(`status >= 500 and path startsWith "/api" and user.plan in ["enterprise"] and ok and (missing ?? 1) < 2`)
	plan := MustCompile(`user.plan`)
	name := MustTemplate(`logs/$(user.plan)/$(total * rate - len(path)).ndjson`)
	sum := MustCond(`total * rate + 1.5 > 10 ? path matches "^/api" : -total == 1`)
	tests := []struct {
		name string
		run  func()
	}{
		{"a condition", func() { _, _ = cond.Test(m) }},
		{"a calculation", func() { _, _ = sum.Test(m) }},
		{"a key", func() { key, _, _ = plan.AppendKey(key[:0], m) }},
		{"a template of fields", func() { text, _ = name.Append(text[:0], m) }},
	}
	for _, test := range tests {
		if n := testing.AllocsPerRun(100, test.run); n > 0 {
			t.Errorf("%s allocates %v times, want 0", test.name, n)
		}
	}
}
