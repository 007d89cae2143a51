// Package runtime builds pipelines and runs them: [Build] makes a [Plan] of an [engine.Pipeline] and reports all that
// is wrong with it, without any I/O; [Plan.Run] runs it once and returns a [Report]; [Plan.Replace] lets another plan
// take its place while it runs. What moves messages is package engine/internal/stage, which it starts and stops.
//
// config and the command line call it; plugins never do, except in tests.
package runtime
