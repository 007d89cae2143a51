package web_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

type (
	list   = []any
	object = map[string]any
)

const payload = `{"big": 123456789012345678901, "half": 0.5, "ok": true, "list": [1, "a"], "n": null}`

func TestURLsAndHTML(t *testing.T) {
	exprtest.CheckValues(t, exprtest.NewMessage(payload), exprtest.Values{
		{"encoded bytes", `url_encode(bytes("é"))`, "%C3%A9"},
		{"encoded numbers", `url_encode(big) + url_encode(half) + url_encode(ok)`, "1234567890123456789010.5true"},
		{"decoded bytes", `len(url_decode("%ff%fe"))`, 2},
		{"a relative URL", `parse_url("a/b?c")`, object{"path": "a/b", "query": object{"c": ""}}},
		{"an address", `parse_url("mailto:ann@example.com")`, object{"scheme": "mailto", "path": "ann@example.com"}},
		{"an IPv6 host", `parse_url("http://[::1]:80/")`,
			object{"scheme": "http", "host": "::1", "port": 80, "path": "/"}},
		{"a user and a password", `parse_url("amqp://u%40:p:w@h")`,
			object{"scheme": "amqp", "host": "h", "user": "u@", "password": "p:w"}},
		{"nothing", `parse_url("")`, object{}},
		{"a parameter three times", `parse_query("a=1&a=2&&a=3&b=%26=")`, object{"a": list{"1", "2", "3"}, "b": "&="}},
		{"no parameters", `parse_query("?")`, object{}},
		{"a query of odd names", `build_query({"a b": [true, 1.5], "": "", c: []})`, "=&a%20b=true&a%20b=1.5"},
		{"there and back", `parse_query(build_query({a: "é&+ %", b: ["1", "2"]})) == {a: "é&+ %", b: ["1", "2"]}`, true},

		{"all that HTML needs", `html_escape("<a href='x' b=\"y\">&")`, "&lt;a href=&#39;x&#39; b=&#34;y&#34;&gt;&amp;"},
		{"references that are none stay", `html_unescape("&nosuch; & &#x41;&#0;")`, "&nosuch; & A\ufffd"},
		{"HTML without tags", `strip_html("a < b & c")`, "a < b & c"},
		{"what is not text", `strip_html("<style>p{}</style>a<!-- b --><script>if (a<b) {}</script>c<br/>d")`, "ac\nd"},
		{"tags that are not closed", `strip_html("a<b>c<a href=\"")`, "ac"},
		{"a script that is not closed", `strip_html("a<script>b</p>")`, "a"},
		{"lists and tables", `strip_html("<ul><li>a</li> <li>b</li></ul><td>c<td>d")`, "a\nb\nc\nd"},
		{"white space between blocks", `strip_html("<div>\n  <p>a b</p>\n  <p> c</p></div>")`, "a b\n c"},
	})
}

func TestURLsThatAreWrong(t *testing.T) {
	exprtest.CheckMistakes(t, exprtest.NewMessage(payload), exprtest.Mistakes{
		{"a bad escape", `url_decode("%zz")`, `url_decode(): text "%zz" has a % without two hexadecimal digits`,
			`url_decode`, false},
		{"a list in a URL", `url_encode(list)`, `url_encode() needs text or number or true/false or bytes, not a list`,
			`url_encode`, true},
		{"no URL", `parse_url("http://a b")`, `parse_url(): text "http://a b" is not a URL`, `parse_url`, false},
		{"a large port", `parse_url("http://a:65536")`, `parse_url(): text "http://a:65536" has a port beyond 65535`,
			`parse_url`, false},
		{"a bad escape in a query", `parse_query("a=1&b=%")`,
			`parse_query(): text "b=%" has a % without two hexadecimal digits`, `parse_query`, false},
		{"a name that is not text", `parse_query("%ff=1")`, `parse_query(): the name in text "%ff=1" is not text in UTF-8`,
			`parse_query`, false},
		{"a parameter that is missing", `build_query({a: n})`,
			`build_query() needs texts, numbers, true/false or lists of them, but "a" is nothing` +
				` (filter_values(x, # != nil) leaves out what is missing)`, `build_query`, true},
		{"an object in a query", `build_query({a: [{}]})`,
			`build_query() needs texts, numbers, true/false or lists of them, but "a" is an object` +
				` (filter_values(x, # != nil) leaves out what is missing)`, `build_query`, false},
	})
}
