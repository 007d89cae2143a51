// Package formats is the formats of `decode` and `encode` that a build may leave out: they need large libraries.
package formats
