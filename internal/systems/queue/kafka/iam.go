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

// iam logs in with AWS credentials: the client sends a signed URL, in parts, and the broker has it checked (Amazon MSK's
// mechanism AWS_MSK_IAM, as its Java library has it). It is not franz-go's, which takes the region from the broker's
// name alone, so that names of one's own can't be used.
type iam struct{ config *aws.Config }

// keys are the credentials to log in with.
type keys = aws.Config

// byKeys logs in with AWS credentials.
func byKeys(k *keys) (sasl.Mechanism, error) { return iam{cmp.Or(k, &aws.Config{})}, nil }

func (iam) Name() string { return "AWS_MSK_IAM" }

// Authenticate signs for a broker, which is HOST:PORT.
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
	const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of it
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, keys, request, nothing, "kafka-cluster", region, time.Now())
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

// Challenge takes the broker's answer.
func (iamSession) Challenge(answer []byte) (done bool, more []byte, err error) {
	if len(answer) == 0 {
		return false, nil, errors.New("the broker's answer to the login is empty")
	}
	return true, nil, nil
}

// regionOf is the region in a broker's name, such as b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com; "" is none.
func regionOf(host string) string {
	name, _, amazon := strings.Cut(strings.TrimSuffix(host, ".cn"), ".amazonaws.com")
	if !amazon {
		return ""
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}
