package deadletters

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

// mostLine bounds the lines of a file that become letters, in bytes. Longer lines stay in the file. Tests lower it.
var mostLine = 128 << 20

// lineReader divides a file into lines, and counts them.
type lineReader struct {
	file   *os.File
	stream io.ReadCloser // decompresses
	buf    *bufio.Reader
	line   int64 // of the last line, from 1
}

// openLines opens a file that is compressed as the extension of the path called says, or else its first bytes.
func openLines(path, called string) (*lineReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var head [compression.HeadSize]byte
	n, _ := f.ReadAt(head[:], 0)
	format, err := framing.Compression{}.Found("", called, head[:n])
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	stream, err := compression.NewReader(format, f, nil)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &lineReader{file: f, stream: stream, buf: bufio.NewReaderSize(stream, 256<<10)}, nil
}

// next returns the next line, with its line feed if it has one. The caller owns it. whole is false if it is too long; the
// result is then its beginning.
func (r *lineReader) next() (text []byte, whole bool, err error) {
	text, whole, err = nil, true, nil
	for {
		var part []byte
		part, err = r.buf.ReadSlice('\n')
		if len(text)+len(part) > mostLine {
			part, whole = part[:mostLine-len(text)], false
		}
		text = append(text, part...)
		if err != bufio.ErrBufferFull {
			break
		}
	}
	if err == io.EOF && len(text) > 0 {
		err = nil
	}
	if err == nil {
		r.line++
	}
	return text, whole, err
}

// copyNext appends the next line to a writer, with a line feed, unless skip says that it is to be left out.
func (r *lineReader) copyNext(w io.Writer, skip func(line int64) bool) (copied bool, err error) {
	skipped, some := skip(r.line+1), false
	for {
		part, err := r.buf.ReadSlice('\n')
		if len(part) > 0 && !some {
			some = true
			r.line++
		}
		if !skipped && len(part) > 0 {
			if _, failed := w.Write(part); failed != nil {
				return false, failed
			}
		}
		switch {
		case err == nil:
			return !skipped, nil
		case err == io.EOF && some:
			if !skipped {
				_, err = w.Write([]byte{'\n'}) // a write that a crash has cut short
				return true, err
			}
			return false, nil
		case err != bufio.ErrBufferFull:
			return false, err
		}
	}
}

func (r *lineReader) close() error { return errors.Join(r.stream.Close(), r.file.Close()) }
