package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// The limits of a request that pushes messages. More than mostPushes at once are refused.
const (
	MaxPushed      = 1000     // messages
	MaxPushedBytes = 16 << 20 // of the body
	MaxPushWait    = time.Hour
	pushWait       = 30 * time.Second // unless the request says otherwise
	mostPushes     = 4
)

// linesType is the media type of one JSON object per line.
const linesType = "application/x-ndjson"

// Pushed is how a message ended that was pushed into a pipeline.
type Pushed struct {
	Fate  string `json:"fate"`            // as in [Counts], or [InFlight]
	Class string `json:"class,omitempty"` // of the failure
	At    string `json:"at,omitempty"`    // "output lake" or "step parse": where it failed
	Error string `json:"error,omitempty"`
}

// Good reports whether the message is done: an output has it, or a step dropped it on purpose.
func (p Pushed) Good() bool {
	return p.Fate == engine.Delivered.String() || p.Fate == engine.Filtered.String()
}

// InFlight is the fate in [Pushed] of a message that had none when the wait was over.
const InFlight = "in_flight"

// pushedList is the answer to a push: a fate for each message, in their order.
type pushedList struct {
	Messages []Pushed `json:"messages"`
}

// push serves a request that pushes messages into an input. It waits until all of them have ended, or the wait is over.
func (a *api) push(w http.ResponseWriter, r *http.Request) {
	select {
	case a.pushes <- struct{}{}:
		defer func() { <-a.pushes }()
	default:
		respond(w, http.StatusTooManyRequests, refusal{Error: fmt.Sprintf("%d requests are pushing messages (wait for one of them)",
			mostPushes)})
		return
	}
	log := a.log.With("request", "push", "from", r.RemoteAddr, "pipeline", r.PathValue("name"))
	list, err := a.pushed(w, r)
	if err != nil {
		log.Info("admin request rejected", "error", err)
		if p := (*problem)(nil); !errors.As(err, &p) {
			err = failed{http.StatusConflict, err}
		}
		status, body := answerTo(err)
		respond(w, status, body)
		return
	}
	log.Info("admin request completed", "messages", len(list.Messages))
	respond(w, http.StatusOK, list)
}

// pushed pushes the messages of a request.
func (a *api) pushed(w http.ResponseWriter, r *http.Request) (list pushedList, err error) {
	wait, err := waitOf(r.URL.Query().Get("wait"))
	if err != nil {
		return list, err
	}
	rc, until := http.NewResponseController(w), time.Now().Add(wait+answerTimeout)
	if err := errors.Join(rc.SetReadDeadline(until), rc.SetWriteDeadline(until)); err != nil {
		return list, err
	}
	name := r.PathValue("name")
	input, err := pushable(a.process.Snapshots(), name, r.PathValue("input"))
	if err != nil {
		return list, err
	}
	b, err := receivePushed(w, r)
	if err != nil {
		return list, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	results, err := a.process.Push(ctx, name, input, b)
	list.Messages = make([]Pushed, 0, len(results))
	for _, res := range results {
		list.Messages = append(list.Messages, pushedOf(res))
	}
	return list, err
}

func pushedOf(r *engine.Result) Pushed {
	switch {
	case r == nil:
		return Pushed{Fate: InFlight}
	case r.Err == nil:
		return Pushed{Fate: r.Fate.String()}
	}
	return Pushed{r.Fate.String(), string(r.Err.Class), r.Err.Place(), r.Err.Error()}
}

// waitOf returns how long a request waits for fates. text is its parameter, in seconds.
func waitOf(text string) (time.Duration, error) {
	if text == "" {
		return pushWait, nil
	}
	n, err := strconv.Atoi(text)
	if most := int(MaxPushWait.Seconds()); err != nil || n < 1 || n > most {
		return 0, problemf(http.StatusBadRequest, "wait: %s is not a whole number from 1 to %d", shorten(strconv.Quote(text)), most)
	}
	return time.Duration(n) * time.Second, nil
}

// pushable returns the input that messages are pushed into: the named one, or the only one of the pipeline.
func pushable(all []engine.Snapshot, pipeline, input string) (string, error) {
	on, err := choose(all, pipeline)
	if err != nil {
		return "", err
	}
	var inputs []string
	for _, in := range on[0].Inputs {
		inputs = append(inputs, in.Name)
	}
	switch {
	case len(inputs) == 0:
		return "", problemf(http.StatusConflict, "pipeline %q is %s, and reads nothing", pipeline, on[0].State)
	case input == "" && len(inputs) > 1:
		return "", problemf(http.StatusConflict, "pipeline %q has several inputs (name one of them: %s)", pipeline,
			strings.Join(inputs, ", "))
	case input == "":
		return inputs[0], nil
	case !slices.Contains(inputs, input):
		return "", problemf(http.StatusNotFound, "pipeline %q has no input %q (%s)", pipeline, shorten(input), thereAre(inputs))
	}
	return input, nil
}

// receivePushed returns the messages of a request: lines as the framing messages writes them.
func receivePushed(w http.ResponseWriter, r *http.Request) (*engine.Batch, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != linesType {
		return nil, problemf(http.StatusUnsupportedMediaType,
			`the body must be lines of JSON such as {"payload": "..."} (send Content-Type: %s)`, linesType)
	}
	form := framing.Config{Framing: framing.Framing{Messages: &framing.Plain{}}, MaxRecord: MaxPushedBytes}
	lines := form.Reader(http.MaxBytesReader(w, r.Body, MaxPushedBytes))
	b := engine.NewBatch(MaxPushed)
	for {
		rec, err := lines.Next()
		var large *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case errors.As(err, &large):
			discardBody(r)
			return nil, problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes (send fewer messages)",
				large.Limit)
		case err != nil:
			return nil, problemf(http.StatusBadRequest, "the body did not arrive: %v", err)
		case rec.Err != nil:
			return nil, problemf(http.StatusBadRequest, "line %d: %s", rec.Line, shorten(rec.Err.Error()))
		case b.Len() == MaxPushed:
			discardBody(r)
			return nil, problemf(http.StatusRequestEntityTooLarge, "the request has more than %d messages (send fewer)", MaxPushed)
		}
		m := b.Add(rec.Body)
		m.Meta = rec.Meta(engine.Meta{})
	}
}

// Message is a message to push.
type Message struct {
	Payload []byte
	Meta    map[string]any // with values as in [engine.Meta]
}

// Push sends messages into an input of a pipeline, as if its source had sent them, and waits until all of them have
// ended, or until wait (whole seconds, up to [MaxPushWait]) is over. input may be "" if the pipeline has only one. It returns
// how each message has ended, in their order. After an error, messages may have been read. There may be up to [MaxPushed]
// messages, of somewhat less than [MaxPushedBytes].
func (c *Client) Push(ctx context.Context, pipeline, input string, messages []Message, wait time.Duration) ([]Pushed, error) {
	body, err := linesOf(messages)
	if err != nil {
		return nil, err
	}
	path := pipelinePath(pipeline)
	if input != "" {
		path += "/inputs/" + escaped(input)
	}
	patient := *c.http
	patient.Timeout += wait
	query := map[string][]string{"wait": {strconv.Itoa(max(1, int(wait.Seconds())))}}
	res, answer, err := c.send(ctx, &patient, http.MethodPost, path+"/messages", query, linesType, body)
	if err != nil {
		return nil, err
	}
	var list pushedList
	if err := c.understand(res, answer, &list); err != nil {
		return nil, err
	}
	if len(list.Messages) != len(messages) {
		return nil, fmt.Errorf("%s answered for %d of %d messages (report this as a bug)", c.url.Host, len(list.Messages),
			len(messages))
	}
	return list.Messages, nil
}

// linesOf returns messages as lines in the framing messages.
func linesOf(messages []Message) (text []byte, err error) {
	form := framing.OutConfig{Framing: framing.OutFraming{Messages: &framing.Plain{}}}
	lines := form.Writer()
	for _, m := range messages {
		b := engine.NewBatch(1)
		line := b.Add(bytes.Clone(m.Payload))
		for _, name := range slices.Sorted(maps.Keys(m.Meta)) {
			line.Meta = line.Meta.With(name, m.Meta[name])
		}
		if text, err = lines.Append(text, line); err != nil {
			return nil, err
		}
	}
	return text, nil
}
