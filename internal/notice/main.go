// Notice prints the licences of all modules that are linked into flowd, for the file
// NOTICE. Run it in the root of the repository: go run ./internal/notice > NOTICE
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	text, err := notice(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}

const head = `flowd
Copyright the flowd authors. Licensed under the Apache License, Version 2.0: see LICENSE.

These are linked into the flowd binary, with the licences that their files name and the
copyright lines in them. The files themselves lie in the module cache (go list -m -json
MODULE says where) and in the repository of each module.

This file is made by: go run ./internal/notice > NOTICE
`

// notice is the text of NOTICE for the repository in a folder. It reads the module cache.
func notice(repo string) (string, error) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/flowd")
	list.Dir = repo
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0") // the same on every machine
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	modules = slices.DeleteFunc(modules, func(line string) bool { return line == "" })
	slices.Sort(modules)
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("\nThe Go standard library and runtime\n  LICENSE: BSD-3-Clause\n    Copyright 2009 The Go Authors.\n")
	for _, m := range slices.Compact(modules) {
		name, dir, _ := strings.Cut(m, "\t")
		licences, err := licencesIn(dir)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&b, "\n%s\n%s", name, licences)
	}
	return b.String(), nil
}

var (
	isLicence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright)([.-].*)?$`)
	copyright = regexp.MustCompile(`(?im)^[ \t#*/-]*(copyright (\(c\) |©|[0-9]).*[^\s]|.*\bCopyright \(c\) [0-9].*[^\s])[ \t]*$`)
)

// licencesIn describes the licence files in a module's folder.
func licencesIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	found := false
	for _, e := range entries {
		if e.IsDir() || !isLicence.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		kinds := kindsOf(text)
		found = found || len(kinds) > 0
		if len(kinds) == 0 {
			kinds = []string{"no licence of its own"}
		}
		fmt.Fprintf(&b, "  %s: %s\n", e.Name(), strings.Join(kinds, ", "))
		var lines []string
		for _, line := range copyright.FindAllSubmatch(text, -1) {
			if said := strings.TrimSpace(string(line[1])); !bytes.Contains(line[1], []byte("[yyyy]")) && !slices.Contains(lines, said) {
				lines = append(lines, said)
				fmt.Fprintf(&b, "    %s\n", said)
			}
		}
	}
	if !found {
		return "", fmt.Errorf("no licence that is known lies in %s", dir)
	}
	return b.String(), nil
}

// kindsOf names the licences that a text has, by what only their texts say.
func kindsOf(text []byte) (kinds []string) {
	plain := strings.Join(strings.Fields(string(text)), " ")
	has := func(part string) bool { return strings.Contains(plain, part) }
	if has("Apache License Version 2.0, January 2004") || has("Licensed under the Apache License, Version 2.0") {
		kinds = append(kinds, "Apache-2.0")
	}
	if has("Mozilla Public License Version 2.0") || has("Mozilla Public License, version 2.0") {
		kinds = append(kinds, "MPL-2.0")
	}
	if has("Permission is hereby granted, free of charge, to any person obtaining a copy") {
		kinds = append(kinds, "MIT")
	}
	if has("Redistribution and use in source and binary forms") {
		if has("Neither the name") || has("may not be used to endorse") || has("The names of its contributors") {
			kinds = append(kinds, "BSD-3-Clause")
		} else {
			kinds = append(kinds, "BSD-2-Clause")
		}
	}
	if has("Permission to use, copy, modify, and/or distribute this software for any purpose") || has("Permission to use, copy, modify, and distribute this software for any purpose") {
		kinds = append(kinds, "ISC")
	}
	return kinds
}
