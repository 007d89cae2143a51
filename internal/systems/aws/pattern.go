package aws

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/flowd-io/flowd/engine"
)

const special = `*?[\`

// inPatterns are the characters that a pattern may have.
const inPatterns = inNames + special + ".]^"

// IsPattern reports whether a text is a pattern of names in the syntax of [path.Match], and not a name, URL or ARN. Names
// contain none of the special characters of patterns.
func IsPattern(text string) bool {
	return strings.ContainsAny(text, special) && !strings.HasPrefix(text, "arn:") && !strings.Contains(text, "://")
}

// CheckPattern returns what is wrong with a pattern, or "".
func CheckPattern(pattern string) (message, remedy string) {
	if _, err := path.Match(pattern, ""); err != nil || !consistsOf(pattern, inPatterns, 200) {
		return fmt.Sprintf("%q is not a valid pattern of queue names", pattern),
			"write letters, digits, - and _, with * for any text, ? for one character and [a-z] for one of these"
	}
	return "", ""
}

// mostPages bounds the pages of a listing. A page has up to a thousand queues.
const mostPages = 100

// Queues lists the URLs of the caller's queues whose names match a pattern. It ends after the first error.
func Queues(ctx context.Context, client *sqs.Client, pattern string) iter.Seq2[string, error] {
	in := &sqs.ListQueuesInput{MaxResults: awssdk.Int32(1000)} // without MaxResults, the service does not send further pages
	prefix := pattern
	if i := strings.IndexAny(pattern, special); i >= 0 {
		prefix = pattern[:i]
	}
	in.QueueNamePrefix = Optional(prefix)
	return func(yield func(string, error) bool) {
		for n, pages := 0, sqs.NewListQueuesPaginator(client, in); pages.HasMorePages(); n++ {
			if n == mostPages {
				yield("", engine.Errorf(engine.Permanent,
					"more than %d pages of queues have names that begin with %q (let the pattern begin with more characters)",
					mostPages, prefix))
				return
			}
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield("", Explain(err, "queues"))
				return
			}
			for _, address := range page.QueueUrls {
				if ok, _ := path.Match(pattern, path.Base(address)); ok && !yield(address, nil) {
					return
				}
			}
		}
	}
}
