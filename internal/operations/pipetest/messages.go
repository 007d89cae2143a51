package pipetest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/operations/difference"
)

// output compares what arrived at one output.
func output(at string, want config.Expected, writes []Write) []Difference {
	if want.Batches != nil {
		return batches(at, *want.Batches, writes, want.AnyOrder)
	}
	var messages []config.ExpectedMessage
	if want.Messages != nil {
		messages = *want.Messages
	}
	var got []Message
	for _, w := range writes {
		got = append(got, w.Messages...)
	}
	return list(at, messages, got, want.AnyOrder)
}

func batches(at string, want []config.ExpectedBatch, writes []Write, anyOrder bool) (all []Difference) {
	same := func(i, j int) bool { return len(batch("", want[i], writes[j])) == 0 }
	for _, p := range paired(anyOrder)(len(want), len(writes), same) {
		switch {
		case p.Got < 0:
			var texts []string
			for i := range want[p.Want].Messages {
				texts = append(texts, expected(&want[p.Want].Messages[i]))
			}
			all = append(all, Difference{At: at, Path: fmt.Sprintf("batch %d is missing", p.Want+1),
				Want: "[" + strings.Join(texts, ", ") + "]"})
		case p.Want < 0:
			var texts []string
			for _, m := range writes[p.Got].Messages {
				texts = append(texts, payload(m.Body))
			}
			all = append(all, Difference{At: at, Path: fmt.Sprintf("batch %d is not expected", p.Got+1),
				Got: "[" + strings.Join(texts, ", ") + "]"})
		default:
			all = append(all, batch(fmt.Sprintf("%s, batch %d", at, p.Want+1), want[p.Want], writes[p.Got])...)
		}
	}
	return all
}

func batch(at string, want config.ExpectedBatch, got Write) (all []Difference) {
	if want.Trigger != "" && want.Trigger != string(got.Trigger) {
		all = append(all, Difference{at, "trigger", want.Trigger, string(got.Trigger)})
	}
	if want.Key != nil {
		var key any
		if got.Key != "" {
			key = decoded([]byte(got.Key))
		}
		all = append(all, values(at, "key", decoded(*want.Key), key)...)
	}
	return append(all, list(at, want.Messages, got.Messages, false)...)
}

// paired returns how wants and gots are paired.
func paired(anyOrder bool) func(n, m int, same func(want, got int) bool) []Pair {
	if anyOrder {
		return assign
	}
	return Align
}

// list compares messages.
func list(at string, want []config.ExpectedMessage, got []Message, anyOrder bool) (all []Difference) {
	same := func(i, j int) bool { return len(message("", &want[i], got[j])) == 0 }
	for _, p := range paired(anyOrder)(len(want), len(got), same) {
		switch {
		case p.Got < 0:
			all = append(all, Difference{At: at, Path: fmt.Sprintf("message %d is missing", p.Want+1),
				Want: expected(&want[p.Want])})
		case p.Want < 0:
			all = append(all, Difference{At: at, Path: fmt.Sprintf("message %d is not expected", p.Got+1),
				Got: payload(got[p.Got].Body)})
		default:
			all = append(all, message(fmt.Sprintf("%s, message %d", at, p.Want+1), &want[p.Want], got[p.Got])...)
		}
	}
	return all
}

// message compares one message.
func message(at string, want *config.ExpectedMessage, got Message) (all []Difference) {
	switch {
	case want.JSON != nil:
		v, err := doc.Decode(got.Body)
		if err != nil {
			all = append(all, Difference{At: at, Want: string(*want.JSON), Got: payload(got.Body)})
			break
		}
		json := decoded(*want.JSON)
		for _, m := range got.mocked {
			leaveOut(m, json, v)
		}
		all = append(all, values(at, "", json, v)...)
	case want.Given() && !bytes.Equal(want.Bytes(), got.Body):
		all = append(all, Difference{At: at, Want: payload(want.Bytes()), Got: payload(got.Body)})
	}
	for name, v := range want.Meta.All() {
		all = append(all, values(at, "meta "+name, decoded(v), plain(got.Meta[name]))...)
	}
	if want.Error != nil {
		all = append(all, reason(at, *want.Error, got.Err)...)
	}
	if want.Matches.IsZero() {
		return all
	}
	switch ok, err := want.Matches.Test(again(got)); {
	case err != nil:
		all = append(all, Difference{At: at, Want: "matches: " + want.Matches.String(), Got: err.Error()})
	case !ok:
		all = append(all, Difference{At: at, Want: "matches: " + want.Matches.String(), Got: payload(got.Body)})
	}
	return all
}

// again makes a message from one that arrived, to evaluate expressions on it.
func again(got Message) *engine.Message {
	m := engine.NewBatch(1).Add(got.Body)
	for _, name := range slices.Sorted(maps.Keys(got.Meta)) {
		m.Meta = m.Meta.With(name, got.Meta[name])
	}
	if got.Err != nil {
		e := engine.Errorf(got.Err.Class, "%s", got.Err.Message)
		if out, ok := strings.CutPrefix(got.Err.Place, "output "); ok {
			e.Output = out
		} else {
			e.Step = strings.TrimPrefix(got.Err.Place, "step ")
		}
		m.Fail(e)
	}
	return m
}

// plain converts metadata to JSON values.
func plain(v any) any {
	text, err := doc.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return decoded(text)
}

// values compares two values field by field.
func values(at, path string, want, got any) (all []Difference) {
	for _, c := range difference.Of(path, want, got) {
		all = append(all, Difference{at, c.Path, c.Old, c.New})
	}
	return all
}

// payload formats a body on one line.
func payload(body []byte) string {
	switch {
	case len(body) == 0:
		return `""`
	case !utf8.Valid(body):
		return "base64 " + base64.StdEncoding.EncodeToString(body)
	case bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' }):
		if v, err := doc.Decode(body); err == nil {
			return difference.Show(v)
		}
		return strconv.Quote(string(body))
	}
	return string(body)
}

// expected formats a message that did not arrive on one line.
func expected(want *config.ExpectedMessage) string {
	switch {
	case want.Given():
		return payload(want.Bytes())
	case !want.Matches.IsZero():
		return "matches: " + want.Matches.String()
	case want.Error != nil:
		return "error: " + strings.Join(reasons(*want.Error), ", ")
	}
	return "a message"
}
