package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/schema"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	pageSize  = 500 // queues in a page
	mostPages = 200
)

// directory is a client of the management interface, for the queues of a virtual host. The available libraries neither
// support contexts nor limit answers.
type directory struct {
	uri        amqp091.URI
	management string      // URL that the user gave, or ""
	tls        *tls.Config // nil: the system's defaults
}

// listed is a queue as the management interface reports it. The counts of a new queue are nil.
type listed struct {
	Name      string
	Type      string
	Exclusive bool
	Ready     *int64         `json:"messages_ready"`
	Unacked   *int64         `json:"messages_unacknowledged"`
	Arguments map[string]any `json:"arguments"`
	Policy    map[string]any `json:"effective_policy_definition"`
}

// QueueName returns the name in a configured queue, without escapes. pattern reports whether text is a pattern in the syntax of
// [path.Match] instead. In a name, a backslash escapes the characters * ? [ \.
func QueueName(text string) (name string, pattern bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case strings.IndexByte("*?[", c) >= 0:
			return text, true
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), false
}

// CheckManagement returns an error if the URL of a management interface is not valid.
func CheckManagement(text string) error {
	_, err := parseManagement(text)
	return err
}

func parseManagement(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, engine.Errorf(engine.Permanent,
			"management is not a URL (write http://HOST:15672, or https://HOST:15671)")
	}
	return u, nil
}

// Queues returns the names of the queues that match a pattern, without queues that are exclusive to a connection. It returns
// either only streams, or only other queues. If there are several URLs, the first host that answers counts.
func (c *Connect) Queues(ctx context.Context, management schema.Secret, pattern string, streams bool) (names []string,
	err error) {
	conf, err := c.TLS.Config()
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	urls := len(c.URL)
	if !management.IsZero() {
		urls = min(1, urls) // all URLs share one management interface
	}
	var errs []error
	for i := range urls {
		uri, err := c.uri(i)
		if err != nil {
			return nil, err
		}
		d := directory{uri, management.Reveal(), conf}
		all, err := d.list(ctx, "name,type,exclusive")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, q := range all {
			if ok, _ := path.Match(pattern, q.Name); ok && !q.Exclusive && (q.Type == "stream") == streams {
				names = append(names, q.Name)
			}
		}
		return names, nil
	}
	return nil, cause.All(errs)
}

// list gets some columns of all queues.
func (d *directory) list(ctx context.Context, columns string) (all []listed, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	client := d.client()
	defer client.CloseIdleConnections()
	query := url.Values{"columns": {columns}, "page_size": {strconv.Itoa(pageSize)}}
	for page, pages := 1, 1; page <= pages; page++ {
		query.Set("page", strconv.Itoa(page))
		var answer struct {
			Pages int `json:"page_count"`
			Items []listed
		}
		if err := d.get(ctx, client, query, &answer); err != nil {
			return nil, err
		}
		all, pages = append(all, answer.Items...), answer.Pages
		if pages > mostPages || len(answer.Items) > pageSize {
			return nil, engine.Errorf(engine.Permanent,
				"the management interface lists more than %d queues (spread them over virtual hosts)", mostPages*pageSize)
		}
	}
	return all, nil
}

// base returns the configured URL, or the default port on the broker's host. It uses TLS if the connection to the broker does,
// since the password is the same.
func (d *directory) base() (*url.URL, error) {
	switch {
	case d.management != "":
		return parseManagement(d.management)
	case d.uri.Scheme == "amqps":
		return &url.URL{Scheme: "https", Host: net.JoinHostPort(d.uri.Host, "15671")}, nil
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(d.uri.Host, "15672")}, nil
}

// get gets the queues of the virtual host, or the resource below them, into v.
func (d *directory) get(ctx context.Context, client *http.Client, query url.Values, v any, below ...string) error {
	base, err := d.base()
	if err != nil {
		return err
	}
	shown := base.Scheme + "://" + base.Host
	u := base.JoinPath("api", "queues", url.PathEscape(d.uri.Vhost)).JoinPath(below...)
	u.User = nil
	u.RawQuery = cmp.Or(query.Encode(), u.RawQuery)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return engine.Errorf(engine.Permanent, "the management interface at %s: the URL is not valid", shown)
	}
	user, password := d.uri.Username, d.uri.Password
	if base.User != nil {
		user = base.User.Username()
		password, _ = base.User.Password()
	}
	req.SetBasicAuth(user, password)
	res, err := client.Do(req)
	if err != nil {
		return engine.Errorf(engine.Transient,
			"the management interface at %s does not answer (rabbitmq-plugins enable rabbitmq_management, or set its URL: `management`): %w", shown,
			withoutURL(err))
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return engine.Errorf(engine.Auth,
			"the management interface at %s refuses the user (give it the tag management: rabbitmqctl set_user_tags USER management)", shown)
	case res.StatusCode == http.StatusNotFound:
		return engine.Errorf(engine.Auth,
			"the management interface at %s has no virtual host %s (check the URL's path)", shown,
			cmp.Or(d.uri.Vhost, "/"))
	case res.StatusCode != http.StatusOK:
		return engine.Errorf(engine.Transient, "the management interface at %s answers %s", shown, res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(v); err != nil {
		return engine.Errorf(engine.Transient, "the response of %s: %w", shown, err)
	}
	return nil
}

// withoutURL returns an error without the URL of the request, which is part of the caller's text.
func withoutURL(err error) error {
	if u, ok := err.(*url.Error); ok { //nolint:errorlint // what http.Client returns
		return u.Err
	}
	return err
}
