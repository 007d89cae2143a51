package webtoken

import (
	"slices"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// jwtChecks are checks of the claims of a token, in addition to those of its times.
type jwtChecks struct {
	issuers, audiences []string // nil: any
	leeway             time.Duration
}

// The role of the checks.
var _ = lang.Role("jwt_checks", value.Object, func(s *lang.Site, v any) any { return jwtChecksOf(s, v) })

func jwtChecksOf(s *lang.Site, v any) (c jwtChecks) {
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
			s.Fail("%s() checks issuer and audience, with a leeway, not %s", s.Name, value.Clip(name))
		}
		switch {
		case !ok && name == "leeway":
			s.Fail(`%s() needs a duration as leeway, such as duration("30s"), not %s`, s.Name, s.Show(options[name]))
		case !ok:
			s.Fail("%s() needs a text or a list of texts as %s, not %s", s.Name, name, s.Show(options[name]))
		}
	}
	return c
}

// textsIn are a text, or the texts of a list. ok is false if there is none, or anything else.
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

// check ends the evaluation if a claim of a verified token fails a check.
func (c jwtChecks) check(s *lang.Site, claims map[string]any) {
	now, leeway := float64(lang.Now().UnixMicro())/1e6, c.leeway.Seconds()
	if expires, ok := dateClaim(s, claims, "exp"); ok && now-leeway >= expires {
		s.Fail("%s(): the token has expired", s.Name)
	}
	if begins, ok := dateClaim(s, claims, "nbf"); ok && now+leeway < begins {
		s.Fail("%s(): the token is not valid yet", s.Name)
	}
	if c.issuers != nil {
		issuer, ok := claims["iss"].(string)
		if !ok || !slices.Contains(c.issuers, issuer) {
			s.Fail("%s(): the token is from another issuer", s.Name)
		}
	}
	if c.audiences != nil {
		audiences, _ := textsIn(claims["aud"])
		if !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(c.audiences, a) }) {
			s.Fail("%s(): the token is for another audience", s.Name)
		}
	}
}

// dateClaim is a claim in seconds since 1970; ok is false if there is none.
func dateClaim(s *lang.Site, claims map[string]any, name string) (seconds float64, ok bool) {
	switch v, there := claims[name]; v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case doc.Number:
		seconds, _ = strconv.ParseFloat(string(v), 64) // a number beyond all times becomes infinite
		return seconds, true
	default:
		if there {
			s.Fail("%s(): the claim %s of the token is not a number", s.Name, name)
		}
		return 0, false
	}
}
