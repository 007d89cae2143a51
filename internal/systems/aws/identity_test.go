package aws

import (
	"crypto/sha1" // #nosec G505 -- how the AWS tools name cached tokens
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// fakeIdentities starts a fake of STS and of the portal of IAM Identity Center, and sets the environment so that the SDK uses
// it and finds no other credentials. asked are the requests that the fake has received.
func fakeIdentities(t *testing.T) (home string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	keys := func(id string) string {
		return fmt.Sprintf("<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"+
			"<SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials>", id,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/federation/credentials" {
			*asked = append(
				*asked,
				"portal "+r.Header.Get("X-Amz-Sso_bearer_token")+" "+r.URL.Query().Get("role_name"),
			)
			fmt.Fprintf(
				w,
				`{"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"s","sessionToken":"t","expiration":%d}}`,
				time.Now().Add(time.Hour).UnixMilli(),
			)
			return
		}
		_ = r.ParseForm()
		action := r.Form.Get("Action")
		_, by, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		by, _, _ = strings.Cut(by, "/")
		*asked = append(*asked, strings.TrimSpace(fmt.Sprintf("%s %s %s %s%s", action, r.Form.Get("RoleArn"), by,
			r.Form.Get("ExternalId"), r.Form.Get("WebIdentityToken"))))
		id := map[string]string{"AssumeRole": "ROLE", "AssumeRoleWithWebIdentity": "WEB"}[action]
		fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%s</%[1]sResult></%[1]sResponse>", action, keys(id))
	}))
	t.Cleanup(server.Close)
	home = t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "AWS_CONFIG_FILE": filepath.Join(home, "config"), "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_PROFILE": "", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1",
		"AWS_ENDPOINT_URL_STS": server.URL, "AWS_ENDPOINT_URL_SSO": server.URL, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ROLE_ARN": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
	} {
		t.Setenv(name, value)
	}
	return home, asked
}

// writeFile writes a file below the home directory, and returns its path.
func writeFile(t *testing.T, home, name, text string) string {
	t.Helper()
	path := filepath.Join(home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantKeys checks the id of the credentials that are found, and the requests for them.
func wantKeys(t *testing.T, c Config, asked *[]string, id string, how ...string) {
	t.Helper()
	keys, _, err := c.Keys(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if keys.AccessKeyID != id || strings.Join(*asked, "; ") != strings.Join(how, "; ") {
		t.Errorf("keys %s by %q, want %s by %q", keys.AccessKeyID, *asked, id, how)
	}
}

func TestRoleOfTheConfiguration(t *testing.T) {
	_, asked := fakeIdentities(t)
	wantKeys(t, Config{Credentials: &Credentials{AccessKeyID: "OWN", SecretAccessKey: schema.NewSecret("s")},
		Role: &Role{ARN: "arn:aws:iam::123456789012:role/r", ExternalID: schema.NewSecret("ext")}}, asked,
		"ROLE", "AssumeRole arn:aws:iam::123456789012:role/r OWN ext")
}

func TestWebIdentityOfTheEnvironment(t *testing.T) {
	home, asked := fakeIdentities(t)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", writeFile(t, home, "token", "jwt"))
	wantKeys(t, Config{}, asked, "WEB", "AssumeRoleWithWebIdentity arn:aws:iam::123456789012:role/pod  jwt")
}

// TestWebIdentityThenRole assumes a role of another account with the role of a pod.
func TestWebIdentityThenRole(t *testing.T) {
	home, asked := fakeIdentities(t)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", writeFile(t, home, "token", "jwt"))
	wantKeys(t, Config{Role: &Role{ARN: "arn:aws:iam::210987654321:role/other"}}, asked, "ROLE",
		"AssumeRoleWithWebIdentity arn:aws:iam::123456789012:role/pod  jwt",
		"AssumeRole arn:aws:iam::210987654321:role/other WEB")
}

const ssoProfile = `
[profile work]
sso_session = company
sso_account_id = 123456789012
sso_role_name = reader
region = eu-west-1
[sso-session company]
sso_region = eu-west-1
sso_start_url = https://company.awsapps.com/start
`

// signIn stores a token of the session, as "aws sso login" does.
func signIn(t *testing.T, home string, until time.Time) {
	t.Helper()
	sum := sha1.Sum([]byte("company")) // #nosec G401
	writeFile(t, home, filepath.Join(".aws", "sso", "cache", hex.EncodeToString(sum[:])+".json"),
		fmt.Sprintf(`{"accessToken":"portal-token","expiresAt":%q}`, until.UTC().Format(time.RFC3339)))
}

func TestProfileOfSSO(t *testing.T) {
	home, asked := fakeIdentities(t)
	writeFile(t, home, "config", ssoProfile)
	signIn(t, home, time.Now().Add(time.Hour))
	wantKeys(t, Config{Profile: "work"}, asked, "SSO", "portal portal-token reader")
}

func TestAnExpiredSSOSessionIsOfClassAuthAndHasARemedy(t *testing.T) {
	home, _ := fakeIdentities(t)
	writeFile(t, home, "config", ssoProfile)
	signIn(t, home, time.Now().Add(-time.Hour))
	_, _, err := (&Config{Profile: "work"}).Keys(t.Context(), "")
	if engine.ErrorOf(err, "").Class != engine.Auth || !strings.Contains(err.Error(), "aws sso login") {
		t.Errorf("error %v", err)
	}
}
