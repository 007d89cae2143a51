// Package httpx is what the HTTP components share: [Caller] for those that call,
// [Auth] for both sides, and the names that headers have as metadata.
package httpx

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// Auth is the section `auth`: what a client shows and a server asks for.
type Auth struct {
	Bearer *schema.Secret `yaml:"bearer" oneof:"auth,optional" check:"nonempty" doc:"Bearer token."`
	Basic  *Basic         `yaml:"basic" oneof:"auth,optional" doc:"User name and password."`
}

// Basic is a name with a password.
type Basic struct {
	User     string        `yaml:"user" check:"required,nonempty" doc:"User name."`
	Password schema.Secret `yaml:"password" check:"required,nonempty" doc:"Password."`
}

// Set puts the credentials into a request.
func (a *Auth) Set(r *http.Request) {
	switch {
	case a.Bearer != nil:
		r.Header.Set("Authorization", "Bearer "+a.Bearer.Reveal())
	case a.Basic != nil:
		r.SetBasicAuth(a.Basic.User, a.Basic.Password.Reveal())
	}
}

// Allows reports whether a request shows the credentials, in a time that says
// nothing about them.
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

// Challenge is the WWW-Authenticate header of a refusal.
func (a *Auth) Challenge() string {
	if a.Basic != nil {
		return `Basic realm="flowd", charset="UTF-8"`
	}
	return "Bearer"
}

// same compares hashes, so that not even the length shows in the time taken.
func same(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
