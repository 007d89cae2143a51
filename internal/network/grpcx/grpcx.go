// Package grpcx is gRPC's unary calls over the HTTP/2 of the standard library: [Answer] and [Refuse] answer them, and [Prepare] and
// [Result] make them. So their bodies are read, bounded and authorised as those of other requests. A [status.Status] is how a call
// has ended, also for services that exist over plain HTTP as well.
package grpcx

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ContentType is that of calls and answers.
const ContentType = "application/grpc"

// The headers of calls, and the trailers of answers.
const (
	encoding       = "Grpc-Encoding"
	acceptEncoding = "Grpc-Accept-Encoding"
	statusCode     = "Grpc-Status"
	statusMessage  = "Grpc-Message"
	statusDetails  = "Grpc-Status-Details-Bin"
)

// IsCall says whether a request is a call.
func IsCall(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && strings.HasPrefix(kind, ContentType) &&
		(len(kind) == len(ContentType) || kind[len(ContentType)] == '+' || kind[len(ContentType)] == ';')
}

// NewStatus returns a status that asks to retry after a delay; 0: it does not.
func NewStatus(code codes.Code, message string, retry time.Duration) *status.Status {
	s := status.New(code, message)
	if retry > 0 {
		if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)}); err == nil {
			s = with
		}
	}
	return s
}

// RetryInfo returns after which delay a status asks to retry, and whether it does.
func RetryInfo(s *status.Status) (delay time.Duration, ok bool) {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return max(info.GetRetryDelay().AsDuration(), 0), true
		}
	}
	return 0, false
}

// ParseStatus reads a status in protobuf form, as in an answer over plain HTTP.
func ParseStatus(raw []byte) (*status.Status, error) {
	var s rpc.Status
	if err := proto.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("not a google.rpc.Status: %w", err)
	}
	return status.FromProto(&s), nil
}

// Encoding is how the message of a call is compressed, such as gzip, or "".
func Encoding(r *http.Request) string {
	if coding := r.Header.Get(encoding); coding != "identity" {
		return coding
	}
	return ""
}

// frame is how many bytes stand before a message: whether it is compressed, and its length.
const frame = 5

var errFrame = errors.New("the body is not one message of gRPC")

// Message returns the message in a body, and whether it is compressed.
func Message(body []byte) (message []byte, compressed bool, err error) {
	if len(body) < frame || body[0] > 1 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-frame) {
		return nil, false, errFrame
	}
	return body[frame:], body[0] == 1, nil
}

// framed returns the body with a message.
func framed(message []byte, compressed bool) []byte {
	body := make([]byte, frame, frame+len(message))
	if compressed {
		body[0] = 1
	}
	binary.BigEndian.PutUint32(body[1:], uint32(len(message))) // #nosec G115 -- messages are far smaller
	return append(body, message...)
}

// Answer answers a call.
func Answer(w http.ResponseWriter, message []byte) {
	w.Header().Set("Content-Type", ContentType)
	_, _ = w.Write(framed(message, false)) // a client that is gone gets no answer
	w.Header().Set(http.TrailerPrefix+statusCode, "0")
}

// Refuse answers a call that has failed.
func Refuse(w http.ResponseWriter, s *status.Status) {
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set(acceptEncoding, "gzip")
	h.Set(statusCode, strconv.Itoa(int(s.Code())))
	h.Set(statusMessage, escaped(s.Message()))
	if raw, err := proto.Marshal(s.Proto()); err == nil && len(s.Proto().GetDetails()) > 0 {
		h.Set(statusDetails, base64.RawStdEncoding.EncodeToString(raw))
	}
	w.WriteHeader(http.StatusOK)
}

// escaped percent-encodes what a header can't contain.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range []byte(strings.ToValidUTF8(text, "\ufffd")) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Prepare sets the headers of a call, and returns its body.
func Prepare(h http.Header, message []byte, coding string) []byte {
	h.Set("Content-Type", ContentType)
	h.Set("Te", "trailers")
	h.Set(acceptEncoding, "gzip")
	if coding != "" {
		h.Set(encoding, coding)
	}
	return framed(message, coding != "")
}

// Result returns the message of an answer, whose body it reads up to a number of bytes, and how the call has ended.
func Result(res *http.Response, most int64) ([]byte, *status.Status, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return nil, nil, err
	case int64(len(body)) > most:
		return nil, nil, fmt.Errorf("the answer is longer than %d bytes", most)
	}
	s := statusOf(res.Trailer)
	if s == nil {
		s = statusOf(res.Header)
	}
	switch {
	case s == nil:
		return nil, nil, errors.New("the answer has no grpc-status (is this a gRPC server?)")
	case s.Code() != codes.OK:
		return nil, s, nil
	}
	message, compressed, err := Message(body)
	if err == nil && compressed {
		message, err = unzipped(message, most)
	}
	return message, s, err
}

func unzipped(message []byte, most int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(z, most+1))
	if err == nil && int64(len(plain)) > most {
		err = fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return plain, err
}

// statusOf returns the status in headers or trailers, or nil.
func statusOf(h http.Header) *status.Status {
	text := h.Get(statusCode)
	if text == "" {
		return nil
	}
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		code = uint64(codes.Unknown)
	}
	message, err := url.PathUnescape(h.Get(statusMessage))
	if err != nil {
		message = h.Get(statusMessage)
	}
	plain := status.New(codes.Code(code), strings.ToValidUTF8(message, "\ufffd"))
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(h.Get(statusDetails), "="))
	if err != nil || len(raw) == 0 {
		return plain
	}
	if s, err := ParseStatus(raw); err == nil && s.Code() == plain.Code() {
		return s
	}
	return plain
}
