package stage

import "context"

// replayRoom waits until the reader may go on, and says by how much; 0 when ctx ends.
func (rd *reader) replayRoom(ctx context.Context, want int) int {
	r, p := rd.r, &rd.replay
	for {
		if n := min(want, r.plan.MaxReplay-p.Span(rd.read.Load())); n > 0 {
			return n
		}
		r.replaying.Add(1)
		rd.figures.is("waiting")
		r.relieve()
		select {
		case <-p.Moved:
		case <-ctx.Done():
		}
		rd.figures.is("reading")
		r.replaying.Add(-1)
		if ctx.Err() != nil {
			return 0
		}
	}
}
