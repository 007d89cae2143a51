package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"time"
)

// pollRows poll an HTTP API in this process.
var pollRows = []row{
	{
		name: "http-poll", does: "HTTP pages of 5,000 JSON messages, each with the URL of the next page → drop", data: events,
		fixed: 200_000, run: runPoll,
		contestants: []contestant{inFlowd("http-poll"), theLimit("net/http client", "http-poll $endpoint")},
		goals:       []goal{{than: "net/http client", atLeast: 1.2}},
	},
}

const pageSize = 5000

// runPoll is the runner of rows that read n messages from pages.
func runPoll(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	var pages [][]byte
	for from := 0; from < n; from += pageSize {
		body := []byte(`{"items":[`)
		to := min(from+pageSize, n)
		for id := from; id < to; id++ {
			if id > from {
				body = append(body, ',')
			}
			body = r.data.line(body, id)
		}
		body = append(body, ']')
		if to < n {
			body = fmt.Appendf(body, `,"next":"/events?page=%d"`, len(pages)+1)
		}
		pages = append(pages, append(body, '}'))
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.FormValue("page"))
		if page >= len(pages) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(pages[page])))
		_, _ = w.Write(pages[page])
	}))
	defer api.Close()
	used, err := w.runCommand(c.command, map[string]string{"endpoint": api.URL})
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, used.wall), counted(output{n: n, stderr: used.stderr, flowd: c.isFlowd()})
}

// httpPoll counts the messages in all pages of the API at args[0].
func httpPoll(args []string) error {
	client, n := &http.Client{Timeout: 30 * time.Second}, 0
	at, err := url.Parse(args[0] + "/events")
	if err != nil {
		return err
	}
	for at != nil {
		res, err := client.Get(at.String())
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", at, res.Status)
		}
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next"`
		}
		err = json.NewDecoder(res.Body).Decode(&page)
		res.Body.Close()
		if err != nil {
			return err
		}
		n += len(page.Items)
		if page.Next == "" {
			break
		}
		if at, err = at.Parse(page.Next); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(os.Stderr, n)
	return err
}
