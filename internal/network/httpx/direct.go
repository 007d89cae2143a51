package httpx

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Network is a transport for requests to configured places, through a proxy if the environment names one. It bounds
// headers. Callers bound answers and set deadlines.
func Network(conf *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    64,
		MaxResponseHeaderBytes: MostHeader,
	}
}

// Direct is a client for calls with credentials. It follows no redirects, its errors mark requests of which nothing
// was sent, and answers are [Bounded] to most bytes. Requests bring their own deadlines.
func Direct(network *http.Transport, most int) *http.Client {
	network.DisableCompression = true // objects that are stored compressed stay so
	return &http.Client{Transport: Transport{Bounded{Quiet(network), most}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
