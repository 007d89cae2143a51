// Command pages writes flowd's manual pages and shell completions for packages:
//
//	go run ./packaging/pages DIR
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/flowd-io/flowd/cmd/flowd/cli"
	"github.com/spf13/cobra/doc"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./packaging/pages DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	manual, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{manual, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	root := cli.Command(os.Stdout, os.Stderr)
	root.DisableAutoGenTag = true // it has the date
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "flowd", Manual: "flowd"}, manual); err != nil {
		return err
	}
	for name, generate := range map[string]func(string) error{
		"flowd.bash": func(file string) error { return root.GenBashCompletionFileV2(file, true) },
		"flowd.zsh":  root.GenZshCompletionFile,
		"flowd.fish": func(file string) error { return root.GenFishCompletionFile(file, true) },
	} {
		if err := generate(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return nil
}
