package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/controls"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/framing"
)

type lines struct{}

// append rejects a payload that would read back as several.
func (lines) append(dst []byte, m *engine.Message) ([]byte, error) {
	line, err := framing.OneLine(m.Bytes(), "\n", "archive it as tar, or write `encode: base64` before it")
	if err != nil {
		return dst, err
	}
	return append(append(dst, line...), '\n'), nil
}

func (lines) finish(dst []byte) ([]byte, error) { return dst, nil }

type array struct{}

func (array) append(dst []byte, m *engine.Message) ([]byte, error) {
	if err := m.Doc().Valid(); err != nil {
		return dst, err
	}
	if len(dst) == 0 {
		dst = append(dst, '[')
	} else {
		dst = append(dst, ',')
	}
	return append(dst, bytes.TrimSpace(m.Bytes())...), nil
}

func (array) finish(dst []byte) ([]byte, error) { return append(dst, ']'), nil }

type table struct{ codec.Table }

func (t *table) append(dst []byte, m *engine.Message) ([]byte, error) {
	if err := m.Doc().Valid(); err != nil {
		return dst, err
	}
	return t.Append(dst, bytes.TrimSpace(m.Bytes()))
}

func (t *table) finish(dst []byte) ([]byte, error) { return dst, nil }

type concat struct {
	separator string
}

func (c *concat) append(dst []byte, m *engine.Message) ([]byte, error) {
	if c.separator == "" {
		return append(dst, m.Bytes()...), nil
	}
	return framing.AppendSeparated(dst, m.Bytes(), c.separator, "write another separator, or archive it as tar")
}

// finish removes the last separator.
func (c *concat) finish(dst []byte) ([]byte, error) { return dst[:len(dst)-len(c.separator)], nil }

// tarball has a buffer of its own, since the tar writer keeps its position there.
type tarball struct {
	name  expr.Template
	buf   bytes.Buffer
	w     *tar.Writer
	parts int
}

func newTarball(name expr.Template) *tarball {
	t := &tarball{name: name}
	t.w = tar.NewWriter(&t.buf)
	return t
}

func (t *tarball) append(dst []byte, m *engine.Message) ([]byte, error) {
	t.parts++
	name := fmt.Sprintf("%06d", t.parts)
	if !t.name.IsZero() {
		var err error
		if name, err = t.name.Text(m); err != nil {
			return dst, err
		}
	}
	if err := checkName(name); err != nil {
		return dst, err
	}
	body := m.Bytes()
	header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(body)), ModTime: m.ReceivedAt(),
		Format: tar.FormatPAX}
	if err := t.w.WriteHeader(header); err != nil {
		return dst, fmt.Errorf("tar entry %q: %w", name, err)
	}
	if _, err := t.w.Write(body); err != nil {
		return dst, fmt.Errorf("tar entry %q: %w", name, err)
	}
	return dst, nil
}

func (t *tarball) finish([]byte) ([]byte, error) {
	if err := t.w.Close(); err != nil {
		return nil, fmt.Errorf("tar: %w", err)
	}
	return t.buf.Bytes(), nil
}

// checkName rejects names that a careless reader of the archive would write outside of its directory.
func checkName(name string) error {
	if name != path.Clean(name) || !filepath.IsLocal(name) || strings.ContainsRune(name, '\\') ||
		controls.In(name) != "" || name == "." {
		return fmt.Errorf("%.80q is not a safe name for a file in an archive", name)
	}
	return nil
}
