package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flowd-io/flowd/internal/testing/fakes3"
)

// objectRows use an object store in this process, over TCP.
var objectRows = []row{
	{
		name: "s3-read", does: "lines of 8 objects → drop", data: orders, fixed: 400_000, run: runS3Read,
		contestants: []contestant{inFlowd("s3-read"), theLimit("aws-sdk-go", "s3-read $endpoint")},
		goals:       []goal{{than: "aws-sdk-go", atLeast: 0.3}},
	},
	{
		name: "s3-write", does: "file → objects of 10,000 lines", data: orders, fixed: 400_000, run: runS3Write,
		contestants: []contestant{inFlowd("s3-write"), theLimit("aws-sdk-go", "s3-write $endpoint $in")},
		goals:       []goal{{than: "aws-sdk-go", atLeast: 0.4}},
	},
}

const objectsRead = 8

// storeVars adds the variables with which contestants reach a store.
func storeVars(store *fakes3.Server, vars map[string]string) {
	maps.Copy(vars, map[string]string{"endpoint": store.URL, "key_id": "test", "key": "test",
		"aws_config_file": os.DevNull, "aws_shared_credentials_file": os.DevNull, "aws_profile": ""})
}

// runS3Read is the runner of rows that read n messages from objects.
func runS3Read(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	store, err := fakes3.New(w.ctx)
	if err != nil {
		return s, err
	}
	defer store.Close()
	for i := range objectsRead {
		var body []byte
		for id := n * i / objectsRead; id < n*(i+1)/objectsRead; id++ {
			body = append(r.data.line(body, id), '\n')
		}
		if _, err := store.Client.PutObject(w.ctx, &s3.PutObjectInput{Bucket: aws.String(fakes3.Bucket),
			Key: aws.String(fmt.Sprintf("in/%d.ndjson", i)), Body: bytes.NewReader(body)}); err != nil {
			return s, err
		}
	}
	vars := map[string]string{}
	storeVars(store, vars)
	used, err := w.runCommand(c.command, vars)
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, used.wall), counted(output{n: n, stderr: used.stderr, flowd: c.isFlowd()})
}

// runS3Write is the runner of rows that write the lines of a file to objects.
func runS3Write(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	store, err := fakes3.New(w.ctx)
	if err != nil {
		return s, err
	}
	defer store.Close()
	storeVars(store, vars)
	used, err := w.runCommand(c.command, vars)
	if err != nil {
		return s, err
	}
	return used.sample(r.data, n, used.wall), checkObjects(w.ctx, store, n)
}

// checkObjects checks that the objects together have n messages, without duplicates.
func checkObjects(ctx context.Context, store *fakes3.Server, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	list, err := store.Client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(fakes3.Bucket)})
	if err != nil {
		return err
	}
	seen, came := make(ids, n), 0
	for _, o := range list.Contents {
		out, err := store.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(fakes3.Bucket), Key: o.Key})
		if err != nil {
			return err
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(out.Body); err != nil {
			return err
		}
		for line := range bytes.Lines(body.Bytes()) {
			if _, err := seen.mark(line); err != nil {
				return err
			}
			came++
		}
	}
	if came != n {
		return fmt.Errorf("%d of %d messages arrived", came, n)
	}
	return nil
}
