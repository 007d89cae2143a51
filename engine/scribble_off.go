//go:build !race && !scribble

package engine

func (*Batch) scribble(int) {}
func (*Batch) unscribble()  {}
