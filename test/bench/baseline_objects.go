package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flowd-io/flowd/internal/testing/fakes3"
)

func s3Client(endpoint string) *s3.Client {
	return s3.New(s3.Options{Region: "us-east-1", UsePathStyle: true, BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
}

// s3Read counts the lines of all objects at the endpoint args[0].
func s3Read(args []string) error {
	ctx, client, n := context.Background(), s3Client(args[0]), 0
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: aws.String(fakes3.Bucket)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, o := range page.Contents {
			out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(fakes3.Bucket), Key: o.Key})
			if err != nil {
				return err
			}
			in := bufio.NewReaderSize(out.Body, block)
			for err == nil {
				if _, err = in.ReadSlice('\n'); err == nil {
					n++
				}
			}
			if !errors.Is(err, io.EOF) {
				return err
			}
			out.Body.Close()
		}
	}
	_, err := fmt.Fprint(os.Stderr, n)
	return err
}

// s3Write writes the lines of the file args[1] to objects at the endpoint args[0].
func s3Write(args []string) error {
	const lines, parallel = 10_000, 8
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	client, in := s3Client(args[0]), bufio.NewReaderSize(f, block)
	bodies, failed := make(chan []byte), make(chan error, parallel)
	var all sync.WaitGroup
	var serial int
	var mu sync.Mutex // guards serial
	for range parallel {
		all.Go(func() {
			for body := range bodies {
				mu.Lock()
				serial++
				key := fmt.Sprintf("out/%d.ndjson", serial)
				mu.Unlock()
				if _, err := client.PutObject(context.Background(), &s3.PutObjectInput{Bucket: aws.String(fakes3.Bucket),
					Key: &key, Body: bytes.NewReader(body)}); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for err == nil {
		var body []byte
		for n := 0; n < lines && err == nil; n++ {
			var line []byte
			line, err = in.ReadSlice('\n')
			body = append(body, line...)
		}
		if len(body) == 0 {
			break
		}
		select {
		case bodies <- body:
		case err = <-failed:
		}
	}
	close(bodies)
	all.Wait()
	if !errors.Is(err, io.EOF) {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
