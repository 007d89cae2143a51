package aws

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
)

const (
	w3c  = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01"
	xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
)

func TestTheTraceOfXRayIsThatOfTheW3C(t *testing.T) {
	for header, want := range map[string]string{
		xray: w3c,
		"Self=1-1-1; Parent=53995c3f42cd8ad8; Root=1-5759e988-bd862e3fe1be46a994272793; Sampled=0; Lineage=a:0": w3c[:len(w3c)-1] + "0",
		"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=?":                            w3c[:len(w3c)-1] + "0",
		"Root=1-5759e988-bd862e3fe1be46a994272793":                                                              "", // no span
		"Root=1-5759e988-bd862e3fe1be46a99427279;Parent=53995c3f42cd8ad8":                                       "",
		"Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8":                                      "",
		"Root=1-5759E988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8":                                      "",
		"": "", ";;=": "",
	} {
		if got := asW3C(header); got != want {
			t.Errorf("%s becomes %q, want %q", header, got, want)
		}
	}
	for v, want := range map[any]string{
		w3c: xray,
		"00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-02":    xray[:len(xray)-1] + "0",
		"cc-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01-xy": xray, // of a version to come
		"ff-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01":    "",
		"00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8":       "",
		"00-5759e988bd862e3fe1be46a99427279g-53995c3f42cd8ad8-01":    "",
		"": "", 7: "", nil: "",
	} {
		if got := traceHeader(engine.Meta{}.With("traceparent", v)); got != want {
			t.Errorf("%v becomes %q, want %q", v, got, want)
		}
	}
}

func TestOnlyWithoutATraceparentDoesTheTraceOfXRayCount(t *testing.T) {
	w := &types.Message{Attributes: map[string]string{"AWSTraceHeader": xray}}
	if v, _ := Meta(engine.Meta{}, w).Get("traceparent"); v != w3c {
		t.Errorf("traceparent is %v", v)
	}
	kind, text := "String", "not valid"
	w.MessageAttributes = map[string]types.MessageAttributeValue{"traceparent": {DataType: &kind, StringValue: &text}}
	m := Meta(engine.Meta{}, w)
	if v, _ := m.Get("traceparent"); v != text {
		t.Errorf("traceparent is %v", v)
	}
	if v, _ := m.Get("trace_header"); v != xray {
		t.Errorf("trace_header is %v", v)
	}
}

// With the context of a trace a message may have more than ten values. It must not fail for that.
func TestTheContextOfATraceMakesRoomForOtherAttributes(t *testing.T) {
	for own, want := range map[int]int{7: 10, 8: 10, 10: 10} {
		for m := range enginetest.Batch("x").All() {
			for _, name := range engine.TraceContext {
				m.Meta = m.Meta.With(name, w3c)
			}
			for i := range own {
				m.Meta = m.Meta.With(fmt.Sprint("k", i), "v")
			}
			out := FIFO{}.Prepare(m, &expr.Expr{}, &expr.Expr{}, MaxMessage)
			sent := out.entry(0).MessageSystemAttributes["AWSTraceHeader"]
			if out.Err != nil || len(out.Attributes) != want || aws.ToString(sent.StringValue) != xray {
				t.Errorf("%d values of its own: %d attributes, trace %q, error %v", own, len(out.Attributes), out.Trace, out.Err)
			}
		}
	}
}
