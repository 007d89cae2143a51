package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// chartValues are values of the chart with everything that it can do. Persistence and autoscaling exclude each other.
const chartValues = `
pipelines:
  orders:
    inputs: {in: {http_server: {listen: "0.0.0.0:8080"}}}
    processors: [{pool: {name: score, workers: remote, do: [{set: {a: "1"}}]}}]
    outputs: {out: {stdout: {}}}
    service: {cluster: {listen: "0.0.0.0:5019", token: "${FLOWD_TOKEN}"}}
  text: |
    inputs: {in: {generate: {count: 1, body: "{a: 1}"}}} # a comment
    outputs: {out: {stdout: {}}}
drainTimeoutSeconds: 120
env: [{name: LEVEL, value: info}]
envFrom: [{secretRef: {name: more}}]
secretMounts: [{secret: kafka-tls, path: /secrets/kafka}]
ports: [{name: http, port: 8080}]
nodeSelector: {disk: fast}
podAnnotations: {note: x}
podLabels: {team: x}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
podMonitor: {enabled: true}
podDisruptionBudget: {enabled: true}
workers: {enabled: true, pools: [score], allow: [set], tokenSecret: {name: pool-token}}
`

// TestChart lints the Helm chart and renders it with Helm's own code, decodes every manifest strictly, and lints the
// pipelines in it with the arguments of the container.
func TestChart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check := filepath.Join(dir, "check")
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=packaging/chart/tools.mod", "-o", check,
		"packaging/chart/check/main.go")
	build.Dir = repo
	if out, err := build.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "dial tcp") || strings.Contains(string(out), "module lookup disabled") {
			skip(t, "Helm's modules", errors.New(string(out)))
		}
		t.Fatalf("%v\n%s", err, out)
	}
	const one = "pipelines: {a: {inputs: {in: {stdin: {}}}, outputs: {out: {stdout: {}}}}}\n"
	for _, tt := range []struct {
		name, values string
		has          []string // manifests, or an error if it is the only one
		code         int
	}{
		{"the least", one, []string{"terminationGracePeriodSeconds: 40\n", "checksum/pipelines: ", "emptyDir: {}"}, 0},
		{"everything", chartValues, []string{
			"terminationGracePeriodSeconds: 135\n", "--set=engine.drain.timeout=120s", "--grace=120s",
			"mountPath: /secrets/kafka", "kind: ServiceMonitor", "kind: PodMonitor", "kind: PodDisruptionBudget",
			"name: test-flowd-workers", "--join=test-flowd-hub:5019", "--pool=score", "--allow=set", "name: pool-token",
			"{name: http, containerPort: 8080}", "team: x", "disk: fast"}, 0},
		{"lag", one + "autoscaling: {enabled: true}\n", []string{"kind: HorizontalPodAutoscaler", "name: flowd_input_lag_messages"}, 0},
		{"state", one + "persistence: {enabled: true}\n", []string{"kind: PersistentVolumeClaim", "{type: Recreate}",
			"claimName: test-flowd"}, 0},
		{"a ConfigMap", "existingConfigMap: mine\nwatch: true\n", []string{"configMap: {name: mine}", "- --watch"}, 0},

		{"no pipelines", "replicas: 1\n", []string{"/pipelines': minProperties: got 0, want 1"}, 1},
		{"pipelines twice", one + "existingConfigMap: mine\n", []string{"/pipelines': maxProperties: got 1, want 0"}, 1},
		{"no outputs", "pipelines: {a: {inputs: {}}}\n", []string{"outputs"}, 1},
		{"two pods with one volume", one + "replicas: 2\npersistence: {enabled: true}\n", []string{"replicas"}, 1},
		{"a key in the wrong place", one + "terminationGracePeriodSeconds: 5\n", []string{"terminationGracePeriodSeconds"}, 1},
		{"workers without a token", one + "workers: {enabled: true, pools: [a]}\n", []string{"name"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pipelines := t.TempDir()
			got := command(t, repo, "", check, write(t, t.TempDir(), "values.yaml", tt.values), pipelines)
			if tt.code != 0 {
				got.Want(t, tt.code, tt.has...)
				return
			}
			got.Want(t, 0)
			args := []string{"LEVEL=x", "FLOWD_TOKEN=" + strings.Repeat("x", 32), binary, "lint", pipelines}
			for line := range strings.Lines(got.Stdout) {
				if set, is := strings.CutPrefix(strings.TrimSpace(line), "- --set="); is {
					args = append(args, "--set="+set)
				}
			}
			for _, want := range tt.has {
				if !strings.Contains(got.Stdout, want) {
					t.Errorf("no manifest has %q:\n%s", want, got.Stdout)
				}
			}
			if files, err := os.ReadDir(pipelines); err != nil {
				t.Fatal(err)
			} else if len(files) > 0 {
				command(t, repo, "", "env", args...).Want(t, 0, "0 errors")
			}
		})
	}
}
