package grpcx

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// answered returns the answer that a client gets.
func answered(serve func(http.ResponseWriter)) *http.Response {
	w := httptest.NewRecorder()
	serve(w)
	return w.Result()
}

func TestStatuses(t *testing.T) {
	for _, retry := range []time.Duration{0, 1500 * time.Millisecond} {
		want := NewStatus(codes.Unavailable, "50 % ünïcode\nline", retry)
		message, got, err := Result(answered(func(w http.ResponseWriter) { Refuse(w, want) }), 100)
		if err != nil || message != nil || got.Code() != want.Code() || got.Message() != want.Message() {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		if delay, ok := RetryInfo(got); delay != retry || ok != (retry > 0) {
			t.Errorf("got a delay of %v, %v", delay, ok)
		}
	}
}

func TestAnswers(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, strings.Repeat("x", 200))
	_ = z.Close()
	compressed := func(w http.ResponseWriter) {
		_, _ = w.Write(framed(packed.Bytes(), true))
		w.Header().Set(http.TrailerPrefix+statusCode, "0")
	}
	for _, tt := range []struct {
		name  string
		serve func(http.ResponseWriter)
		most  int64
		want  string // an error if it has blanks
	}{
		{"a message", func(w http.ResponseWriter) { Answer(w, []byte("hi")) }, 100, "hi"},
		{"an empty one", func(w http.ResponseWriter) { Answer(w, nil) }, 100, ""},
		{"a compressed one", compressed, 200, strings.Repeat("x", 200)},
		{"a compressed one that is too long", compressed, 199, "the answer is longer than 199 bytes"},
		{"one that is too long", func(w http.ResponseWriter) { Answer(w, []byte("hello")) }, 9, "the answer is longer than 9 bytes"},
		{"no status", func(w http.ResponseWriter) { _, _ = w.Write(framed(nil, false)) }, 100,
			"the answer has no grpc-status (is this a gRPC server?)"},
		{"two messages", func(w http.ResponseWriter) { Answer(w, nil); _, _ = w.Write(framed(nil, false)) }, 100,
			"the body is not one message of gRPC"},
	} {
		message, _, err := Result(answered(tt.serve), tt.most)
		got := string(message)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCalls(t *testing.T) {
	r := httptest.NewRequest("POST", "/a.B/C", nil)
	r.ProtoMajor = 2
	for kind, want := range map[string]bool{"application/grpc": true, "application/grpc+proto": true, "application/grpc;x=y": true,
		"application/grpc-web": false, "application/json": false, "": false} {
		if r.Header.Set("Content-Type", kind); IsCall(r) != want {
			t.Errorf("%q: got %v", kind, !want)
		}
	}
	body := Prepare(r.Header, []byte("x"), "gzip")
	if message, compressed, err := Message(body); err != nil || !compressed || string(message) != "x" || Encoding(r) != "gzip" || !IsCall(r) {
		t.Errorf("got %q, %v, %v, %v", message, compressed, err, r.Header)
	}
}

// FuzzResult reads the answers of servers.
func FuzzResult(f *testing.F) {
	f.Add("14", "a%20b", "CAE", framed([]byte("x"), false))
	f.Add("0", "", "", framed([]byte("x"), true))
	f.Fuzz(func(t *testing.T, code, text, details string, body []byte) {
		h := http.Header{}
		h.Set(statusCode, code)
		h.Set(statusMessage, text)
		h.Set(statusDetails, details)
		message, s, err := Result(&http.Response{Header: h, Body: io.NopCloser(bytes.NewReader(body))}, 1000)
		if err == nil && (s == nil || len(message) > 1000) {
			t.Fatalf("%d bytes, %v", len(message), s)
		}
		RetryInfo(s)
	})
}
