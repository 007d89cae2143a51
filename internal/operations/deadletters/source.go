package deadletters

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

// OpenFile opens the dead letters of a file, or of all files that match a pattern. Only if take is true, letters may be
// settled: the files are then taken away from the outputs that write them, which begin new ones, and what is left is
// returned by Close. A file that a crashed command has taken is read, too.
func OpenFile(path string, take bool) (Source, error) { return openFiles(path, take) }

// OpenQueue opens the dead letters of a queue. Those that are read are hidden from others until the source is closed, as far
// as the broker supports that. The caller closes the server.
func OpenQueue(ctx context.Context, server queue.Server, name string, total int64) (Source, error) {
	r, err := server.Reader(ctx, name)
	if err != nil {
		return nil, err
	}
	return &queueSource{server: server, name: name, total: total, Reader: r}, nil
}

type queueSource struct {
	server queue.Server
	name   string
	total  int64
	queue.Reader
	writer queue.Writer // nil: not open
}

// Read returns the letters of one read of the queue.
func (s *queueSource) Read(ctx context.Context, most int) ([]Letter, error) {
	ms, err := s.Reader.Read(ctx, most)
	all := make([]Letter, len(ms))
	for i, m := range ms {
		all[i] = NewLetter(m)
	}
	return all, err
}

// Total returns what the queue had when it was opened.
func (s *queueSource) Total(context.Context) int64 { return s.total }

// Replace sends letters to the queue, and then removes the old ones.
func (s *queueSource) Replace(ctx context.Context, with []queue.Message) (err error) {
	if s.writer == nil {
		if s.writer, err = s.server.Writer(ctx, s.name); err != nil {
			return err
		}
	}
	var done []uint64
	errs := s.writer.Write(ctx, with)
	for i, m := range with {
		if errs == nil || errs[i] == nil {
			done = append(done, m.Ref)
		}
	}
	if len(done) > 0 {
		err = s.Done(ctx, done)
	}
	return errors.Join(append(errs, err)...)
}

// Close gives back what is not done.
func (s *queueSource) Close() error {
	err := s.Reader.Close()
	if s.writer != nil {
		err = errors.Join(err, s.writer.Close())
	}
	return err
}

// Each calls f for each letter of a source, until most letters were read (0: no limit) or the source ends. more is true if
// it has not ended.
func Each(ctx context.Context, s Source, most int64, f func(Letter) error) (more bool, err error) {
	const atOnce = 1000
	for n := int64(0); most == 0 || n < most; {
		room := int64(atOnce)
		if most > 0 {
			room = min(room, most-n)
		}
		all, err := s.Read(ctx, int(room))
		for _, l := range all {
			if err := f(l); err != nil {
				return true, err
			}
		}
		n += int64(len(all))
		if err == engine.ErrEnd {
			return false, nil
		}
		if err != nil {
			return true, err
		}
	}
	return true, nil
}
