package httpx

import (
	"crypto/tls"
	"net/http"
	"time"
)

// Direct is a client for calls that carry credentials: it follows no redirect, and its errors
// mark requests of which nothing was sent. Deadlines are those of the requests.
func Direct(conf *tls.Config) *http.Client {
	network := http.DefaultTransport.(*http.Transport).Clone()
	network.TLSClientConfig, network.MaxIdleConnsPerHost = conf, 64
	network.TLSHandshakeTimeout, network.DisableCompression = 10*time.Second, true
	return &http.Client{Transport: Transport{network},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
