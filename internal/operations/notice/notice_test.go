package main

import (
	"os"
	"testing"
)

func TestNoticeIsOfWhatIsLinked(t *testing.T) {
	want, err := notice("../../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("NOTICE is not what the modules say: go run ./internal/operations/notice > NOTICE")
	}
}
