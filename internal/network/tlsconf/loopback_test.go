package tlsconf

import "testing"

func TestAnAddressToListenOnIsChecked(t *testing.T) {
	for _, test := range []struct{ address, host, message, remedy string }{
		{address: "127.0.0.1:9600", host: "127.0.0.1"},
		{address: "[::1]:0", host: "::1"},
		{address: "[fe80::1%eth0]:80", host: "fe80::1%eth0"},
		{address: "flowd-1.example:http", host: "flowd-1.example"},
		{address: ":8080"},
		{address: "9600", message: `"9600" is not a valid address`, remedy: `write "127.0.0.1:8080"`},
		{address: "localhost:", message: `"localhost:" is not a valid address`, remedy: `write "127.0.0.1:8080"`},
		{address: "256.0.0.1:80", message: `"256.0.0.1:80" is not a valid address`, remedy: `write "127.0.0.1:8080"`},
		{address: "http://x:80", message: `"http://x:80" is not a valid address`, remedy: `write "127.0.0.1:8080"`},
		{address: "a b:80", message: `"a b:80" is not a valid address`, remedy: `write "127.0.0.1:8080"`},
		{"127.0.0.1:99999", "", `"127.0.0.1:99999" has no valid port: "99999" is not a number from 0 to 65535`, `write "127.0.0.1:8080"`},
		{":http x", "", `":http x" has no valid port: "http x" is not a number from 0 to 65535`, `write ":8080"`},
		{"[::1]:-1", "", `"[::1]:-1" has no valid port: "-1" is not a number from 0 to 65535`, `write "[::1]:8080"`},
	} {
		t.Run(test.address, func(t *testing.T) {
			host, message, remedy := Listening(test.address, "127.0.0.1:8080")
			if host != test.host || message != test.message || remedy != test.remedy {
				t.Errorf("got %q, %q, %q, want %q, %q, %q", host, message, remedy, test.host, test.message, test.remedy)
			}
		})
	}
}
