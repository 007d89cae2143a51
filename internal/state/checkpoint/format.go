package checkpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A checkpoint is a text file. Its first line is a header: a JSON object with the kind of the state, the version of
// the format, and a checksum of itself. Every other line is the checksum of an entry, a space, and the entry. Entries
// are in order of time: a later one replaces an earlier one about the same thing.
//
// A line with an empty entry is a mark. One mark follows the entries with which the file was written, one precedes
// the entries of each later save, and one is the last line of a closed file. Complete saves reach the disk in order.
// So a line with a wrong checksum was left by an interrupted save if no mark follows. Otherwise, the file is damaged.
//
// Versions 1 and 2 are one JSON document: the header, with the state as a field. Version 1 has no checksum.
const (
	version  = 3
	unsummed = 1
	largest  = 256 << 20 // bytes of a checkpoint of version 1 or 2
	longest  = 16 << 20  // bytes of a line
)

// header is the first line of a file, or all of an old file.
type header struct {
	Kind    string          `json:"checkpoint_of"`
	Version int             `json:"version"`
	State   json.RawMessage `json:"state,omitempty"` // of versions 1 and 2
}

const (
	sumFormat = `,"crc32c":"%08x"}` + "\n" // of everything before it
	sumSize   = len("00000000 ")           // bytes of the checksum before an entry
	remedy    = "restore it, or remove it: its input then reads everything again, as at its first start"
)

var mark = appendLine(nil, nil)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(text []byte) uint32 { return crc32.Checksum(text, castagnoli) }

// sealed returns a header with its checksum.
func sealed(h header) []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // State is valid JSON
	}
	text = text[:len(text)-1] // the brace follows the checksum
	return fmt.Appendf(text, sumFormat, sum(text))
}

// isSealed reports whether a header matches its checksum.
func isSealed(text []byte) bool {
	n := len(text) - len(fmt.Sprintf(sumFormat, 0))
	return n > 0 && string(text[n:]) == fmt.Sprintf(sumFormat, sum(text[:n]))
}

// appendLine appends the line of an entry. A mark has an empty entry.
func appendLine(to, entry []byte) []byte {
	to = append(appendSum(to, entry), ' ')
	return append(append(to, entry...), '\n')
}

func appendSum(to, entry []byte) []byte {
	var s [4]byte
	binary.BigEndian.PutUint32(s[:], sum(entry))
	return hex.AppendEncode(to, s[:])
}

// entryOf returns the entry of a line. ok is false if the line is incomplete or does not match its checksum.
func entryOf(line []byte) (entry []byte, ok bool) {
	if len(line) <= sumSize || line[len(line)-1] != '\n' || line[sumSize-1] != ' ' {
		return nil, false
	}
	entry = line[sumSize : len(line)-1]
	var s [sumSize]byte
	return entry, bytes.Equal(line[:sumSize-1], appendSum(s[:0], entry))
}

// read reads a file. valid is the size of its complete saves in bytes, lines is their number of entries. A file with
// an old version has no valid bytes, and one entry if a state was saved.
func read(in io.Reader, kind string, load, convert func(text []byte) error) (valid int64, lines int, err error) {
	r := bufio.NewReaderSize(in, 64<<10)
	line, err := nextLine(r)
	if err != nil && err != io.EOF {
		return 0, 0, err
	}
	line = bytes.Clone(line)
	var h header
	if !isSealed(line) || json.Unmarshal(line, &h) != nil || h.Version < version {
		rest, err := io.ReadAll(io.LimitReader(r, largest))
		if err != nil {
			return 0, 0, err
		}
		lines, err = readOld(append(line, rest...), kind, convert)
		return 0, lines, err
	}
	if err := h.check(kind); err != nil {
		return 0, 0, err
	}
	at, broken, marked := int64(len(line)), 0, false
	for number := 2; ; number++ {
		line, err := nextLine(r)
		if len(line) == 0 && err == io.EOF {
			break
		}
		if err != nil && err != io.EOF {
			return 0, 0, err
		}
		entry, ok := entryOf(line)
		switch {
		case bytes.HasSuffix(line, mark) && (!ok || broken > 0): // the damage may be in its line break
			return 0, 0, damaged(cmp.Or(broken, number), errors.New("it does not match its checksum"))
		case ok && len(entry) == 0:
			marked = true
		case ok && broken == 0:
			if err := load(entry); err != nil {
				return 0, 0, damaged(number, err)
			}
			lines++
		case broken == 0:
			broken, valid = number, at
		}
		at += int64(len(line))
	}
	switch {
	case !marked:
		return 0, 0, fmt.Errorf("is damaged: it is incomplete (%s)", remedy)
	case broken == 0:
		valid = at
	}
	return valid, lines, nil
}

func damaged(line int, why error) error {
	return fmt.Errorf("is damaged at line %d: %w (%s)", line, why, remedy)
}

// nextLine reads a line with its end. It is valid until the next call. With io.EOF, the line may be incomplete.
func nextLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) && len(long) < longest {
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		return long, nil
	}
	return long, err
}

// check returns an error if a header has another kind or an unsupported version.
func (h *header) check(kind string) error {
	switch {
	case h.Kind != kind:
		return fmt.Errorf("is a checkpoint of %s, not of %s (name another file)", h.Kind, kind)
	case h.Version < unsummed || h.Version > version:
		return fmt.Errorf("has version %d, but this flowd supports version %d "+
			"(use the flowd that wrote it, or remove it to begin without one)", h.Version, version)
	}
	return nil
}

// readOld reads a file of version 1 or 2, and says what is wrong with other files. states is 1, or 0 if no state was
// saved.
func readOld(text []byte, kind string, convert func(state []byte) error) (states int, err error) {
	var h header
	err = json.Unmarshal(text, &h)
	switch {
	case errors.As(err, new(*json.UnmarshalTypeError)), err == nil && h.Kind == "":
		return 0, errors.New("is not a checkpoint (name another file)")
	case err != nil:
		return 0, fmt.Errorf("is damaged or not a checkpoint: %w (%s)", err, remedy)
	case h.Version == 0 && string(text) == fmt.Sprintf(`{"checkpoint_of":%q,"version":0,"state":{}}`, kind): // never saved
		return 0, nil
	case h.Kind == kind && h.Version != unsummed && !isSealed(text):
		return 0, fmt.Errorf("is damaged: it does not match its checksum (%s)", remedy)
	}
	if err := h.check(kind); err != nil || string(h.State) == "null" {
		return 0, err
	}
	if err := convert(h.State); err != nil {
		return 0, fmt.Errorf("is damaged: %w (%s)", err, remedy)
	}
	return 1, nil
}
