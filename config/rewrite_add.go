package config

import (
	"os"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

// WithTest returns the text of the file with a test added at the end of its section `tests`, and everything else unchanged.
// Of the test it writes the name, input without times, takes_back, mocks, the messages that are expected, fates and failures.
func (l Loaded) WithTest(t *Test) (string, error) {
	data, err := os.ReadFile(l.File)
	if err != nil {
		return "", err
	}
	e, err := yamltext.Edit(l.File, data)
	if err != nil {
		return "", err
	}
	value, err := t.value()
	if err != nil {
		return "", err
	}
	if err := e.Add(e.Root(), "tests", value); err != nil {
		return "", err
	}
	return applied(e)
}

// value returns the test in YAML.
func (t *Test) value() (yamltext.Value, error) {
	v, input := yamltext.Mapping(yamltext.Text("name"), literal(t.Name)), yamltext.List()
	for _, in := range t.Input {
		message := Came{Body: in.Bytes()}.value()
		if in.Input != "" {
			message.Append(yamltext.Text("input"), yamltext.Text(in.Input))
		}
		if err := appendJSON(message, "meta", in.Meta); err != nil {
			return v, err
		}
		input.Append(message)
	}
	v.Append(yamltext.Text("input"), input)
	if t.TakesBack != "" {
		v.Append(yamltext.Text("takes_back"), yamltext.Text(t.TakesBack))
	}
	if t.Mocks.Len() > 0 {
		mocks := yamltext.Mapping()
		for name, answers := range t.Mocks.All() {
			list := yamltext.List()
			for i := range answers {
				answer, err := answers[i].value()
				if err != nil {
					return v, err
				}
				list.Append(answer)
			}
			mocks.Append(yamltext.Text(name), list)
		}
		v.Append(yamltext.Text("mocks"), mocks)
	}
	expect := yamltext.Mapping()
	for name, out := range t.Expect.All() {
		list := yamltext.List()
		for _, m := range *out.Messages {
			list.Append(Came{Body: m.Bytes()}.value())
		}
		if out.AnyOrder {
			list = yamltext.Mapping(yamltext.Text("any_order"), yamltext.Plain("true"), yamltext.Text("messages"), list)
		}
		expect.Append(yamltext.Text(name), list)
	}
	if t.Expect.Len() == 0 {
		expect = expect.OneLine()
	}
	v.Append(yamltext.Text("expect"), expect, yamltext.Text("fates"), t.Fates.value())
	if len(t.Failures) > 0 {
		v.Append(yamltext.Text("failures"), failuresValue(t.Failures))
	}
	return v, nil
}

// value returns an answer of a mock in YAML.
func (a *Answer) value() (yamltext.Value, error) {
	v := yamltext.Mapping().OneLine()
	if !a.Match.IsZero() {
		v.Append(yamltext.Text("match"), literal(a.Match.String()))
	}
	for _, field := range []struct {
		name string
		json *JSON
	}{{"set", a.Set}, {"json", a.JSON}} {
		if field.json == nil {
			continue
		}
		n, err := schema.ParseJSON(string(*field.json))
		if err != nil {
			return v, err
		}
		v.Append(yamltext.Text(field.name), jsonValue(n))
	}
	if a.Text != nil {
		v.Append(yamltext.Text("text"), literal(*a.Text))
	}
	if a.Drop {
		v.Append(yamltext.Text("drop"), yamltext.Plain("true"))
	}
	for _, pair := range [][2]string{{"error", a.Error}, {"class", a.Class}} {
		if pair[1] != "" {
			v.Append(yamltext.Text(pair[0]), literal(pair[1]))
		}
	}
	err := appendJSON(v, "meta", a.Meta)
	return v.OneLine(), err
}

// appendJSON appends a mapping from names to JSON values, unless it is empty.
func appendJSON(to yamltext.Value, key string, fields schema.Map[JSON]) error {
	if fields.Len() == 0 {
		return nil
	}
	all := yamltext.Mapping()
	for name, v := range fields.All() {
		n, err := schema.ParseJSON(string(v))
		if err != nil {
			return err
		}
		all.Append(yamltext.Text(name), jsonValue(n))
	}
	to.Append(yamltext.Text(key), all.OneLine())
	return nil
}
