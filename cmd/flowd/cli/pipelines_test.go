package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/service"
	_ "github.com/flowd-io/flowd/outputs/drop"
)

// TestAChangeThatCannotBeAppliedPutsTheOldFileBack lets a placeholder lose its value as soon as the file is saved.
func TestAChangeThatCannotBeAppliedPutsTheOldFileBack(t *testing.T) {
	const text = "inputs: {in: {generate: {interval: 1h, body: '{}'}}}\noutputs: {out: {drop: {}}}\n"
	for _, before := range []string{text, ""} {
		s := steer(t, map[string]string{"given.yaml": text})
		dir := t.TempDir()
		process := filepath.Join(t.TempDir(), "process.yaml")
		if err := os.WriteFile(process, []byte("service: {listen: \"127.0.0.1:0\", pipelines: "+dir+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "p.yaml")
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.files = append(s.files, process)
		s.options.Lookup = func(string) (string, bool, error) {
			saved, err := os.ReadFile(file)
			return "1h", err != nil || !strings.Contains(string(saved), "${WAIT}"), nil
		}
		s.service = config.Service{Pipelines: dir}
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		_, problems, err := managed{s.process}.Put("p", []byte(strings.Replace(text, "1h", "${WAIT}", 1)))
		if err == nil || !strings.Contains(err.Error(), "nothing has changed") {
			t.Errorf("got %v, %v", problems, err)
		}
		if now, err := os.ReadFile(file); string(now) != before || (err != nil) != (before == "") {
			t.Errorf("the file has %q, %v, want %q", now, err, before)
		}
		var list []service.PipelineFile
		for _, p := range (managed{s.process}).List() {
			if p.Managed {
				list = append(list, p)
			}
		}
		if (len(list) == 1) != (before != "") {
			t.Errorf("pipelines are %v", list)
		}
	}
}
