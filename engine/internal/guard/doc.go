// Package guard protects the engine in calls of plugins. [Guard] catches panics and abandons calls that ignore their
// context, a [Deadline] costs nothing until it is used, a [Clock] records since when a call has been running, and a
// [Histogram] counts how long calls take. All rooms above call it. Its locks are taken last.
package guard
