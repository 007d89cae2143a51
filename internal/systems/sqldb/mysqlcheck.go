package sqldb

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"net"

	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/schema"
)

// Limits of what a MySQL server may send. The driver believes counts before it has what they count, joins packets without
// end, and reads packets without looking how long they are.
const (
	mostGreeting = 64 << 10 // bytes until a connection is ready, those of TLS included
	mostColumns  = 1 << 16  // of an answer; servers allow 4096
	mostResults  = 10_000   // of one statement: a procedure has one for each of its queries
)

// mostUnread are the rows that are read of an answer that nobody wants, to keep its connection.
const mostUnread = 16

// myState is what a server may send next.
type myState uint8

const (
	sendsGreeting myState = iota
	sendsLogin            // packets until the first command; TLS hides them
	sendsIdle             // nothing but an error, such as that of a shutdown
	sendsSingle           // one packet
	sendsPrepared         // the answer to a statement to be prepared
	sendsHeader           // the beginning of an answer
	sendsColumns          // so many descriptions
	sendsRows
)

// The flags of a greeting, and of the first packet of a client.
const (
	flagMySQL        = 1 << 0 // MariaDB leaves it out, and has more flags
	flagTLS          = 1 << 11
	flagDeprecateEOF = 1 << 24
	flagCacheColumns = 1 << 4 // of MariaDB's own

	moreResults = 8 // of a status
)

// The first bytes of packets.
const (
	myOK   = 0x00
	myMore = 0x01
	myFile = 0xfb
	myNull = 0xfb
	myEnd  = 0xfe
	myErr  = 0xff
)

// longestPacket is a packet that another one continues.
const longestPacket = 1<<24 - 1

// myCheck follows a connection to a MySQL server, in both directions. It is used by one goroutine at a time.
type myCheck struct {
	frames bounds.Frames
	row    schema.Size // max_row

	state     myState
	next      myState // after the columns
	left      int     // packets of sendsColumns
	results   int     // of the statement
	budget    int64   // bytes that may come yet before the connection is ready, or of an answer that nobody reads; -1: no limit
	over      error   // that the budget is spent
	joined    int64   // bytes of the packet, if it consists of several; 0: it does not
	endOrRow  bool    // its first byte is one of a row only if it continues
	noEOF     bool    // packets that end a list are left out
	caches    bool    // the server knows that descriptions of prepared statements' columns are kept
	again     bool    // it says whether it describes the columns of this statement again
	ready     bool    // the connection is
	encrypted bool    // by TLS, which another check is above
	wrong     error   // what the check has objected to
	panicked  bool    // the driver has
}

func newMyCheck(row schema.Size) *myCheck {
	m := &myCheck{row: row, budget: mostGreeting,
		over: fmt.Errorf("the server has sent more than %d KiB before the connection was ready", mostGreeting>>10)}
	m.frames = bounds.Frames{First: 4, Next: m.frame}
	return m
}

// above is the check of what m's connection carries within TLS.
func (m *myCheck) above() *myCheck {
	a := newMyCheck(m.row)
	a.noEOF, a.caches = m.noEOF, m.caches
	a.opened()
	return a
}

// opened says that the connection is ready.
func (m *myCheck) opened() { m.state, m.ready, m.budget = sendsIdle, true, -1 }

// unread bounds the next answer, which nobody reads.
func (m *myCheck) unread() {
	m.budget = int64(m.row)
	m.over = fmt.Errorf("the answer to a statement that is only carried out is larger than max_row, %s (write one without rows)", m.row)
}

// Check implements [bounds.Check].
func (m *myCheck) Check(p []byte) error {
	if m.budget >= 0 {
		if m.budget -= int64(len(p)); m.budget < 0 {
			m.wrong = m.over
			return m.wrong
		}
	}
	if m.encrypted {
		return nil
	}
	m.wrong = m.frames.Check(p)
	return m.wrong
}

// wrote is told what the client writes: whole packets.
func (m *myCheck) wrote(p []byte) error {
	const command, tls = 0, 1 // the number of a packet
	switch {
	case m.encrypted || len(p) < 5:
		return nil
	case p[3] == tls && m.state == sendsLogin && len(p) == 36 && binary.LittleEndian.Uint32(p[4:])&flagTLS != 0:
		m.encrypted = true
		return nil
	case p[3] != command:
		return nil // it continues another one
	}
	const quit, query, ping, prepare, execute = 0x01, 0x03, 0x0e, 0x16, 0x17
	if (m.state > sendsIdle || m.joined > 0) && p[4] != quit {
		return errors.New("the answer before has not ended")
	}
	m.results = 0
	switch p[4] {
	case query, execute:
		m.state, m.again = sendsHeader, m.caches && p[4] == execute
	case prepare:
		m.state = sendsPrepared
	case ping:
		m.state = sendsSingle
	}
	return nil
}

// frame is [bounds.Frames.Next]: it looks at the beginning of each packet.
func (m *myCheck) frame(head []byte) (length int64, more int, err error) {
	n := int64(head[0]) | int64(head[1])<<8 | int64(head[2])<<16
	if m.joined > 0 {
		if m.joined += n; m.joined > int64(m.row) {
			return 0, 0, m.tooLarge()
		}
		if n == 0 && m.endOrRow {
			return 0, 0, malformed("end of rows")
		}
		if n < longestPacket {
			m.joined = 0
		}
		return 4 + n, 0, nil
	}
	if !m.ready && n > mostGreeting {
		return 0, 0, m.over
	}
	if n > int64(m.row) {
		return 0, 0, m.tooLarge()
	}
	need := n // of the packet
	if m.state > sendsLogin {
		const status = 1 + 9 + 9 + 2 // the end of what is looked at in other packets
		need = min(n, status)
	}
	if more := 4 + need - int64(len(head)); more > 0 {
		return 0, int(more), nil
	}
	if n > 0 {
		err = m.packet(head[4:4+need], n)
	}
	if m.endOrRow = false; n == longestPacket {
		m.joined, m.endOrRow = n, m.state == sendsRows && head[4] == myEnd
	}
	return 4 + n, 0, err
}

// tooLarge blames a statement only for rows that it asks for.
func (m *myCheck) tooLarge() error {
	if m.state != sendsRows || m.budget >= 0 {
		return fmt.Errorf("the server has sent a packet larger than max_row, %s, which is not a row", m.row)
	}
	return bounds.TooLarge("a row is larger than max_row, %s", m.row)
}

func malformed(packet string) error {
	return fmt.Errorf("the server has sent a malformed packet: %s", packet)
}

// packet is told of a packet of n bytes, which begins with p.
func (m *myCheck) packet(p []byte, n int64) error {
	switch m.state {
	case sendsGreeting:
		m.state = sendsLogin
		return m.greeting(p)
	case sendsLogin:
		return login(p)
	case sendsIdle:
		if p[0] != myErr {
			return errors.New("the server has sent what nobody has asked for")
		}
	case sendsSingle:
		m.state = sendsIdle
	case sendsPrepared:
		m.prepared(p)
	case sendsHeader:
		return m.header(p)
	case sendsColumns:
		m.described()
	case sendsRows:
		switch {
		case p[0] == myErr:
			m.state = sendsIdle
		case p[0] == myEnd && n < longestPacket:
			return m.ended(p, !m.noEOF)
		case p[0] == myNull && !m.ready:
			return malformed("variable without a value") // the driver asks for one
		}
		return nil
	}
	if p[0] == myErr {
		return failed(p)
	}
	return nil
}

// prepared goes on with the descriptions of parameters and columns, each list with its end.
func (m *myCheck) prepared(p []byte) {
	m.state = sendsIdle
	if p[0] != myOK || len(p) < 9 {
		return
	}
	for _, at := range []int{5, 7} {
		if n := int(binary.LittleEndian.Uint16(p[at:])); n > 0 {
			m.list(n)
		}
	}
	m.next = sendsIdle
}

// list expects n more descriptions.
func (m *myCheck) list(n int) {
	m.state = sendsColumns
	if m.left += n; !m.noEOF {
		m.left++
	}
}

func (m *myCheck) described() {
	if m.left--; m.left == 0 {
		m.state = m.next
	}
}

func (m *myCheck) header(p []byte) error {
	switch p[0] {
	case myOK:
		return m.ended(p, false)
	case myErr:
		m.state = sendsIdle
		return failed(p)
	case myFile:
		return errors.New("the server has asked for a file of this machine, which LOAD DATA LOCAL INFILE permits and flowd does not")
	}
	n, size := lenenc(p)
	switch {
	case size == 0 || n == 0:
		return malformed("number of columns")
	case n > mostColumns:
		return fmt.Errorf("the server announces an answer of %d columns, of which there are %d at most", n, mostColumns)
	case m.again && len(p) <= size:
		return malformed("number of columns")
	}
	m.next = sendsRows
	switch {
	case !m.again || p[size] == 1:
		m.list(int(n))
	case m.noEOF:
		m.state = sendsRows
	default:
		m.state, m.left = sendsColumns, 1
	}
	return nil
}

// ended ends an answer; after some, another one follows. short is the form without counts.
func (m *myCheck) ended(p []byte, short bool) error {
	at := 3
	if !short {
		at = 1
		for range 2 {
			_, size := lenenc(p[min(at, len(p)):])
			if size == 0 {
				return malformed("end of an answer")
			}
			at += size
		}
	}
	if len(p) < at+2 {
		return malformed("end of an answer")
	}
	m.state = sendsIdle
	if p[at]&moreResults == 0 {
		return nil
	}
	m.state = sendsHeader
	if m.results++; m.results > mostResults {
		return fmt.Errorf("the answer to a statement has more than %d results", mostResults)
	}
	return nil
}

// lenenc reads a number of one to nine bytes; size is 0 if it is not all there.
func lenenc(p []byte) (n uint64, size int) {
	if len(p) == 0 {
		return 0, 0
	}
	more := map[byte]int{0xfc: 2, 0xfd: 3, 0xfe: 8}[p[0]]
	switch {
	case p[0] == 0xfb || p[0] == 0xff: // null, or an error
		return 0, 1
	case more == 0:
		return uint64(p[0]), 1
	case len(p) < 1+more:
		return 0, 0
	}
	var all [8]byte
	copy(all[:], p[1:1+more])
	return binary.LittleEndian.Uint64(all[:]), 1 + more
}

// greeting reads the first packet of a server.
func (m *myCheck) greeting(p []byte) error {
	if p[0] == myErr {
		return failed(p)
	}
	const oldest = 10
	end := bytes.IndexByte(p, 0)
	if p[0] < oldest || end < 0 || len(p) < end+1+4+8+1+2 {
		return errors.New("the server does not greet as a MySQL or MariaDB server does (check the address in the dsn)")
	}
	p = p[end+1+4+8+1:]
	flags := uint32(binary.LittleEndian.Uint16(p))
	if p = p[2:]; len(p) > 0 {
		const rest = 3 + 2 + 7 + 4 + 13
		if len(p) < rest {
			return malformed("greeting")
		}
		flags |= uint32(binary.LittleEndian.Uint16(p[3:])) << 16
		m.caches = flags&flagMySQL == 0 && binary.LittleEndian.Uint32(p[3+2+7:])&flagCacheColumns != 0
	}
	m.noEOF = flags&flagDeprecateEOF != 0
	return nil
}

// login reads a packet of a login.
func login(p []byte) error {
	switch p[0] {
	case myErr:
		return failed(p)
	case myOK:
		return (&myCheck{}).ended(p, false)
	case myMore:
		if block, _ := pem.Decode(p[1:]); block != nil {
			key, err := x509.ParsePKIXPublicKey(block.Bytes)
			if _, ok := key.(*rsa.PublicKey); err != nil || !ok {
				return malformed("public key")
			}
		}
	case myEnd:
		name, data, _ := bytes.Cut(p[1:], []byte{0})
		const native, old = 20, 8 // bytes of a challenge
		data = bytes.TrimSuffix(data, []byte{0})
		if string(name) == "mysql_native_password" && len(data) < native ||
			string(name) == "mysql_old_password" && len(data) < old {
			return malformed("challenge")
		}
	}
	return nil
}

// failed reads the packet of an error.
func failed(p []byte) error {
	if len(p) < 4 || p[3] == '#' && len(p) < 9 {
		return malformed("error")
	}
	return nil
}

// myWire tells a check what is written to a connection.
type myWire struct {
	net.Conn
	check *myCheck
}

func (w myWire) Write(p []byte) (int, error) {
	if err := w.check.wrote(p); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// wired is c with a check in both directions.
func (m *myCheck) wired(c net.Conn) net.Conn {
	return bounds.Conn(bounds.Raw(myWire{c, m}, c), m)
}
