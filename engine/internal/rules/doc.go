// Package rules checks the configuration of one pipeline before anything is built: routes, failures, retries, limits,
// and sizes that never fill. Start at [All]. Package runtime adds what it finds while building; package config checks
// what spans pipelines. Rules keep no state between calls.
package rules
