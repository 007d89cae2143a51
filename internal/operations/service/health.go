package service

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Health is the answer of /live or /ready.
type Health struct {
	Status string  `json:"status"`           // ok or fail
	Checks []Check `json:"checks,omitempty"` // only failing checks
}

// Check is a failing indicator.
type Check struct {
	Indicator string    `json:"indicator"`           // for machines: output_failing
	Pipeline  string    `json:"pipeline,omitempty"`  // its name
	Component string    `json:"component,omitempty"` // "output lake"
	Impact    string    `json:"impact"`              // the consequences
	Cause     string    `json:"cause"`               // why
	Action    string    `json:"action"`              // what a person can do
	Error     string    `json:"error,omitempty"`     // may show data, like position: only with the token
	Position  string    `json:"position,omitempty"`  // where the message is, in its source's terms
	Since     time.Time `json:"since,omitzero"`
}

// The indicators.
const (
	callStuck          = "call_stuck"
	outputFailing      = "output_failing"
	outputRefusing     = "output_refusing"
	outputStalled      = "output_stalled"
	breakerOpen        = "output_breaker_open"
	credentialsRefused = "output_credentials_refused" // #nosec G101 -- the name of an indicator
	inputRestarting    = "input_restarting"
	inputAckFailing    = "input_ack_failing"
	messagesHeld       = "messages_held"
	pipelineStarting   = "pipeline_starting"
	pipelineDraining   = "pipeline_draining"
	pipelineFailed     = "pipeline_failed"
	noPipeline         = "no_pipeline"
)

// Live fails if a loop, step or write exceeds its own deadline, or if a pipeline has failed while others continue. A
// restart can help.
func Live(all []engine.Snapshot) Health {
	var checks []Check
	for _, s := range all {
		for _, x := range s.Stuck {
			checks = append(checks, stuck(s.Pipeline, x))
		}
		if s.State == engine.Stopped && s.Err != "" {
			checks = append(checks, Check{
				Indicator: pipelineFailed, Pipeline: s.Pipeline, Error: s.Err,
				Impact: "This pipeline reads and writes nothing; the others continue.",
				Cause:  "It has ended with an error.",
				Action: "Find the error in the log and fix its cause. Then reload (`flowd ctl reload`) or restart flowd, which starts the " +
					"pipeline again.",
			})
		}
	}
	return NewHealth(checks)
}

// Ready fails if the last write or probe of an output failed, if reading can't continue, or if a pipeline has not
// started or has ended. A pipeline that is idle, or paused by an operator, is ready. So is a process that waits for its
// first pipeline, unless all is nil.
func Ready(all []engine.Snapshot) Health {
	checks := Live(all).Checks
	waits := all != nil && len(all) == 0
	if !waits && !slices.ContainsFunc(all, func(s engine.Snapshot) bool { return s.State != engine.Stopped }) {
		checks = append(checks, Check{
			Indicator: noPipeline,
			Impact:    "No message is processed.",
			Cause:     "No pipeline runs: the process is starting, or all its pipelines have ended or were drained.",
			Action: "After a drain, `flowd ctl resume` starts the pipelines again. Otherwise, if this lasts longer than a minute, " +
				"read the last lines of the log: they say why a pipeline did not start or has ended.",
		})
	}
	for _, s := range all {
		checks = append(checks, lifecycle(s)...)
		for _, in := range s.Inputs {
			checks = append(checks, input(s.Pipeline, in)...)
		}
		for _, out := range s.Outputs {
			checks = append(checks, output(s.Pipeline, out)...)
		}
		checks = append(checks, held(s)...)
		for _, t := range s.Troubles {
			checks = append(checks, Check{Indicator: t.Indicator, Pipeline: s.Pipeline, Component: t.Place,
				Impact: t.Impact, Cause: t.Cause, Action: t.Action, Since: t.Since})
		}
	}
	return NewHealth(checks)
}

// NewHealth is ok if there are no failing checks.
func NewHealth(checks []Check) Health {
	if len(checks) > 0 {
		return Health{"fail", checks}
	}
	return Health{Status: "ok"}
}

func stuck(pipeline string, x engine.Stuck) Check {
	c := Check{Indicator: callStuck, Pipeline: pipeline, Component: x.Place, Since: x.Since}
	const restart = "If this persists, restart flowd: sources redeliver unsettled messages."
	switch x.What {
	case "write":
		c.Impact = "Messages for " + x.Place +
			" are not written; they are kept, and reading stops when the memory for them is used up."
		c.Cause = "A write has not returned although its deadline has passed: the system behind the output does not respond."
		c.Action = "Check that this system and the network to it work. " + restart +
			" If such writes eventually succeed, raise the output's `timeout`."
	case "step":
		c.Impact = "The messages in this call make no progress, and it occupies one worker."
		c.Cause = "A run of this step has not returned although its deadline has passed."
		c.Action = "Check what the step calls or computes; `kill -TTIN` with the process id prints what every stage is doing. " + restart +
			" If such runs eventually end, raise the step's `timeout`."
	case "lane":
		c.Impact = "No message gets through " + x.Place + ", although workers are busy."
		c.Cause = "The steps have returned no message for longer than the sum of their timeouts."
		c.Action = "`kill -TTIN` with the process id prints what every stage is doing. " + restart +
			" If it happens again with the same messages, report it as a bug."
	case "batcher":
		c.Impact = "It sends no batches, and messages for it wait."
		c.Cause = "A call in the batcher's loop has not returned although its deadline has passed."
		c.Action = restart + " If it happens again with the same messages, report it as a bug."
	case "ack":
		c.Impact = "Finished messages are not acknowledged; their source may deliver them again, or stop delivering."
		c.Cause = "The source has not confirmed an acknowledgement although its deadline has passed."
		c.Action = "Check that the source of this input and the network to it work. " + restart
	default:
		c.Impact = "Messages that wait for this call make no progress."
		c.Cause = "A call (" + x.What + ") has not returned although its deadline has passed."
		c.Action = restart
	}
	return c
}

func lifecycle(s engine.Snapshot) []Check {
	switch s.State {
	case engine.Starting:
		return []Check{{
			Indicator: pipelineStarting, Pipeline: s.Pipeline,
			Impact: "The pipeline reads no messages yet.",
			Cause:  "Some of its inputs or outputs are not open yet.",
			Action: "If this lasts longer than a minute, find the component that does not connect in the log, and check its address and " +
				"credentials.",
		}}
	case engine.Draining:
		return []Check{{
			Indicator: pipelineDraining, Pipeline: s.Pipeline,
			Impact: "The pipeline reads no new messages, and finishes those in flight.",
			Cause:  "The process was asked to stop, an operator asked for a drain, or the files are being reloaded.",
			Action: "Send no more requests here. The drain ends by itself, at the latest after engine.drain.timeout; that of a reload ends " +
				"within seconds.",
		}}
	}
	return nil
}

func input(pipeline string, in engine.InputState) (checks []Check) {
	if in.AckErr != "" {
		checks = append(checks, Check{
			Indicator: inputAckFailing, Pipeline: pipeline, Component: "input " + in.Name, Error: in.AckErr, Since: in.AckSince,
			Impact: "Finished messages are not acknowledged; their source may deliver them again, or stop delivering.",
			Cause:  fmt.Sprintf("Acknowledgements fail; %d are waiting.", in.Unacked),
			Action: "Check that its source can be reached, or that its checkpoint file can be written. flowd retries by itself.",
		})
	}
	if in.State != "restarting" {
		return checks
	}
	return append(checks, Check{
		Indicator: inputRestarting, Pipeline: pipeline, Component: "input " + in.Name, Error: in.Err,
		Impact: "No messages are read from this input; the other inputs continue.",
		Cause:  fmt.Sprintf("Its connection was lost or can't be established; restarts so far: %d.", in.Restarts),
		Action: "Check that its source can be reached and accepts the credentials. flowd retries by itself, with increasing delays.",
	})
}

// output returns the most significant check of an output.
func output(pipeline string, out engine.OutputState) []Check {
	c := Check{Pipeline: pipeline, Component: "output " + out.Name, Error: out.Err, Since: out.FailingSince}
	c.Impact = "Messages for this output are kept and retried; reading stops when the memory for them is used up."
	if out.DeadLetter {
		c.Impact = "Dead letters can't be written: they are kept, and reading stops when the memory for them is used up."
	}
	const itself = " flowd retries by itself; no restart is needed."
	switch {
	case out.Breaker == "auth":
		c.Indicator = credentialsRefused
		c.Cause = "The system behind the output refuses the credentials. Nothing is discarded."
		c.Action = "Renew the credentials, or grant the missing permissions. If the credentials are in the configuration, reload it " +
			"(`flowd ctl reload`)." + itself
	case out.Breaker != "" && out.Breaker != "closed":
		c.Indicator = breakerOpen
		c.Cause = "Writes have failed repeatedly, so the output is only probed from time to time until a write succeeds."
		c.Action = "Check that the system behind the output works and can be reached." + itself
	case out.Err != "":
		c.Indicator = outputFailing
		c.Cause = "The last write or probe failed."
		c.Action = "Check that the system behind the output works and can be reached." + itself
	case out.Stalled != "":
		c.Indicator, c.Error = outputStalled, out.Stalled
		c.Cause = "The system behind the output reports that it accepts no messages at present. A message broker does that when it is short " +
			"of memory or disk space."
		c.Action = "Free memory or disk space there, or let consumers read the messages that are queued there." + itself
	case out.Refused >= manyRefused:
		c.Indicator, c.Error = outputRefusing, out.Refusal
		c.Impact = "Messages for this output fail permanently and go where on_failure says."
		c.Cause = fmt.Sprintf("It has refused the last %d messages, and accepted none in between.", out.Refused)
		c.Action = "The log says why. Correct the output's configuration, the system that it writes to, or the messages. The next message " +
			"that is accepted clears this."
	default:
		return nil
	}
	return []Check{c}
}

// manyRefused is how many messages an output must reject in a row before the output, not the messages, is assumed to
// be at fault.
const manyRefused = 10

// held checks messages that wait outside the queues. Once they hold half of the credits, reading pauses.
func held(s engine.Snapshot) []Check {
	if s.MaxMessages <= 0 || s.Waiting*2 < s.MaxMessages {
		return nil
	}
	c := Check{
		Indicator: messagesHeld, Pipeline: s.Pipeline,
		Impact: "Reading pauses until some of them continue.",
		Cause: fmt.Sprintf("%d of at most %d messages wait: %d for a retry, %d for a limit or for an earlier message with the same key. The "+
			"oldest message in flight is %s old.",
			s.Waiting, s.MaxMessages, s.Retries, s.Waiting-s.Retries, s.OldestUnsettled.Round(time.Second)),
	}
	if h := s.Held; h != nil {
		c.Cause += fmt.Sprintf(" The oldest waiting message is %s old. It waits for %s, and continues in %s.",
			h.Age.Round(time.Second), h.For, h.Due.Round(time.Second))
		c.Position, c.Error = h.At, h.Err
	}
	var places []string
	for _, out := range s.Outputs {
		if out.Err != "" || out.Breaker != "" && out.Breaker != "closed" {
			places = append(places, "output "+out.Name)
		}
	}
	switch {
	case len(places) > 0:
		c.Action = "First fix what they wait for: " + strings.Join(places, ", ") + "."
	case s.Retries*2 > s.Waiting:
		c.Action = "Find the step or output that fails in the log and in `flowd ctl state` (failures). Fix it, or give up sooner with fewer " +
			"max_attempts or a max_age under `retry`."
	case s.Held != nil && strings.HasPrefix(s.Held.For, "a retry"):
		c.Action = "With order_by, one failing message holds up all later messages with its key. Find the cause in the log and in `flowd ctl " +
			"state` (failures). Fix it, or give up sooner with fewer max_attempts or a max_age under `retry`."
	default:
		c.Action = "Find the limit that messages wait for in `flowd ctl state`, and raise it with `flowd ctl limit`. With order_by, a waiting " +
			"message holds up all later messages with its key."
	}
	return []Check{c}
}

// health answers a probe. Without the token, it shows names only on loopback, and never the text of errors, which may
// contain data.
func (g *guard) health(local bool, p Process, check func([]engine.Snapshot) Health) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := check(p.Snapshots())
		switch {
		case g.token.shown(r):
		case local:
			for i := range h.Checks {
				h.Checks[i].Error, h.Checks[i].Position = "", ""
			}
		default:
			h.Checks = nil
		}
		status := http.StatusOK
		if h.Status != "ok" {
			status = http.StatusServiceUnavailable
		}
		respond(w, status, h)
	})
}
