package httpx

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Network is a transport for requests to where a configuration says, through a proxy if the environment names one.
// Headers are bounded; answers and deadlines are those of who makes requests.
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

// Direct is a client for calls that carry credentials: it follows no redirect, its errors
// mark requests of which nothing was sent, and its answers are [Bounded] to most bytes. Deadlines are those of the
// requests.
func Direct(network *http.Transport, most int) *http.Client {
	network.DisableCompression = true // what is stored compressed stays so
	return &http.Client{Transport: Transport{Bounded{Quiet(network), most}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
