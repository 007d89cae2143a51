package redistest

import "testing"

// What is written stays where the server saves it; a set and a cluster come up.
func TestServers(t *testing.T) {
	r := Own(t, "--appendonly", "yes", "--appendfsync", "always")
	c := Client(t, r.URL())
	if err := c.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	r.Start(t)
	if got := Client(t, r.URL()).Get(t.Context(), "a").Val(); got != "1" {
		t.Errorf("after a restart a is %q", got)
	}
	if s := Sentinels(t); len(s.Sentinels) != 3 {
		t.Errorf("%d sentinels", len(s.Sentinels))
	}
	if n := Cluster(t).Addresses(); len(n) != 3 {
		t.Errorf("%d masters", len(n))
	}
}
