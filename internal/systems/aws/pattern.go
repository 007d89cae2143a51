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

// inPatterns are the characters of patterns: those of names, and the special ones.
const inPatterns = inNames + special + ".]^"

// IsPattern reports whether a text is a pattern of names, as of [path.Match], and not a
// name, URL or ARN: a name has none of the characters that are special in patterns.
func IsPattern(text string) bool {
	return strings.ContainsAny(text, special) && !strings.HasPrefix(text, "arn:") && !strings.Contains(text, "://")
}

// CheckPattern says what is wrong with a pattern.
func CheckPattern(pattern string) (message, remedy string) {
	if _, err := path.Match(pattern, ""); err != nil || !only(pattern, inPatterns, 200) {
		return fmt.Sprintf("%q is not a valid pattern of queue names", pattern),
			"write letters, digits, - and _, with * for any text, ? for one character and [a-z] for one of these"
	}
	return "", ""
}

// mostPages is how many pages of queues are asked for: a hundred thousand queues.
const mostPages = 100

// Queues are the URLs of the caller's queues whose names match a pattern. An error
// is the last of them.
func Queues(ctx context.Context, client *sqs.Client, pattern string) iter.Seq2[string, error] {
	in := &sqs.ListQueuesInput{MaxResults: awssdk.Int32(1000)} // which also asks for pages
	prefix := pattern
	if i := strings.IndexAny(pattern, special); i >= 0 {
		prefix = pattern[:i]
	}
	in.QueueNamePrefix = Optional(prefix)
	return func(yield func(string, error) bool) {
		for n, pages := 0, sqs.NewListQueuesPaginator(client, in); pages.HasMorePages(); n++ {
			if n == mostPages {
				yield("", engine.Errorf(engine.Permanent, "more than %d pages of queues begin with %q (write a longer beginning)",
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
