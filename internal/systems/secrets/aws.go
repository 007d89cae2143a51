//go:build !no_aws && (!slim || aws)

package secrets

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/aws"
)

// AWS configures the client of AWS Secrets Manager.
type AWS = aws.Config

func init() { openers["aws_secret"] = openAWS }

func openAWS(c *Config) (manager, error) {
	m := &amazon{}
	if c != nil && c.AWS != nil {
		m.conf = *c.AWS
	}
	return m, nil
}

// amazon is a client of AWS Secrets Manager.
type amazon struct {
	conf AWS

	mu      sync.Mutex   // guards the field below
	session *aws.Session // nil: not open yet
}

func (m *amazon) origin() string {
	role := ""
	if m.conf.Role != nil {
		role = m.conf.Role.ARN
	}
	return fmt.Sprintf("%q", []string{m.conf.Endpoint, cmp.Or(m.conf.Region, os.Getenv("AWS_REGION")),
		cmp.Or(m.conf.Profile, os.Getenv("AWS_PROFILE")), role})
}

// read returns the current version of a secret, which is given by its name or ARN.
func (m *amazon) read(ctx context.Context, name string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, mostFetch)
	defer cancel()
	region := ""
	if parts := strings.SplitN(name, ":", 6); parts[0] == "arn" && len(parts) == 6 {
		region = parts[3]
	}
	s, err := m.open(ctx, region)
	if err != nil {
		return nil, ofAWS(err)
	}
	body, err := m.call(ctx, s, cmp.Or(region, s.Region()), name)
	if err != nil {
		return nil, ofAWS(err)
	}
	var answer struct {
		SecretString *string
		SecretBinary []byte
	}
	switch err := json.Unmarshal(body, &answer); { // the error may quote a value
	case err != nil || answer.SecretString == nil && answer.SecretBinary == nil:
		return nil, down("check `endpoint`", "the answer is not one of AWS Secrets Manager")
	case answer.SecretString != nil:
		return fieldsOf(*answer.SecretString), nil
	}
	return fieldsOf(string(answer.SecretBinary)), nil
}

// call makes a signed request for a secret, and returns the body of the answer.
func (m *amazon) call(ctx context.Context, s *aws.Session, region, name string) ([]byte, error) {
	conf := s.Config()
	address := "https://secretsmanager." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		address += ".cn"
	}
	if own := cmp.Or(s.Endpoint(), conf.BaseEndpoint); own != nil {
		address = *own
	}
	payload, err := json.Marshal(map[string]string{"SecretId": name})
	if err != nil {
		return nil, err
	}
	keys, err := conf.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	res, err := httpx.Bound(ctx, mostAnswer, func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(address, "/")+"/", bytes.NewReader(payload))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("X-Amz-Target", "secretsmanager.GetSecretValue")
		hash := sha256.Sum256(payload)
		if err := v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(hash[:]), "secretsmanager", region, time.Now()); err != nil {
			return nil, err
		}
		return conf.HTTPClient.Do(req)
	})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode == http.StatusOK {
		return body, err
	}
	return nil, refusalOf(res, body)
}

// refusalOf returns the error of an answer that has no secret.
func refusalOf(res *http.Response, body []byte) error {
	var said struct {
		Type    string `json:"__type"`
		Message string
	}
	if json.Unmarshal(body, &said) != nil || said.Type == "" {
		said.Type = strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)
	}
	e := &smithy.GenericAPIError{Code: said.Type, Message: call.Head([]byte(said.Message), mostQuoted, nil), Fault: smithy.FaultClient}
	if res.StatusCode >= 500 {
		e.Fault = smithy.FaultServer
	}
	return e
}

// open finds the region and the credentials, once.
func (m *amazon) open(ctx context.Context, region string) (*aws.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session != nil {
		return m.session, nil
	}
	s, err := m.conf.Open(ctx, region, nil)
	if err == nil {
		m.session = s
	}
	return s, err
}

// close closes idle connections.
func (m *amazon) close() { m.session.Close() }

// ofAWS returns the error of a call.
func ofAWS(err error) error {
	if code, _ := aws.CodeOf(err); code == "ResourceNotFoundException" {
		return Missing("AWS Secrets Manager has no secret with this name, or no current version of it",
			"create it, correct the name or the region, or give a default with :-")
	}
	if _, explained := errors.AsType[*engine.Error](err); !explained {
		err = aws.Explain(err, "AWS Secrets Manager")
	}
	if e, ok := errors.AsType[*engine.Error](err); ok && (e.Class == engine.Transient || e.Class == engine.Timeout) {
		return down("", "%w", err)
	}
	return refused("", "%w", err)
}
