package cli

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestAReloadMovesTheListenerForScrapers(t *testing.T) {
	ports := make([]string, 2)
	for i := range ports {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, ports[i], _ = net.SplitHostPort(ln.Addr().String())
		if i == 1 {
			t.Cleanup(func() { ln.Close() }) // in use until the end
			break
		}
		ln.Close()
	}
	free, used := ports[0], ports[1]
	const pipeline = "inputs: {in: {test_lines: {wait: true}}}\noutputs: {out: {test_drop: {}}}\n"
	listening := func(at string) map[string]string {
		return map[string]string{"p.yaml": pipeline + "service: {metrics: {listen: '" + at + "'}}\n"}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answers := func() bool {
		res, err := client.Get("http://127.0.0.1:" + free + "/live")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	}

	s := steer(t, listening("127.0.0.1:"+free))
	if err := s.serveMetrics(s.set.Service); err != nil || !answers() {
		t.Fatalf("no answer: %v", err)
	}
	defer func() {
		if err := s.closeMetrics(); err != nil {
			t.Error(err)
		}
	}()
	before := s.metrics
	if s.reload(); s.metrics != before || !answers() {
		t.Error("a reload without a change closes it")
	}
	s.write(listening("127.0.0.1:" + used))
	if err := s.Reload(); err == nil || !strings.Contains(s.says.String(), "address already in use") || !answers() {
		t.Errorf("a port in use: %v\n%s", err, s.says)
	}
	s.write(listening("0.0.0.0:" + free))
	if s.reload(); s.metrics == before || !answers() {
		t.Error("another address with the same port does not answer")
	}
	s.write(map[string]string{"p.yaml": pipeline})
	if s.reload(); answers() {
		t.Error("it answers although it is no longer configured")
	}
}
