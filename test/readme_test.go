package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a document, and the text before it.
type block struct{ before, language, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

func blocks(text string) []block {
	var all []block
	end := 0
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		all = append(all, block{strings.TrimSpace(text[end:at[0]]), text[at[2]:at[3]], text[at[4]:at[5]]})
		end = at[1]
	}
	return all
}

// fileName finds the name of the file that a block belongs to.
var fileName = regexp.MustCompile("`([^`]+)`:$")

// TestREADME follows README.md in a copy of the repository.
func TestREADME(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go several times")
	}
	t.Parallel()
	follow(t, clone(t), "README.md", read(t, repo, "README.md"))
}

// follow follows a document in dir, verbatim and in order. It runs sh blocks with flowd on the path, writes other blocks to
// the file named before them, and compares text blocks with the output of the last command: with stderr if there is text
// before the block, else with stdout, in any order. Blocks with a word after their language are not followed.
func follow(t *testing.T, dir, name, text string) {
	t.Helper()
	last := result{}
	for _, b := range blocks(text) {
		switch {
		case b.text == testCommand+"\n": // would run this test again
		case b.language == "sh":
			last = within(t, compiling, dir, "", "env", "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"),
				"bash", "-euo", "pipefail", "-c", b.text)
			last.Want(t, 0)
		case b.language == "text" && b.before == "":
			if got, want := lines(withoutTimes(last.Stdout)), lines(withoutTimes(b.text)); !slices.Equal(got, want) {
				t.Errorf("stdout\n%s\n%s says\n%s", last.Stdout, name, b.text)
			}
		case b.language == "text":
			if got, want := withoutTimes(last.Stderr), withoutTimes(b.text); got != want {
				t.Errorf("stderr\n%s\n%s says\n%s", got, name, want)
			}
		default:
			file := fileName.FindStringSubmatch(b.before)
			if file == nil {
				t.Fatalf("no file is named before the %s block\n%s", b.language, b.text)
			}
			write(t, dir, file[1], b.text)
		}
	}
}

// testCommand runs the tests. README.md and .ci/run must have it.
const testCommand = "go test -race ./..."

func TestCIRunsTheTestCommandOfTheREADME(t *testing.T) {
	if readme := read(t, repo, "README.md"); !strings.Contains(readme, "```sh\n"+testCommand+"\n```") {
		t.Errorf("README.md has no block with %q", testCommand)
	}
	if ci := read(t, repo, ".ci", "run"); !strings.Contains(ci, "\n"+testCommand+"\n") {
		t.Errorf(".ci/run has no line %q", testCommand)
	}
}

var runTime = regexp.MustCompile(` in [\d.]+[a-zµ]+( \([^)]*\))?`)

func withoutTimes(text string) string { return runTime.ReplaceAllString(text, "") }

// clone copies the repository without its history.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := fs.WalkDir(os.DirFS(repo), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name == ".git":
			return fs.SkipDir
		case !e.Type().IsRegular(), name == ".git": // a file in a linked worktree
			return nil
		}
		write(t, dir, name, read(t, repo, name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
