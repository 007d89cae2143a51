package fakegcs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// resource is an object as the service describes it.
type resource struct {
	Name            string            `json:"name"`
	Generation      string            `json:"generation"`
	Size            string            `json:"size"`
	Updated         string            `json:"updated"`
	ContentType     string            `json:"contentType"`
	ContentEncoding string            `json:"contentEncoding"`
	StorageClass    string            `json:"storageClass"`
	CRC32C          string            `json:"crc32c"`
	Metadata        map[string]string `json:"metadata"`
}

// upload is a resumable upload.
type upload struct {
	key  string
	o    *Object
	crc  string
	body []byte
	only string
}

func checksum(body string) string {
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func describe(key string, o *Object) resource {
	return resource{key, strconv.FormatInt(o.Generation, 10), strconv.Itoa(len(o.Body)), "2026-03-01T12:00:00.123Z",
		o.ContentType, o.ContentEncoding, o.StorageClass, checksum(o.Body), o.Metadata}
}

// serve carries out one request; the server is locked.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	path, uploads := strings.CutPrefix(r.URL.EscapedPath(), "/upload")
	rest, ours := strings.CutPrefix(path, "/storage/v1/b/"+Bucket)
	name, object := strings.CutPrefix(rest, "/o/")
	q := r.URL.Query()
	switch {
	case !ours:
		fail(w, http.StatusNotFound, "notFound", "The specified bucket does not exist.")
	case uploads && q.Has("upload_id"):
		s.resume(w, r, q.Get("upload_id"), body)
	case uploads:
		s.begin(w, r, q, body)
	case rest == "":
		_, _ = io.WriteString(w, `{"name": "bucket"}`)
	case object:
		s.serveObject(w, r, q, name, body)
	default:
		s.list(w, q)
	}
}

func (s *Server) list(w http.ResponseWriter, q url.Values) {
	var page struct {
		Items         []resource `json:"items,omitempty"`
		NextPageToken string     `json:"nextPageToken,omitempty"`
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, q.Get("prefix")) || key < q.Get("startOffset") || key <= q.Get("pageToken") {
			continue
		}
		if s.Page > 0 && len(page.Items) == s.Page {
			page.NextPageToken = page.Items[s.Page-1].Name
			break
		}
		page.Items = append(page.Items, describe(key, s.objects[key]))
	}
	_ = json.NewEncoder(w).Encode(page)
}

// current says whether a condition holds for an object, which may be nil.
func current(want string, o *Object) bool {
	return want == "" || want == "0" && o == nil || o != nil && want == strconv.FormatInt(o.Generation, 10)
}

func (s *Server) serveObject(w http.ResponseWriter, r *http.Request, q url.Values, name string, body []byte) {
	from, to, copies := strings.Cut(name, "/rewriteTo/b/"+Bucket+"/o/")
	key, _ := url.PathUnescape(from)
	o := s.objects[key]
	only := q.Get("ifGenerationMatch")
	if copies {
		only = q.Get("ifSourceGenerationMatch")
	}
	switch {
	case o == nil:
		fail(w, http.StatusNotFound, "notFound", "No such object: "+Bucket+"/"+key)
	case !current(only, o):
		fail(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions did not hold.")
	case copies && q.Get("rewriteToken") == "":
		fmt.Fprintf(w, `{"done": false, "rewriteToken": "more", "totalBytesRewritten": "1"}`)
	case copies:
		copied := *o
		key, _ := url.PathUnescape(to)
		s.put(key, &copied)
		fmt.Fprintf(w, `{"done": true}`)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPatch:
		var change resource
		_ = json.Unmarshal(body, &change)
		changed := *o
		changed.Metadata = maps.Clone(o.Metadata)
		maps.Copy(changed.Metadata, change.Metadata)
		s.objects[key] = &changed
		_ = json.NewEncoder(w).Encode(describe(key, &changed))
	case q.Get("alt") != "media":
		_ = json.NewEncoder(w).Encode(describe(key, o))
	default:
		media(w, r, o)
	}
}

// media is the content, decompressed for who does not say that it takes it as it is.
func media(w http.ResponseWriter, r *http.Request, o *Object) {
	if o.ContentEncoding == "gzip" && r.Header.Get("Accept-Encoding") != "gzip" {
		fail(w, http.StatusInternalServerError, "test", "the content would be decompressed")
		return
	}
	from := 0
	if text := r.Header.Get("Range"); text != "" {
		if n, err := fmt.Sscanf(text, "bytes=%d-", &from); n != 1 || err != nil || from >= len(o.Body) {
			fail(w, http.StatusRequestedRangeNotSatisfiable, "requestedRangeNotSatisfiable", "range")
			return
		}
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = io.WriteString(w, o.Body[from:])
}

// begin writes an object, or begins a resumable upload.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, q url.Values, body []byte) {
	about, media := body, []byte(nil)
	if q.Get("uploadType") == "multipart" {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
		for i := 0; i < 2 && err == nil; i++ {
			var p *multipart.Part
			if p, err = parts.NextRawPart(); err == nil {
				about, media = media, nil
				media, err = io.ReadAll(p)
			}
		}
		if err != nil {
			fail(w, http.StatusBadRequest, "badRequest", err.Error())
			return
		}
	}
	var d resource
	if err := json.Unmarshal(about, &d); err != nil || d.Name == "" {
		fail(w, http.StatusBadRequest, "parseError", "Parse Error")
		return
	}
	u := &upload{key: d.Name, crc: d.CRC32C, body: media, only: q.Get("ifGenerationMatch"),
		o: &Object{ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, StorageClass: d.StorageClass,
			Metadata: d.Metadata, Query: r.URL.RawQuery}}
	if q.Get("uploadType") == "multipart" {
		s.finish(w, u)
		return
	}
	if !current(u.only, s.objects[u.key]) {
		fail(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions did not hold.")
		return
	}
	id := fmt.Sprintf("upload-%d", len(s.uploads)+len(s.finished)+1)
	s.uploads[id] = u
	w.Header().Set("Location", "http://elsewhere.invalid/upload/storage/v1/b/"+Bucket+"/o?uploadType=resumable&upload_id="+id)
}

func (s *Server) finish(w http.ResponseWriter, u *upload) {
	u.o.Body = string(u.body)
	switch {
	case !current(u.only, s.objects[u.key]):
		fail(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions did not hold.")
	case u.crc != "" && u.crc != checksum(u.o.Body):
		fail(w, http.StatusBadRequest, "invalid", "Provided CRC32C does not match")
	default:
		s.put(u.key, u.o)
		_ = json.NewEncoder(w).Encode(describe(u.key, u.o))
	}
}

// resume takes a part of an upload. Of all but the last, it keeps whole granules alone.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, id string, body []byte) {
	u := s.uploads[id]
	switch {
	case u == nil && s.finished[id] != nil && r.Method == http.MethodPut: // the service remembers it for a while
		_ = json.NewEncoder(w).Encode(describe("", s.finished[id]))
		return
	case u == nil:
		fail(w, http.StatusNotFound, "notFound", "no such upload")
		return
	}
	if r.Method == http.MethodDelete {
		delete(s.uploads, id)
		w.WriteHeader(499)
		return
	}
	var from, last, total int
	if n, _ := fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &last, &total); n == 3 {
		if from != len(u.body) || last-from+1 != len(body) {
			fail(w, http.StatusServiceUnavailable, "backendError", "out of order")
			return
		}
		if last+1 < total {
			body = body[:len(body)/(256<<10)*(256<<10)]
		}
		u.body = append(u.body, body...)
	}
	if total > 0 && len(u.body) == total {
		delete(s.uploads, id)
		s.finish(w, u)
		s.finished[id] = u.o
		return
	}
	if len(u.body) > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(u.body)-1))
	}
	w.WriteHeader(http.StatusPermanentRedirect)
}
