// Package httpx is shared by the HTTP components: [Caller] makes requests, [Auth] is for both sides, and headers
// become metadata.
package httpx

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// Auth is the section `auth`: the credentials that a client sends and a server requires.
type Auth struct {
	Bearer *schema.Secret `yaml:"bearer" oneof:"auth,optional" check:"nonempty" doc:"Bearer token."`
	Basic  *Basic         `yaml:"basic" oneof:"auth,optional" doc:"User name and password."`
}

// Basic is a user name with a password.
type Basic struct {
	User     string        `yaml:"user" check:"required,nonempty" doc:"User name."`
	Password schema.Secret `yaml:"password" check:"required,nonempty" doc:"Password."`
}

// Set adds the credentials to a request.
func (a *Auth) Set(r *http.Request) {
	switch {
	case a.Bearer != nil:
		r.Header.Set("Authorization", "Bearer "+a.Bearer.Reveal())
	case a.Basic != nil:
		r.SetBasicAuth(a.Basic.User, a.Basic.Password.Reveal())
	}
}

// Allows reports whether a request has the credentials, in constant time.
func (a *Auth) Allows(r *http.Request) bool {
	switch {
	case a.Bearer != nil:
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		return same(token, a.Bearer.Reveal()) && strings.EqualFold(scheme, "Bearer")
	case a.Basic != nil:
		user, password, _ := r.BasicAuth()
		right := same(user, a.Basic.User)
		return same(password, a.Basic.Password.Reveal()) && right
	}
	return true
}

// Challenge returns the WWW-Authenticate header of a refusal.
func (a *Auth) Challenge() string {
	if a.Basic != nil {
		return `Basic realm="flowd", charset="UTF-8"`
	}
	return "Bearer"
}

// same compares hashes, so that the time does not even reveal the length.
func same(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
