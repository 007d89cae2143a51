// Package formats contains the formats of `decode` and `encode` that a build may leave out, since they need large
// libraries.
package formats
