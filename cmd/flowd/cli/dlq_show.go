package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newDlqShow() *cobra.Command {
	var pick dlqPick
	var files []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SOURCE",
		Short: "Show dead letters in full",
		Long: `Show prints dead letters in full: why they failed, metadata and payload. With -c, it
shows the line of the pipeline file, too. With --json, each letter is one line, in
the form that inputs with framing messages read. Nothing is removed.`,
		Example: `  flowd dlq show dead.ndjson --group 7f3a9c -c orders.yaml
  flowd dlq show dead.ndjson --where 'customer == nil' -n 0 --json > some.ndjson`,
		RunE: onLetters(&pick, never, func(c *dlqCall) error {
			places, err := c.places(files)
			if err != nil {
				return err
			}
			n := 0
			_, err = c.each(c.stop, pick.n, func(l deadletters.Letter) error {
				if asJSON {
					line, err := envelope(&l)
					if err == nil {
						_, err = messages(c.cmd.OutOrStdout()).Write(line)
					}
					return err
				}
				if n++; n > 1 {
					fmt.Fprintln(c.cmd.OutOrStdout())
				}
				return c.writeLetter(&l, places)
			})
			if err == nil && n == 0 && !asJSON {
				fmt.Fprintln(c.con, "no such dead letters")
			}
			return c.interrupted(err)
		}),
	}
	pick.add(cmd, 1, "show at most this many letters; 0 means all")
	addFiles(cmd, &files)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write messages, one JSON object on each line")
	return cmd
}

// envelope returns a letter in the form of framing messages, with a line feed. A broken one is returned as it is.
func envelope(l *deadletters.Letter) ([]byte, error) {
	if l.Broken != nil {
		return append(bytes.Clone(l.Payload), '\n'), nil
	}
	form := framing.OutConfig{Framing: framing.OutFraming{Messages: &framing.Plain{}}}
	m := engine.NewBatch(1).Add(l.Payload)
	m.Meta = l.Metadata()
	return form.Writer().Append(nil, m)
}

// letterJSON returns the envelope of a letter, with its cause and place.
func (c *dlqCall) letterJSON(l *deadletters.Letter) map[string]any {
	all := map[string]any{}
	if line, err := envelope(l); err == nil {
		var e map[string]json.RawMessage
		if json.Unmarshal(line, &e) == nil {
			for name, v := range e {
				all[name] = v
			}
		}
	}
	if l.Where != "" {
		all["where"] = l.Where
	}
	return all
}

// writeLetter writes a letter for people.
func (c *dlqCall) writeLetter(l *deadletters.Letter, places dlqPlaces) error {
	out := c.cmd.OutOrStdout()
	color := colored(out)
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			indent := "\n" + strings.Repeat(" ", 12)
			fmt.Fprintf(&b, "  %s%s\n", paint(color, dim, fmt.Sprintf("%-10s", name)),
				strings.ReplaceAll(c.secrets.Mask(strings.TrimRight(value, "\n")), "\n", indent))
		}
	}
	b.WriteString(paint(color, bold, c.hide(oneLine(l.Where))) + "\n")
	if l.Broken != nil {
		field("problem", l.Broken.Error())
		_, err := io.WriteString(out, b.String()+shownPayload(l.Payload)+"\n")
		return err
	}
	k := &l.Cause
	field("group", k.ID())
	field("class", k.Class)
	place := k.Place()
	if at := places.of(place); at != "" {
		place += " (" + at + ")"
	}
	field("place", place)
	if !k.FirstFailed.IsZero() {
		field("since", k.FirstFailed.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if k.Attempt > 1 {
		field("attempts", amount(int64(k.Attempt)))
	}
	if k.Part > 0 {
		field("part", fmt.Sprintf("%d of a message that was split", k.Part))
	}
	field("reason", k.Message)
	for name, v := range l.Original().All() {
		field("metadata", fmt.Sprintf("%s: %s", name, metaText(v)))
	}
	if all := places[k.Place()]; len(all) == 1 {
		if text := sourceLine(all[0]); text != "" {
			p := schema.Problem{Excerpt: text, Caret: all[0]}
			_, excerpt, _ := strings.Cut(p.Render(), "\n")
			b.WriteString(paint(color, dim, excerpt) + "\n")
		}
	}
	b.WriteString(shownPayload(l.Payload) + "\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// metaText returns a value of metadata on one line.
func metaText(v any) string {
	if text, is := v.(string); is {
		return oneLine(text)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// mostPayloadShown bounds the payload that is shown, in bytes.
const mostPayloadShown = 16 << 10

// shownPayload returns a payload for people: indented if it is JSON.
func shownPayload(payload []byte) string {
	rest := ""
	if len(payload) > mostPayloadShown {
		rest = fmt.Sprintf("\n… and %s more (--json shows all)", agreeing(int64(len(payload)-mostPayloadShown), "byte", "bytes"))
		return string(payload[:mostPayloadShown]) + rest
	}
	var b bytes.Buffer
	if json.Indent(&b, payload, "", "  ") == nil && b.Len() > 0 {
		return b.String()
	}
	return string(payload)
}

// sourceLine returns the line of a file at a place, or "".
func sourceLine(at schema.Pos) string {
	text, err := os.ReadFile(at.File)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	if at.Line < 1 || at.Line > len(lines) {
		return ""
	}
	return lines[at.Line-1]
}
