package cause

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// network has the rows that every table has behind its own, for errors without a code. They keep the error's own text, since
// it may name the address.
var network = []Row{
	{If: Misnamed, Kind: Credentials, Remedy: "use a name that the certificate has, or set `tls: {server_name: …}`"},
	{If: Untrusted, Kind: Credentials, Remedy: "name the authority in `tls: {ca: FILE}`"},
	{If: NotTLS, Kind: Credentials,
		Remedy: "the server does not speak TLS at this port: check the port, or remove `tls`"},
	{If: Alerted, Kind: Credentials, Remedy: "the server may want a client's certificate: set tls.cert and tls.key"},
	{If: Undialled, Kind: Unreachable, Remedy: "check that the server runs, and its address"},
	{If: HungUp, Kind: Lost, Remedy: "the server closed the connection"},
	{If: Late, Kind: Slow, Remedy: "the server does not answer in time"},
}

func as[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// Misnamed reports whether a certificate is for another host name.
func Misnamed(err error) bool { return as[x509.HostnameError](err) }

// Untrusted reports whether a certificate was not signed by a trusted authority.
func Untrusted(err error) bool {
	return as[*tls.CertificateVerificationError](err) || as[x509.UnknownAuthorityError](err)
}

// NotTLS reports whether a server has answered a TLS handshake with another protocol.
func NotTLS(err error) bool { return as[tls.RecordHeaderError](err) }

// Alerted reports whether a server has refused a TLS handshake.
func Alerted(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// Undialled reports whether no connection was made.
func Undialled(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// HungUp reports whether the other side has closed the connection.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// Late reports whether a deadline has passed.
func Late(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && slow.Timeout()
}
