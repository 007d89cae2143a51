package engine

import (
	"time"

	"github.com/flowd-io/flowd/schema"
)

// GroupConfig configures a group; see [Block].
type GroupConfig struct {
	Size    int           `yaml:"size" check:"min=1" doc:"Messages in a group. Without size and bytes, timeout alone closes it."`
	Bytes   schema.Size   `yaml:"bytes" check:"min=1" doc:"Bytes of payload in a group: it closes before a message that would exceed them, and a larger message goes alone."`
	Timeout time.Duration `yaml:"timeout" check:"min=1ms" doc:"Time since a group's first message after which the steps run over the messages so far; 1s by default."`
	Do      Steps         `yaml:"do" check:"required,nonempty" scope:"batch" doc:"Steps that run over the whole group; those for batches work here."`
}
