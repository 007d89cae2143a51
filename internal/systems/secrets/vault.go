//go:build !no_vault && (!slim || vault)

package secrets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

// Vault configures the client of Vault. What is not set comes from the variables that Vault's own tools use.
type Vault struct {
	Address   string         `yaml:"address" doc:"URL of the server, such as https://vault:8200. By default, it is in VAULT_ADDR."`
	Token     schema.Secret  `yaml:"token" doc:"Token. By default, it is in VAULT_TOKEN, or in ~/.vault-token."`
	TokenFile string         `yaml:"token_file" doc:"File with the token, such as the sink of Vault Agent. It is read again at each reload."`
	Namespace string         `yaml:"namespace" doc:"Namespace of Vault Enterprise. By default, it is in VAULT_NAMESPACE."`
	TLS       tlsconf.Client `yaml:"tls" doc:"TLS settings other than the system's defaults. By default, they are in VAULT_CACERT, VAULT_CLIENT_CERT, VAULT_CLIENT_KEY, VAULT_TLS_SERVER_NAME and VAULT_SKIP_VERIFY."`
}

// CheckConfig reports an invalid address, and two tokens.
func (c *Vault) CheckConfig(report func(path, message, remedy string)) {
	if c.Address != "" && !isAddress(c.Address) {
		report("address", "is not an http or https URL", "write one such as https://vault:8200")
	}
	if !c.Token.IsZero() && c.TokenFile != "" {
		report("token_file", "token is set, too", "remove one of them")
	}
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		u.RawQuery == "" && u.Fragment == ""
}

func init() { openers["vault"] = openVault }

// openVault makes a client of Vault. It reads the files of its configuration, but does not connect.
func openVault(c *Config) (manager, error) {
	conf := Vault{}
	if c != nil && c.Vault != nil {
		conf = *c.Vault
	}
	v := &vault{address: strings.TrimRight(cmp.Or(conf.Address, os.Getenv("VAULT_ADDR")), "/"),
		namespace: cmp.Or(conf.Namespace, os.Getenv("VAULT_NAMESPACE"))}
	switch {
	case v.address == "":
		return nil, refused("set VAULT_ADDR, or `resources: {secrets: {vault: {vault: {address: …}}}}`", "the address of Vault is not set")
	case !isAddress(v.address):
		return nil, refused("set it to a URL such as https://vault:8200", "VAULT_ADDR is not an http or https URL")
	}
	var err error
	if v.token, err = conf.token(); err != nil {
		return nil, err
	}
	tls := conf.TLS
	if tls == (tlsconf.Client{}) {
		tls = tlsconf.Client{CA: os.Getenv("VAULT_CACERT"), Cert: os.Getenv("VAULT_CLIENT_CERT"),
			Key:        schema.NewSecret(os.Getenv("VAULT_CLIENT_KEY")),
			ServerName: os.Getenv("VAULT_TLS_SERVER_NAME")}
		tls.SkipVerify, _ = strconv.ParseBool(os.Getenv("VAULT_SKIP_VERIFY"))
	}
	secure, err := tls.Config()
	if err != nil {
		return nil, refused("correct the files", "TLS of Vault: %w", err)
	}
	v.client = httpx.Direct(httpx.Network(secure), mostAnswer)
	v.secrets = (*schema.Secrets)(nil).With(v.token)
	return v, nil
}

// token returns the token of the configuration or the environment.
func (c *Vault) token() (string, error) {
	file := c.TokenFile
	switch {
	case !c.Token.IsZero():
		return c.Token.Reveal(), nil
	case file != "":
	case os.Getenv("VAULT_TOKEN") != "":
		return os.Getenv("VAULT_TOKEN"), nil
	default:
		home, err := os.UserHomeDir()
		if err != nil {
			home = "."
		}
		file = filepath.Join(home, ".vault-token")
	}
	token, found, err := schema.Environment("file:" + file)
	token = strings.TrimSpace(token)
	switch {
	case err == nil && !found && c.TokenFile == "":
		return "", refused("set VAULT_TOKEN, or token or token_file in `resources.secrets`", "there is no token for Vault")
	case err == nil && !found:
		return "", refused("create it, or correct token_file", "the file with Vault's token, %s, does not exist", file)
	case err != nil:
		return "", refused("correct the file", "the file with Vault's token, %s: %w", file, err)
	case token == "" || strings.ContainsAny(token, " \r\n\t\x00"):
		return "", refused("write only the token into the file", "the file with Vault's token, %s, does not contain a token", file)
	}
	return token, nil
}

// vault is a client of Vault.
type vault struct {
	address, namespace, token string
	client                    *http.Client
	secrets                   *schema.Secrets // masked in errors
}

func (v *vault) origin() string { return v.address + " " + v.namespace }

func (v *vault) close() { v.client.CloseIdleConnections() }

// read returns the fields of a secret of the key-value engine, version 1 or 2. The path is as in `vault kv get`, or as
// in the API, with data/ after the mount.
func (v *vault) read(ctx context.Context, path string) (map[string]string, error) {
	at, version, err := v.locate(ctx, path)
	if err != nil {
		return nil, err
	}
	var answer struct{ Data map[string]json.RawMessage }
	found, err := v.get(ctx, at, &answer)
	if err != nil {
		return nil, err
	}
	data := answer.Data
	if found && data == nil {
		return nil, v.foreign("200 OK")
	}
	if version == "2" || version == "" && isVersioned(data) {
		var inner map[string]json.RawMessage
		if found && json.Unmarshal(data["data"], &inner) != nil {
			return nil, v.foreign("200 OK")
		}
		data = inner
	}
	if data == nil {
		return nil, Missing("Vault has no secret with this path", "create it, correct the path, or give a default with :-")
	}
	return textsOf(data), nil
}

// isVersioned reports whether data is that of an engine of version 2: the fields are in data, beside metadata.
func isVersioned(data map[string]json.RawMessage) bool {
	var metadata struct{ Version *int }
	return len(data) == 2 && data["data"] != nil && json.Unmarshal(data["metadata"], &metadata) == nil && metadata.Version != nil
}

// locate returns the path of a secret in the API, and the version of the engine there. Without the permission to ask for
// the version, it is "", and the path must be that of the API.
func (v *vault) locate(ctx context.Context, path string) (at, version string, err error) {
	var answer struct {
		Data struct {
			Path, Type string
			Options    map[string]any
		}
	}
	_, err = v.get(ctx, "sys/internal/ui/mounts/"+path, &answer)
	mount := answer.Data.Path
	rest, inside := strings.CutPrefix(path, mount)
	switch kind := answer.Data.Type; {
	case isDown(err):
		return "", "", err
	case err != nil || mount == "" || !inside:
		return path, "", nil // its own answer says what is wrong
	case kind != "kv" && kind != "generic" && kind != "cubbyhole":
		return "", "", refused("write the path of a key-value secret",
			"%s is a secrets engine of type %q, and only key-value engines are read", mount, kind)
	case answer.Data.Options["version"] != "2":
		return path, "1", nil
	case !strings.HasPrefix(rest, "data/"):
		path = mount + "data/" + rest
	}
	return path, "2", nil
}

// get makes a request. found is false if Vault has nothing with this path.
func (v *vault) get(ctx context.Context, path string, into any) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostFetch)
	defer cancel()
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.address+"/v1/"+strings.Join(parts, "/"), nil)
	if err != nil {
		return false, refused("correct the address", "the address of Vault is not a valid URL")
	}
	req.Header.Set("X-Vault-Token", v.token)
	req.Header.Set("X-Vault-Request", "true")
	if v.namespace != "" {
		req.Header.Set("X-Vault-Namespace", v.namespace)
	}
	res, err := v.client.Do(req)
	if err != nil {
		return false, v.unreachable(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return false, v.unreachable(err)
	}
	return v.understand(res, body, into)
}

// unreachable returns the error of a request without a complete answer.
func (v *vault) unreachable(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	return down("check the address, and that Vault runs", "Vault at %s can't be reached: %s", v.address,
		call.Head([]byte(err.Error()), mostQuoted, v.secrets))
}

// foreign returns the error of an answer that another program gave, such as a proxy.
func (v *vault) foreign(status string) error {
	return down("check the address", "the answer of %s is not one of Vault: %s", v.address, status)
}

// understand decodes an answer.
func (v *vault) understand(res *http.Response, body []byte, into any) (found bool, err error) {
	var refusal struct{ Errors *[]string }
	status, said := res.StatusCode, ""
	if status != http.StatusOK && json.Unmarshal(body, &refusal) == nil && refusal.Errors != nil {
		said = call.Head([]byte(strings.Join(*refusal.Errors, "; ")), mostQuoted, v.secrets)
	}
	text := fmt.Sprintf("Vault at %s: %d %s", v.address, status, http.StatusText(status))
	if said != "" {
		text += ": " + said
	}
	switch {
	case status == http.StatusOK:
		if json.Unmarshal(body, into) != nil { // the error may quote a value
			return false, v.foreign("200 OK")
		}
		return true, nil
	case status == http.StatusNotFound && (refusal.Errors != nil || bytes.Contains(body, []byte(`"data"`))):
		return false, nil // version 2 answers so with the metadata of a deleted secret
	case status == http.StatusNotFound:
		return false, v.foreign("404 Not Found")
	case status >= 300 && status < 400:
		return false, refused("write the address of the active server, or of a load balancer", "%s redirects to another server", text)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return false, refused("check the token, and that its policy allows reading this path", "%s", text)
	case status == http.StatusServiceUnavailable:
		return false, down("unseal it, or check that it runs", "%s", text)
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout ||
		status == http.StatusPreconditionFailed || status == 472 || status == 473: // standby servers
		return false, down("check that it runs", "%s", text)
	}
	return false, refused("", "%s", text)
}
