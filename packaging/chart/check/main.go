//go:build ignore

// Command check lints the chart and renders it as Helm does, with the values in a file. It decodes each manifest into the
// types of the Kubernetes API, where an unknown field is an error, and writes the files of all ConfigMaps into a directory:
//
//	go run -modfile=packaging/chart/tools.mod packaging/chart/check/main.go VALUES DIR
//
// It prints the manifests.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const dir = "packaging/chart"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: check VALUES DIR")
		os.Exit(2)
	}
	if err := check(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func check(file, to string) error {
	values, err := chartutil.ReadValuesFile(file)
	if err != nil {
		return err
	}
	for _, m := range lint.All(dir, values, "default", true).Messages {
		if m.Severity > support.InfoSev {
			return fmt.Errorf("lint: %s: %w", m.Path, m.Err)
		}
	}
	chart, err := loader.Load(dir)
	if err != nil {
		return err
	}
	all, err := chartutil.ToRenderValues(chart, values,
		chartutil.ReleaseOptions{Name: "test", Namespace: "default", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		for text := range strings.SplitSeq(rendered[name], "\n---\n") {
			if strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "---")) == "" || strings.HasSuffix(name, ".tpl") {
				continue
			}
			fmt.Printf("---\n%s\n", text)
			if err := strictly(text, to); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func strictly(text, to string) error {
	var kind struct{ Kind string }
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		return err
	}
	types := map[string]any{"ConfigMap": &core.ConfigMap{}, "Deployment": &apps.Deployment{}, "Service": &core.Service{},
		"PersistentVolumeClaim": &core.PersistentVolumeClaim{}, "PodDisruptionBudget": &policy.PodDisruptionBudget{},
		"HorizontalPodAutoscaler": &autoscaling.HorizontalPodAutoscaler{},
		"ServiceMonitor":          &monitoring.ServiceMonitor{}, "PodMonitor": &monitoring.PodMonitor{}}
	object := types[kind.Kind]
	if object == nil {
		return fmt.Errorf("the kind %q is not known here", kind.Kind)
	}
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		return err
	}
	if m, ok := object.(*core.ConfigMap); ok {
		for name, data := range m.Data {
			if err := os.WriteFile(filepath.Join(to, name), []byte(data), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
