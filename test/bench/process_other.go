//go:build !unix

package main

import (
	"os"
	"time"
)

// Memory and CPU time are not measured on other systems.

func maxRSS(*os.ProcessState) int64 { return 0 }
func anonymous(string) int64        { return 0 }
func cpuOf(string) time.Duration    { return 0 }
func ownCPU() time.Duration         { return 0 }
