// Package inside is what only the engine's rooms can name: the key with which they open messages and batches, the
// states of a message within a call, and the stages at which one takes up again. It owns nothing and knows no
// package but doc; package engine imports it, and Go keeps everybody outside of engine from doing so.
package inside
