// Package rules owns what is wrong with one pipeline as it is configured, before anything is built: routes, failures,
// retries, limits, sizes that never fill. Package runtime reports it with what building finds; what several pipelines
// may have only once is judged by package config. It keeps nothing.
package rules
