package secrets

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
)

// answered returns the body of a service's answer, or the error that its status or err means. It closes the body.
func answered(service string, res *http.Response, err error) ([]byte, error) {
	var body []byte
	if err == nil {
		defer res.Body.Close()
		body, err = io.ReadAll(res.Body)
	}
	if err != nil {
		return nil, lost(service, err)
	}
	text := service + ": " + res.Status
	if said := call.Head(body, mostQuoted, nil); said != "" && res.StatusCode != http.StatusOK {
		text += ": " + said
	}
	switch status := res.StatusCode; {
	case status == http.StatusOK:
		return body, nil
	case status == http.StatusNotFound:
		return nil, Missing(service+" has no secret with this name, or no current version of it",
			"create it, correct the name, or give a default with :-")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, refused("allow these credentials to read the secret", "%s", text)
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return nil, down("check the status of the service", "%s", text)
	}
	return nil, refused("correct the name", "%s", text)
}

// lost returns the error of a request without a complete answer. Errors with a class keep it.
func lost(service string, err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		if e.Class == engine.Transient || e.Class == engine.Timeout {
			return down("", "%w", err)
		}
		return refused("", "%w", err)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	return down("check the network", "%s can't be reached: %w", service, err)
}

// foreign returns the error of an answer that another program gave, such as a proxy.
func foreign(service string) error {
	return down("check `endpoint`", "the answer is not one of %s", service)
}

// escaped returns a path with its parts escaped.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
