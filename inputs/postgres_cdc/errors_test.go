package postgrescdc

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// If the server refuses TLS and the attempt without TLS loses its connection, it is restarting. If it only refuses TLS, it has none.
func TestARestartIsNotARefusal(t *testing.T) {
	refused := errors.New("server refused TLS connection")
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for _, tt := range []struct {
		err  error
		want engine.Class
	}{
		{refused, engine.Permanent}, {errors.Join(refused, reset), engine.Transient},
		{errors.Join(refused, io.ErrUnexpectedEOF), engine.Transient},
	} {
		if got := engine.ErrorOf(explain(tt.err, "connect"), "").Class; got != tt.want {
			t.Errorf("%v is %s, want %s", tt.err, got, tt.want)
		}
	}
}
