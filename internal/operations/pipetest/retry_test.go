package pipetest

import "testing"

func TestWhatFailsTwiceIsTriedAgain(t *testing.T) {
	want(t, `
inputs: {in: {stdin: {}}}
processors: [{name: work, set: {done: true}, retry: {max_attempts: 3, intervals: [10s, 20s]}}]
outputs: {out: {stdout: {}, retry: {max_attempts: 3, intervals: [1m, 2m]}}}
tests:
  - name: an output fails twice
    input: [{json: {n: 1}}]
    fail: {out: 2}
    expect: {out: [{json: {n: 1, done: true}}]}
    fates: {delivered: 1}
    within: 3m
  - name: a step fails twice
    input: [{json: {n: 1}}]
    fail: {work: 2}
    expect: {out: [{json: {n: 1, done: true}}]}
    fates: {delivered: 1}
    within: 30s
  - name: an output is down for five minutes
    input: [{json: {n: 1}}]
    fail: {out: {for: 5m, message: down}}
    expect: {}
    failures: [{class: transient, place: output out, message: down, fate: returned}]
`, map[string][]string{"an output fails twice": nil, "a step fails twice": nil, "an output is down for five minutes": nil})
}
