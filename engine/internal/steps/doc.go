// Package steps owns programs: the steps of a list made flat ([Program], [Op]), the executor that runs one over
// batches ([Executor]), blocks whose failures are dealt with as a whole, and the meter of what steps add to
// messages ([Room]). Lanes and writers run executors; they keep account of what steps split, merge and fail
// ([Owner]). An executor and all it touches belong to one goroutine; a room has a lock, since a step may use
// several.
//
// It promises that a message which a step failed is as the step found it, and that nothing grows beyond the
// credits: see growth.go.
package steps
