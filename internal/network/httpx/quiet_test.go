package httpx

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// pings answers a request over HTTP/2, and then pings for as long as it is heard; it gives how much it could send.
func pings(c net.Conn) (sent int, err error) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return 0, err
	}
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		return 0, err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0, err
		}
		asks, ok := frame.(*http2.HeadersFrame)
		if !ok {
			continue
		}
		var b bytes.Buffer
		if err := hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "200"}); err != nil {
			return 0, err
		}
		err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: asks.StreamID, BlockFragment: b.Bytes(), EndHeaders: true,
			EndStream: true})
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for ; err == nil && sent < 64*mostUnasked; sent += 17 {
			err = f.WritePing(false, [8]byte{})
		}
		return sent, err
	}
}

func TestAServerThatIsNotAskedIsLeft(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.EnableHTTP2 = true
	s.StartTLS()
	conf := &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}}
	s.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type end struct {
		sent int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			ended <- end{0, err}
			return
		}
		defer c.Close()
		sent, err := pings(c)
		ended <- end{sent, err}
	}()
	client := Direct(Network(&tls.Config{InsecureSkipVerify: true}), MostAnswer) // #nosec G402 -- its certificate is of the test
	res, err := client.Get("https://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if e := <-ended; e.err == nil || e.sent == 0 {
		t.Errorf("the server could send %d bytes: %v", e.sent, e.err)
	}
	if res.ProtoMajor != 2 {
		t.Error(res.Proto)
	}
}

func TestWhatIsAskedForIsHeard(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 3*mostUnasked))
	}))
	defer s.Close()
	client := &http.Client{Transport: Quiet(Network(nil))}
	defer client.CloseIdleConnections()
	for range 3 {
		res, err := client.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, res.Body); err != nil || n != 3*mostUnasked {
			t.Error(n, err)
		}
		res.Body.Close()
	}
}
