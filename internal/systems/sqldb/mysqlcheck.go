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

// Limits of what a MySQL server may send. The driver trusts announced counts, joins packets without a limit, and reads fields without
// checking the length of the packet.
const (
	mostGreeting = 64 << 10 // bytes until a connection is ready, including those of TLS
	mostColumns  = 1 << 16  // of an answer; servers allow 4096
	mostResults  = 10_000   // of one statement; a procedure has one result for each of its queries
)

// mostUnread is how many unwanted rows are read to keep a connection. If there are more, the connection is closed.
const mostUnread = 16

// myState is what a server may send next.
type myState uint8

const (
	sendsGreeting myState = iota
	sendsLogin            // packets until the first command; TLS hides them
	sendsIdle             // nothing but an error, such as a shutdown
	sendsSingle           // one packet
	sendsPrepared         // the answer to a prepare
	sendsHeader           // the beginning of an answer
	sendsColumns          // descriptions of columns or parameters
	sendsRows
)

// The flags of a greeting, and of the first packet of a client.
const (
	flagMySQL        = 1 << 0 // MariaDB leaves it out, and has more flags
	flagTLS          = 1 << 11
	flagDeprecateEOF = 1 << 24
	flagCacheColumns = 1 << 4 // only MariaDB

	moreResults = 8 // a flag of a status
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

// longestPacket is the size of a packet that the next packet continues.
const longestPacket = 1<<24 - 1

// myCheck checks both directions of a connection to a MySQL server. It is not safe for concurrent use.
type myCheck struct {
	frames bounds.Frames
	row    schema.Size // max_row

	state     myState
	next      myState // the state after sendsColumns
	left      int     // packets that are missing in the state sendsColumns
	results   int     // of the statement so far
	budget    int64   // bytes that may still arrive before the connection is ready, or for a discarded answer; -1: no limit
	over      error   // the error when the budget is exceeded
	joined    int64   // bytes so far of a message that consists of several packets; 0: it consists of one
	endOrRow  bool    // the first byte means a row only if the next packet is not empty
	noEOF     bool    // the protocol has no packets that end a list
	caches    bool    // the client caches the column descriptions of prepared statements
	again     bool    // the answer says whether it describes the columns again
	ready     bool    // the connection is ready
	encrypted bool    // the connection uses TLS, so another check is needed inside
	wrong     error   // the error of the check
	panicked  bool    // the driver has panicked
}

func newMyCheck(row schema.Size) *myCheck {
	m := &myCheck{row: row, budget: mostGreeting,
		over: fmt.Errorf("the server has sent more than %d KiB before the connection was ready", mostGreeting>>10)}
	m.frames = bounds.Frames{First: 4, Next: m.frame}
	return m
}

// insideTLS returns the check of what m's connection carries inside TLS.
func (m *myCheck) insideTLS() *myCheck {
	a := newMyCheck(m.row)
	a.noEOF, a.caches = m.noEOF, m.caches
	a.opened()
	return a
}

// opened records that the connection is ready.
func (m *myCheck) opened() { m.state, m.ready, m.budget = sendsIdle, true, -1 }

// unread limits the next answer, which is discarded.
func (m *myCheck) unread() {
	m.budget = int64(m.row)
	m.over = fmt.Errorf("the answer to a statement whose rows are not used is larger than max_row, %s "+
		"(write a statement that returns no rows)", m.row)
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

// wrote checks what the client writes, which are whole packets.
func (m *myCheck) wrote(p []byte) error {
	const command, tls = 0, 1 // sequence numbers of packets
	switch {
	case m.encrypted || len(p) < 5:
		return nil
	case p[3] == tls && m.state == sendsLogin && len(p) == 36 && binary.LittleEndian.Uint32(p[4:])&flagTLS != 0:
		m.encrypted = true
		return nil
	case p[3] != command:
		return nil // the packet does not begin a command
	}
	const quit, query, ping, prepare, execute = 0x01, 0x03, 0x0e, 0x16, 0x17
	if (m.state > sendsIdle || m.joined > 0) && p[4] != quit {
		return errors.New("the last answer has not ended")
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

// frame implements [bounds.Frames.Next]. It checks the beginning of each packet.
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
	need := n // bytes of the packet
	if m.state > sendsLogin {
		const status = 1 + 9 + 9 + 2 // other packets are checked up to their status
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

// tooLarge returns the error of a packet above max_row. It is a [bounds.ErrTooLarge] only if the packet is a row of a query.
func (m *myCheck) tooLarge() error {
	if m.state != sendsRows || m.budget >= 0 {
		return fmt.Errorf("the server has sent a packet larger than max_row, %s, which is not a row", m.row)
	}
	return bounds.TooLarge("a row is larger than max_row, %s", m.row)
}

func malformed(packet string) error {
	return fmt.Errorf("the server has sent a malformed packet: %s", packet)
}

// packet checks a packet of n bytes that begins with p.
func (m *myCheck) packet(p []byte, n int64) error {
	switch m.state {
	case sendsGreeting:
		m.state = sendsLogin
		return m.greeting(p)
	case sendsLogin:
		return login(p)
	case sendsIdle:
		if p[0] != myErr {
			return errors.New("the server has sent an answer without a request")
		}
	case sendsSingle:
		m.state = sendsIdle
	case sendsPrepared:
		m.expectPrepared(p)
	case sendsHeader:
		return m.header(p)
	case sendsColumns:
		m.countDescription()
	case sendsRows:
		switch {
		case p[0] == myErr:
			m.state = sendsIdle
		case p[0] == myEnd && n < longestPacket:
			return m.endResult(p, !m.noEOF)
		case p[0] == myNull && !m.ready:
			return malformed("variable without a value") // of the driver's own query
		}
		return nil
	}
	if p[0] == myErr {
		return checkError(p)
	}
	return nil
}

// expectPrepared expects the descriptions of the parameters and columns of a prepared statement.
func (m *myCheck) expectPrepared(p []byte) {
	m.state = sendsIdle
	if p[0] != myOK || len(p) < 9 {
		return
	}
	for _, offset := range []int{5, 7} {
		if n := int(binary.LittleEndian.Uint16(p[offset:])); n > 0 {
			m.expectDescriptions(n)
		}
	}
	m.next = sendsIdle
}

// expectDescriptions expects n more descriptions, and the packet that ends them.
func (m *myCheck) expectDescriptions(n int) {
	m.state = sendsColumns
	if m.left += n; !m.noEOF {
		m.left++
	}
}

// countDescription counts a packet of the state sendsColumns.
func (m *myCheck) countDescription() {
	if m.left--; m.left == 0 {
		m.state = m.next
	}
}

// header checks the first packet of a result.
func (m *myCheck) header(p []byte) error {
	switch p[0] {
	case myOK:
		return m.endResult(p, false)
	case myErr:
		m.state = sendsIdle
		return checkError(p)
	case myFile:
		return errors.New("the server has asked for a file of this machine (LOAD DATA LOCAL INFILE), which flowd does not allow")
	}
	n, size := lenenc(p)
	switch {
	case size == 0 || n == 0:
		return malformed("number of columns")
	case n > mostColumns:
		return fmt.Errorf("the server announces an answer of %d columns, more than the allowed %d", n, mostColumns)
	case m.again && len(p) <= size:
		return malformed("number of columns")
	}
	m.next = sendsRows
	switch {
	case !m.again || p[size] == 1:
		m.expectDescriptions(int(n))
	case m.noEOF:
		m.state = sendsRows
	default:
		m.state, m.left = sendsColumns, 1
	}
	return nil
}

// endResult checks the packet that ends a result. Its status says whether another result follows. short means that the packet has no
// counts.
func (m *myCheck) endResult(p []byte, short bool) error {
	status := 3 // offset
	if !short {
		status = 1
		for range 2 {
			_, size := lenenc(p[min(status, len(p)):])
			if size == 0 {
				return malformed("end of an answer")
			}
			status += size
		}
	}
	if len(p) < status+2 {
		return malformed("end of an answer")
	}
	m.state = sendsIdle
	if p[status]&moreResults == 0 {
		return nil
	}
	m.state = sendsHeader
	if m.results++; m.results > mostResults {
		return fmt.Errorf("the answer to a statement has more than %d results", mostResults)
	}
	return nil
}

// lenenc decodes a length-encoded integer of one to nine bytes. size is 0 if p is too short.
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

// greeting checks the first packet of a server.
func (m *myCheck) greeting(p []byte) error {
	if p[0] == myErr {
		return checkError(p)
	}
	const oldest = 10
	end := bytes.IndexByte(p, 0)
	if p[0] < oldest || end < 0 || len(p) < end+1+4+8+1+2 {
		return errors.New("the server is not a MySQL or MariaDB server (check the address in the dsn)")
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

// login checks a packet of the login.
func login(p []byte) error {
	switch p[0] {
	case myErr:
		return checkError(p)
	case myOK:
		return (&myCheck{}).endResult(p, false)
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

// checkError checks an error packet.
func checkError(p []byte) error {
	if len(p) < 4 || p[3] == '#' && len(p) < 9 {
		return malformed("error")
	}
	return nil
}

// myWire checks what is written to a connection.
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

// wrap returns c with the check in both directions.
func (m *myCheck) wrap(c net.Conn) net.Conn {
	return bounds.Conn(bounds.Raw(myWire{c, m}, c), m)
}
