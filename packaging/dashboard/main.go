// Command dashboard writes flowd.json, a dashboard for Grafana. Its panels are in panels.go, and their descriptions come
// from the list of flowd's metrics. The alerts for Prometheus beside it, alerts.yaml, are written by hand.
//
//	go generate ./packaging/dashboard
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

//go:generate go run .

// list is the scrape of a process that has every metric. A test of service compares it with what flowd exposes.
var list = filepath.Join("..", "..", "internal", "operations", "service", "testdata", "metrics.txt")

func main() {
	text, err := dashboard(rows)
	if err == nil {
		err = os.WriteFile("flowd.json", text, 0o644) // #nosec G306 -- packages contain it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// families are flowd's metrics by name.
type families map[string]*dto.MetricFamily

func readFamilies() (families, error) {
	file, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(file)
}

// family returns the metric that a series belongs to, or nil: a histogram has several series.
func (f families) family(series string) *dto.MetricFamily {
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if m := f[strings.TrimSuffix(series, part)]; m.GetType() == dto.MetricType_HISTOGRAM {
			return m
		}
	}
	return f[series]
}

var (
	seriesOfFlowd   = regexp.MustCompile(`\bflowd_[a-z_]+`)
	seriesOfProcess = regexp.MustCompile(`\b(go|process)_[a-z_]+`) // of the Go runtime and the process
)

// describe returns the help texts of the metrics in a panel.
func (f families) describe(p panel) (string, error) {
	var lines []string
	for _, q := range p.queries {
		for _, name := range seriesOfFlowd.FindAllString(q.expr, -1) {
			m := f.family(name)
			if m == nil {
				return "", fmt.Errorf("panel %q: flowd has no metric %s (see %s)", p.title, name, list)
			}
			if line := fmt.Sprintf("`%s`: %s", m.GetName(), m.GetHelp()); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "\n\n"), nil
}

type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

// Grafana's grid has 24 columns. Heights are in its rows.
const columns, rowHeight, statHeight, graphHeight = 24, 1, 4, 8

// dashboard returns the dashboard as Grafana imports it.
func dashboard(rows []row) ([]byte, error) {
	known, err := readFamilies()
	if err != nil {
		return nil, err
	}
	var panels []object
	y := 0
	add := func(p object, x, width, height int) {
		p["id"], p["gridPos"] = len(panels)+1, object{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, p)
	}
	for _, r := range rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, columns, rowHeight)
		y += rowHeight
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.width > columns || height != 0 && height != p.height() {
				x, y = 0, y+height
			}
			height = p.height()
			described, err := known.describe(p)
			if err != nil {
				return nil, err
			}
			add(p.object(described), x, p.width, height)
			x += p.width
		}
		y += height
	}
	text, err := json.MarshalIndent(object{
		"uid": "flowd", "title": "flowd", "tags": []string{"flowd"}, "description": "Pipelines of flowd: health, throughput, failures, limits.",
		"schemaVersion": 36, "version": 1, "id": nil, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "",
		"time": object{"from": "now-1h", "to": "now"}, "annotations": object{"list": []object{}}, "links": []object{},
		"templating": object{"list": variables()}, "panels": panels,
	}, "", "  ")
	return append(text, '\n'), err
}

// variables are the choices at the top of the dashboard.
func variables() []object {
	all := []object{{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1,
		"includeAll": false, "multi": false, "hide": 0, "options": []object{}, "current": object{}}}
	for _, v := range [][2]string{
		{"job", `label_values(flowd_build_info, job)`},
		{"instance", `label_values(flowd_build_info{job=~"$job"}, instance)`},
		{"pipeline", `label_values(flowd_pipeline_state{job=~"$job",instance=~"$instance"}, pipeline)`},
	} {
		all = append(all, object{"type": "query", "name": v[0], "label": strings.ToUpper(v[0][:1]) + v[0][1:], "datasource": source,
			"definition": v[1], "query": object{"query": v[1], "refId": v[0]}, "refresh": 2, "sort": 1, "hide": 0,
			"includeAll": true, "allValue": ".*", "multi": true, "options": []object{},
			"current": object{"text": []string{"All"}, "value": []string{"$__all"}}})
	}
	return all
}

func (p panel) height() int {
	if p.kind == "stat" {
		return statHeight
	}
	return graphHeight
}

// selected puts the dashboard's variables in place of {S}, {P} and [R].
var selected = strings.NewReplacer(
	"{S", `{job=~"$job",instance=~"$instance",pipeline=~"$pipeline"`,
	"{P", `{job=~"$job",instance=~"$instance"`,
	"[R]", "[$__rate_interval]")

func (p panel) object(description string) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "editorMode": "code",
			"expr": selected.Replace(q.expr), "legendFormat": q.legend, "range": p.kind != "stat", "instant": p.kind == "stat"})
	}
	defaults := object{"unit": p.unit}
	tooltip := object{"mode": "multi", "sort": "desc"}
	var options object
	switch p.kind {
	case "stat":
		defaults["thresholds"] = thresholds(p.alarm)
		options = object{"colorMode": "value", "graphMode": "none", "textMode": "value",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}}
	case "state-timeline":
		good, bad := p.states[0], p.states[1]
		defaults["mappings"] = []object{{"type": "value", "options": object{
			good.value: object{"text": good.text, "color": "green", "index": 0},
			bad.value:  object{"text": bad.text, "color": "red", "index": 1}}}}
		defaults["custom"] = object{"fillOpacity": 70, "lineWidth": 0}
		options = object{"mergeValues": true, "showValue": "never", "rowHeight": 0.9, "tooltip": tooltip,
			"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}}
	default:
		defaults["min"] = 0
		defaults["custom"] = object{"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
		options = object{"tooltip": tooltip, "legend": object{"displayMode": "table", "placement": "bottom", "showLegend": true,
			"calcs": []string{"lastNotNull", "max"}}}
	}
	return object{"type": p.kind, "title": p.title, "description": description, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options}
}

// thresholds colour a value red from alarm on, unless that is 0.
func thresholds(alarm float64) object {
	steps := []object{{"color": "green", "value": nil}}
	if alarm > 0 {
		steps = append(steps, object{"color": "red", "value": alarm})
	}
	return object{"mode": "absolute", "steps": steps}
}
