package expr

import (
	"slices"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// jwtChecks is what the claims of a token have to be, beside their times.
type jwtChecks struct {
	issuers, audiences []string // nil: any
	leeway             time.Duration
}

// The role of what to check.
var _ = inRole("jwt_checks", value.Object, func(s *site, v any) any { return jwtChecksOf(s, v) })

func jwtChecksOf(s *site, v any) (c jwtChecks) {
	options := v.(map[string]any)
	for _, name := range value.SortedKeys(options) {
		ok := false
		switch v := options[name]; name {
		case "issuer":
			c.issuers, ok = textsIn(v)
		case "audience":
			c.audiences, ok = textsIn(v)
		case "leeway":
			c.leeway, ok = v.(time.Duration)
			ok = ok && c.leeway >= 0
		default:
			s.fail("%s() checks issuer and audience, with a leeway, not %s", s.name, value.Clip(name))
		}
		switch {
		case !ok && name == "leeway":
			s.fail(`%s() needs a duration as leeway, such as duration("30s"), not %s`, s.name, s.left(options[name]))
		case !ok:
			s.fail("%s() needs a text or a list of texts as %s, not %s", s.name, name, s.left(options[name]))
		}
	}
	return c
}

// textsIn are a text, or the texts of a list, of which there is at least one.
func textsIn(v any) (texts []string, ok bool) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, len(texts) > 0
}

// check ends the evaluation unless the claims of a verified token are right.
func (c jwtChecks) check(s *site, claims map[string]any) {
	now, leeway := float64(now().UnixMicro())/1e6, c.leeway.Seconds()
	if expires, ok := s.date(claims, "exp"); ok && now-leeway >= expires {
		s.fail("%s(): the token has expired", s.name)
	}
	if begins, ok := s.date(claims, "nbf"); ok && now+leeway < begins {
		s.fail("%s(): the token is not valid yet", s.name)
	}
	if c.issuers != nil {
		issuer, ok := claims["iss"].(string)
		if !ok || !slices.Contains(c.issuers, issuer) {
			s.fail("%s(): the token is from another issuer", s.name)
		}
	}
	if c.audiences != nil {
		audiences, _ := textsIn(claims["aud"])
		if !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(c.audiences, a) }) {
			s.fail("%s(): the token is for another audience", s.name)
		}
	}
}

// date is a claim in seconds since 1970; ok is false if there is none.
func (s *site) date(claims map[string]any, name string) (seconds float64, ok bool) {
	switch v, there := claims[name]; v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case doc.Number:
		seconds, _ = strconv.ParseFloat(string(v), 64) // beyond all times it is infinite
		return seconds, true
	default:
		if there {
			s.fail("%s(): the claim %s of the token is not a number", s.name, name)
		}
		return 0, false
	}
}
