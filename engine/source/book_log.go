package source

import (
	"bytes"
	"errors"
	"iter"
	"strconv"
)

// A line of the checkpoint is a sign and the text of an entry. The sign isDeleted says that the entry was deleted. Before
// isEntry there may be a number: since when complete listings have not seen the entry, in Unix seconds.
const (
	isEntry   = '='
	isDeleted = '-'
)

// load reads a line of the checkpoint.
func (m *memory[K, E]) load(line []byte) error {
	at := bytes.IndexAny(line, string([]byte{isEntry, isDeleted}))
	if at < 0 {
		return errors.New("it is not an entry")
	}
	entry, err := m.cfg.Parse(line[at+1:])
	if err != nil {
		return err
	}
	if line[at] == isDeleted {
		delete(m.entries, entry.Key())
		return nil
	}
	s := slot[E]{entry: entry}
	if at > 0 {
		s.gone, err = strconv.ParseInt(string(line[:at]), 10, 64)
	}
	m.entries[entry.Key()] = s
	return err
}

// convert reads the state of a checkpoint before version 3.
func (m *memory[K, E]) convert(state []byte) error {
	entries, err := m.cfg.Convert(state)
	for _, e := range entries {
		m.entries[e.Key()] = slot[E]{entry: e}
	}
	return err
}

// line appends the line of an entry.
func (m *memory[K, E]) line(to []byte, s slot[E]) ([]byte, error) {
	if s.gone != 0 {
		to = strconv.AppendInt(to, s.gone, 10)
	}
	return s.entry.AppendText(append(to, isEntry))
}

// all yields the lines of all entries. It locks the book for one entry at a time.
func (m *memory[K, E]) all(yield func([]byte, error) bool) {
	m.Lock()
	defer m.Unlock()
	var line []byte
	var err error
	for _, s := range m.entries {
		line, err = m.line(line[:0], s)
		m.Unlock()
		more := yield(line, err)
		m.Lock()
		if !more {
			return
		}
	}
}

// changes returns the lines of entries that have changed since the last call. undo is called if they could not be saved.
func (m *memory[K, E]) changes() (lines iter.Seq2[[]byte, error], undo func()) {
	m.Lock()
	defer m.Unlock()
	changed := m.changed
	m.changed = map[K]E{}
	lines = func(yield func([]byte, error) bool) {
		var line []byte
		var err error
		for key, deleted := range changed {
			m.Lock()
			if s, ok := m.entries[key]; ok {
				line, err = m.line(line[:0], s)
			} else {
				line, err = deleted.AppendText(append(line[:0], isDeleted))
			}
			m.Unlock()
			if !yield(line, err) {
				return
			}
		}
	}
	undo = func() {
		m.Lock()
		defer m.Unlock()
		for key, e := range changed {
			if _, again := m.changed[key]; !again {
				m.changed[key] = e
			}
		}
	}
	return lines, undo
}

// count is how many lines all yields.
func (m *memory[K, E]) count() int {
	m.Lock()
	defer m.Unlock()
	return len(m.entries)
}
