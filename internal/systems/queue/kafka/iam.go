//go:build !no_aws && (!slim || aws)

package kafka

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/twmb/franz-go/pkg/sasl"
)

// iam logs in with AWS credentials (Amazon MSK's mechanism AWS_MSK_IAM, as in its Java library). The client sends the parts of a
// signed URL, and the broker has the signature checked. franz-go has this mechanism, too, but takes the region only from the name
// of the broker, so custom host names do not work.
type iam struct{ config *aws.Config }

// keys are the credentials to log in with.
type keys = aws.Config

// withKeys returns the mechanism that logs in with AWS credentials.
func withKeys(k *keys) (sasl.Mechanism, error) { return iam{cmp.Or(k, &aws.Config{})}, nil }

func (iam) Name() string { return "AWS_MSK_IAM" }

// Authenticate returns the signed login for a broker with the address HOST:PORT.
func (m iam) Authenticate(ctx context.Context, broker string) (sasl.Session, []byte, error) {
	host, _, err := net.SplitHostPort(broker)
	if err != nil {
		return nil, nil, err
	}
	keys, region, err := m.config.Keys(ctx, regionOf(host))
	if err != nil {
		return nil, nil, engine.Errorf(engine.Auth, "sasl.aws: %w", err)
	}
	query := url.Values{"Action": {"kafka-cluster:Connect"}, "X-Amz-Expires": {"900"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/?"+query.Encode(), nil)
	if err != nil {
		return nil, nil, err
	}
	const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of an empty body
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, keys, request, emptyHash, "kafka-cluster", region, time.Now())
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(signed)
	if err != nil {
		return nil, nil, err
	}
	parts := map[string]string{"version": "2020_10_22", "host": host, "user-agent": "flowd"}
	for name, values := range u.Query() {
		parts[strings.ToLower(name)] = values[0]
	}
	text, err := json.Marshal(parts)
	return iamSession{}, text, err
}

type iamSession struct{}

// Challenge checks the broker's answer.
func (iamSession) Challenge(answer []byte) (done bool, more []byte, err error) {
	if len(answer) == 0 {
		return false, nil, errors.New("the broker's answer to the login is empty")
	}
	return true, nil, nil
}

// regionOf returns the region in the host name of a broker, such as b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com, or "".
func regionOf(host string) string {
	name, _, amazon := strings.Cut(strings.TrimSuffix(host, ".cn"), ".amazonaws.com")
	if !amazon {
		return ""
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}
