//go:build !no_google && (!slim || google)

package secrets

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/internal/systems/google"
)

// GCP configures the client of Google Cloud's Secret Manager.
type GCP struct {
	Google  google.Config `yaml:",inline"`
	Project string        `yaml:"project" doc:"Project of secrets that are named without one. By default, it is in GOOGLE_CLOUD_PROJECT."`
}

func init() { openers["gcp_secret"] = openGCP }

func openGCP(c *Config) (manager, error) {
	m := &gcp{}
	if c != nil && c.GCP != nil {
		m.conf = *c.GCP
	}
	m.conf.Project = cmp.Or(m.conf.Project, os.Getenv("GOOGLE_CLOUD_PROJECT"))
	return m, nil
}

const ofGCP = "Google Cloud's Secret Manager"

// gcp is a client of Google Cloud's Secret Manager.
type gcp struct {
	conf GCP

	mu     sync.Mutex     // guards the field below
	client *google.Client // nil: not open yet
}

func (m *gcp) origin() string { return m.conf.Google.Endpoint + " " + m.conf.Project }

// read returns the latest version of a secret, or the one in its name: NAME, or projects/PROJECT/secrets/NAME, and
// perhaps /versions/VERSION.
func (m *gcp) read(ctx context.Context, name string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, mostFetch)
	defer cancel()
	path := name
	if !strings.HasPrefix(name, "projects/") {
		if m.conf.Project == "" {
			return nil, refused("write projects/PROJECT/secrets/NAME, or set GOOGLE_CLOUD_PROJECT", "the project of the secret is not known")
		}
		path = "projects/" + m.conf.Project + "/secrets/" + name
	}
	if !strings.Contains(path, "/versions/") {
		path += "/versions/latest"
	}
	client, err := m.open(ctx)
	if err != nil {
		return nil, lost(ofGCP, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(cmp.Or(m.conf.Google.Endpoint,
		"https://secretmanager.googleapis.com"), "/")+"/v1/"+escaped(path)+":access", nil)
	if err != nil {
		return nil, refused("correct `endpoint`", "the endpoint is not a valid URL")
	}
	res, err := client.Do(req)
	body, err := answered(ofGCP, res, err)
	if err != nil {
		return nil, err
	}
	var answer struct{ Payload struct{ Data []byte } }
	if json.Unmarshal(body, &answer) != nil || answer.Payload.Data == nil {
		return nil, foreign(ofGCP)
	}
	return fieldsOf(string(answer.Payload.Data)), nil
}

// open finds the credentials, once.
func (m *gcp) open(ctx context.Context) (*google.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil {
		return m.client, nil
	}
	client, err := m.conf.Google.Open(ctx)
	if err == nil {
		m.client = client
	}
	return client, err
}

func (m *gcp) close() {
	if m.client != nil {
		m.client.Close()
	}
}
