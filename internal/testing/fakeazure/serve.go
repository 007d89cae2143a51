package fakeazure

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// serve carries out one request; the server is locked.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, body string) {
	rest, ours := strings.CutPrefix(r.URL.EscapedPath(), "/account/"+Container)
	key, _ := url.PathUnescape(strings.TrimPrefix(rest, "/"))
	q := r.URL.Query()
	b := s.blobs[key]
	switch comp := q.Get("comp"); {
	case !ours:
		fail(w, http.StatusNotFound, "ContainerNotFound")
	case comp == "list":
		s.list(w, q.Get("prefix"), q.Get("marker"))
	case key == "":
	case comp == "block":
		if s.blocks[key] == nil {
			s.blocks[key] = map[string]string{}
		}
		if damaged(r, body) {
			fail(w, http.StatusBadRequest, "Md5Mismatch")
			return
		}
		s.blocks[key][q.Get("blockid")] = body
		w.WriteHeader(http.StatusCreated)
	case comp == "blocklist":
		s.commit(w, r, key, body)
	case r.Method == http.MethodPut && comp == "" && r.Header.Get("X-Ms-Copy-Source") != "":
		s.copy(w, r, key)
	case r.Method == http.MethodPut && comp == "":
		if damaged(r, body) {
			fail(w, http.StatusBadRequest, "Md5Mismatch")
			return
		}
		s.write(w, r, key, body)
	case b == nil:
		fail(w, http.StatusNotFound, "BlobNotFound")
	case r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != b.ETag:
		fail(w, http.StatusPreconditionFailed, "ConditionNotMet")
	case comp == "tags":
		tags(w, r, b, body)
	case r.Method == http.MethodDelete:
		delete(s.blobs, key)
		maps.DeleteFunc(s.blobs, func(_ string, b *Blob) bool { return b.copying == key }) // it has lost its source
		w.WriteHeader(http.StatusAccepted)
	default:
		read(w, r, b)
	}
}

// damaged says that a body does not match its checksum.
func damaged(r *http.Request, body string) bool {
	sum := md5.Sum([]byte(body))
	want := r.Header.Get("Content-Md5")
	return want != "" && want != base64.StdEncoding.EncodeToString(sum[:])
}

func (s *Server) commit(w http.ResponseWriter, r *http.Request, key, body string) {
	var list struct{ Latest []string }
	if err := xml.Unmarshal([]byte(body), &list); err != nil {
		fail(w, http.StatusBadRequest, "InvalidXmlDocument")
		return
	}
	var all strings.Builder
	for _, id := range list.Latest {
		part, ok := s.blocks[key][id]
		if !ok {
			fail(w, http.StatusBadRequest, "InvalidBlockList")
			return
		}
		all.WriteString(part)
	}
	s.write(w, r, key, all.String())
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, key, body string) {
	if s.blobs[key] != nil && r.Header.Get("If-None-Match") == "*" {
		fail(w, http.StatusConflict, "BlobAlreadyExists")
		return
	}
	b := &Blob{Body: body, Header: r.Header.Clone(), MD5: r.Header.Get("X-Ms-Blob-Content-Md5"), Tags: map[string]string{}}
	pairs, _ := url.ParseQuery(r.Header.Get("X-Ms-Tags"))
	for name := range pairs {
		b.Tags[name] = pairs.Get(name)
	}
	s.put(key, b)
	w.Header().Set("Etag", b.ETag)
	w.WriteHeader(http.StatusCreated)
}

// copy begins a copy, which is finished when someone looks.
func (s *Server) copy(w http.ResponseWriter, r *http.Request, to string) {
	u, _ := url.Parse(r.Header.Get("X-Ms-Copy-Source"))
	from, _ := url.PathUnescape(strings.TrimPrefix(u.EscapedPath(), "/account/"+Container+"/"))
	b := s.blobs[from]
	switch only := r.Header.Get("X-Ms-Source-If-Match"); {
	case b == nil:
		fail(w, http.StatusNotFound, "BlobNotFound")
	case only != "" && only != b.ETag:
		fail(w, http.StatusPreconditionFailed, "SourceConditionNotMet")
	default:
		copied := *b
		copied.copying = from
		s.put(to, &copied)
		w.Header().Set("X-Ms-Copy-Status", "pending")
		w.Header().Set("X-Ms-Copy-Id", "1")
		w.WriteHeader(http.StatusAccepted)
	}
}

type tagSet struct {
	XMLName xml.Name `xml:"Tags"`
	Tags    []tag    `xml:"TagSet>Tag"`
}

type tag struct{ Key, Value string }

func tags(w http.ResponseWriter, r *http.Request, b *Blob, body string) {
	var set tagSet
	if r.Method == http.MethodPut {
		_ = xml.Unmarshal([]byte(body), &set)
		b.Tags = map[string]string{}
		for _, t := range set.Tags {
			b.Tags[t.Key] = t.Value
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	for name, value := range b.Tags {
		set.Tags = append(set.Tags, tag{name, value})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(set)
}

func read(w http.ResponseWriter, r *http.Request, b *Blob) {
	h := w.Header()
	h.Set("Etag", b.ETag)
	h.Set("Last-Modified", modified)
	h.Set("Content-Type", "text/plain")
	for name, values := range b.Header {
		if strings.HasPrefix(name, "X-Ms-Meta-") {
			h[name] = values
		}
	}
	if coding := b.Header.Get("X-Ms-Blob-Content-Encoding"); coding != "" {
		h.Set("Content-Encoding", coding)
	}
	if len(b.Tags) > 0 {
		h.Set("X-Ms-Tag-Count", strconv.Itoa(len(b.Tags)))
	}
	if b.copying != "" {
		b.copying = ""
		h.Set("X-Ms-Copy-Status", "success")
	}
	from, status := 0, http.StatusOK
	if text := r.Header.Get("X-Ms-Range"); text != "" {
		if _, err := fmt.Sscanf(text, "bytes=%d-", &from); err != nil || from >= len(b.Body) {
			fail(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		status = http.StatusPartialContent
	} else if b.MD5 != "" {
		h.Set("Content-Md5", b.MD5)
	}
	if r.Method == http.MethodHead {
		h.Set("Content-Length", strconv.Itoa(len(b.Body)))
		maps.DeleteFunc(h, func(name string, _ []string) bool { return name == "Content-Md5" })
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, b.Body[from:])
	}
}
