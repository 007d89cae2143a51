package reply

import (
	"net/http"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// open is a slip for n messages, and messages that are tied to it.
func open(n, most int) (*Desk, *Slip, []*engine.Message) {
	d := Of(&engine.Shared{})
	s := d.Open(engine.Meta{}.With("a", 1).Own(), n, &Room{Max: most})
	b := engine.NewBatch(n)
	for i := range n {
		s.Mark(b.Add(nil), i, false)
	}
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	return d, s, all
}

func text(body string) Reply { return Reply{Body: []byte(body)} }

// number is a reply of a part.
func number(part int, body string) Reply { return Reply{part: part, Body: []byte(body)} }

func TestJoin(t *testing.T) {
	dead := func(r Reply) Reply { r.dead = true; return r }
	with := func(r Reply, status int, header string) Reply {
		r.Status, r.Header = status, http.Header{"X": {header}, "Content-Type": {"text/plain"}}
		return r
	}
	tests := []struct {
		name    string
		replies []Reply
		dead    bool
		want    string
		status  int
		header  string
	}{
		{"none", nil, false, "", 0, ""},
		{"one as it is", []Reply{text("hello")}, false, "hello", 0, ""},
		{"one part is a list", []Reply{number(1, "hello")}, false, `["hello"]`, 0, ""},
		{"parts in their order", []Reply{number(3, "3"), number(1, `{"a": 1}`), number(2, "two")}, false,
			`[{"a": 1},"two",3]`, 0, ""},
		{"several outputs", []Reply{text("a"), text("b")}, false, `["a","b"]`, 0, ""},
		{"bytes are text", []Reply{number(1, "\xff"), number(2, "")}, false, `["\ufffd",""]`, 0, ""},
		{"the worst status, the first header", []Reply{with(number(2, "2"), 500, "second"),
			with(number(1, "1"), 201, "first")}, false, "[1,2]", 500, "first"},
		{"of a dead letter's only those", []Reply{text("ok"), dead(text("sorry"))}, true, "sorry", 0, ""},
		{"a dead letter without", []Reply{text("ok")}, true, "", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := join(tt.replies, tt.dead)
			if string(got.Body) != tt.want || ok != (tt.want != "") || got.Status != tt.status ||
				got.Header.Get("X") != tt.header {
				t.Errorf("got %s %+v %v", got.Body, got, ok)
			}
			if len(tt.replies) > 1 && got.Header.Get("Content-Type") != "" && !tt.dead {
				t.Errorf("a list has the type of a part: %v", got.Header)
			}
		})
	}
}

func TestTypes(t *testing.T) {
	for body, want := range map[string]string{
		`{"a": 1}`: "application/json", "5": "application/json", "hello": "text/plain; charset=utf-8",
		"":     "text/plain; charset=utf-8",
		"\xff": "application/octet-stream", "\"\xff\"": "application/octet-stream",
		"<script>": "text/plain; charset=utf-8",
	} {
		if got := Type([]byte(body)); got != want {
			t.Errorf("%q: got %s, want %s", body, got, want)
		}
	}
}

func TestNothingIsHeldWhenARequestHasGone(t *testing.T) {
	d, s, all := open(2, 1000)
	if err := d.Answer(all[0], text("early enough")); err != nil {
		t.Fatal(err)
	}
	if err := s.Receipt(1, []byte("got it")); err != nil {
		t.Fatal(err)
	}
	if s.room.used == 0 {
		t.Error("nothing is counted")
	}
	s.Leave()
	if err := d.Answer(all[1], text("late")); err != nil {
		t.Errorf("a late reply fails: %v", err)
	}
	if err := s.Receipt(0, []byte("late")); err != nil {
		t.Error(err)
	}
	if _, ok := s.Take(0, false); ok || s.room.used != 0 || s.held != 0 {
		t.Errorf("%d bytes are still held", s.room.used)
	}
	s.Close()
	s.Close()
	if d.Waiting() != 0 {
		t.Errorf("%d slips are still there", d.Waiting())
	}
	if err := d.Answer(all[1], text("after the end")); err == nil {
		t.Error("a reply to what has ended is no error")
	}
}

func TestRoomIsBounded(t *testing.T) {
	d, s, all := open(3, 1000)
	other := d.Open(engine.Meta{}, 1, s.room)
	big := text(strings.Repeat("x", 600))
	if err := d.Answer(all[0], big); err != nil {
		t.Fatal(err)
	}
	class := func(err error) engine.Class {
		e, _ := err.(*engine.Error)
		if e == nil {
			return ""
		}
		return e.Class
	}
	if got := class(d.Answer(all[1], big)); got != engine.Rejected {
		t.Errorf("the same request: %q, want %q, since it never fits", got, engine.Rejected)
	}
	b := engine.NewBatch(1)
	m := b.Add(nil)
	other.Mark(m, 0, false)
	if got := class(d.Answer(m, big)); got != engine.Transient {
		t.Errorf("another request: %q, want %q, since it fits later", got, engine.Transient)
	}
	s.Leave()
	if err := d.Answer(m, big); err != nil {
		t.Errorf("after the first has gone: %v", err)
	}
}

func TestASettledFailureTakesItsReplyAway(t *testing.T) {
	d, s, all := open(1, 1000)
	for _, body := range []string{"first", "second"} {
		if err := d.Answer(all[0], text(body)); err != nil {
			t.Fatal(err)
		}
	}
	s.Settle(t.Context(), []uint64{2}, []uint64{1})
	if r, _ := s.Take(0, false); string(r.Body) != "second" || s.room.used != r.size() {
		t.Errorf("got %s, %d bytes held", r.Body, s.room.used)
	}
	s.Leave()
	s.Settle(t.Context(), nil, []uint64{2})
	if s.room.used != 0 {
		t.Errorf("%d bytes held", s.room.used)
	}
}

func TestMetadataOfTheClientStandsBehind(t *testing.T) {
	d, s, _ := open(2, 1000)
	m := engine.NewBatch(1).Add(nil)
	m.Meta = engine.Meta{}.With("http_request", "mine").With("http_record", 0).With("tenant", "t")
	s.Mark(m, 1, true)
	if err := d.Answer(m, text("x")); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Take(1, false); !ok {
		t.Error("the reply is not where it belongs")
	}
	for name := range m.Meta.Added() {
		if name != "tenant" {
			t.Errorf("%s would go out as a header", name)
		}
	}
}
