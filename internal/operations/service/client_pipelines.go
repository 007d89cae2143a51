package service

import (
	"context"
	"net/http"
	"net/url"
)

// jsonType is the media type of JSON.
const jsonType = "application/json"

func pipelinePath(name string) string { return "/api/v1/pipelines/" + escaped(name) }

func escaped(name string) string { return url.PathEscape(name) }

// InvalidError is the error for a change that was refused because of problems in pipelines.
type InvalidError struct {
	Status   int // 422, or 503 if the change may be possible later
	Text     string
	Problems []Problem
}

func (e *InvalidError) Error() string { return e.Text }

// Pipelines lists the pipelines of the process.
func (c *Client) Pipelines(ctx context.Context) (list PipelineList, err error) {
	err = c.ask(ctx, http.MethodGet, "/api/v1/pipelines", nil, &list)
	return list, err
}

// Pipeline returns the YAML of a pipeline.
func (c *Client) Pipeline(ctx context.Context, name string) ([]byte, error) {
	res, answer, err := c.send(ctx, c.http, http.MethodGet, pipelinePath(name), nil, jsonType, nil)
	if err == nil && (res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != yamlTypes[0]) {
		err = c.understand(res, answer, nil)
	}
	return answer, err
}

// PutPipeline creates or replaces a pipeline. Like the methods below, it returns an [*InvalidError] if pipelines would not
// be valid.
func (c *Client) PutPipeline(ctx context.Context, name string, text []byte) (on []string, warnings []Problem, err error) {
	var d done
	res, answer, err := c.send(ctx, c.http, http.MethodPut, pipelinePath(name), nil, yamlTypes[0], text)
	if err == nil {
		err = c.understand(res, answer, &d)
	}
	return d.Done, d.Problems, err
}

// RemovePipeline removes a pipeline.
func (c *Client) RemovePipeline(ctx context.Context, name string) ([]string, error) {
	var d done
	err := c.ask(ctx, http.MethodDelete, pipelinePath(name), nil, &d)
	return d.Done, err
}

// OperatePipeline starts, stops or restarts a pipeline, as action says.
func (c *Client) OperatePipeline(ctx context.Context, name, action string) ([]string, error) {
	var d done
	err := c.ask(ctx, http.MethodPost, pipelinePath(name)+"/"+action, struct{}{}, &d)
	return d.Done, err
}
