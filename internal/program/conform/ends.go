package conform

import (
	"time"

	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/frame"
)

const drainTime = 5 * time.Second

func playDrain(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	defer c.end()
	p.sendBatch(c.some(c.size))
	p.sendBatch(c.some(2))
	p.write(encoded(frame.Drain(drainTime)))
	if err := p.untilAnswered(ruleDrain); err != nil {
		return err
	}
	p.close()
	return p.exits(ruleClose, "after its pipe was closed", true)
}

func playDrainClosed(c *check) error {
	p, err := c.start(greeting{})
	if err != nil {
		return err
	}
	defer p.kill()
	p.sendBatch(c.some(c.size))
	p.sendBatch(c.some(2))
	p.write(encoded(frame.Drain(drainTime)))
	p.close()
	if err := p.untilAnswered(ruleDrain); err != nil {
		return err
	}
	return p.exits(ruleClose, "after its pipe was closed", true)
}

func playClosed(c *check) error {
	p, err := c.start(greeting{})
	if err != nil {
		return err
	}
	defer p.kill()
	p.close()
	return p.exits(ruleKilled, "after its pipe was closed without `drain`", true)
}

// playKilled closes both pipes while the program has work.
func playKilled(c *check) error {
	p, err := c.start(greeting{})
	if err != nil {
		return err
	}
	defer p.kill()
	if c.Kind == frame.Input {
		p.grant(limitWindow)
	} else {
		p.sendBatch(c.some(c.size))
		p.sendBatch(c.some(c.size))
	}
	p.close()
	p.out.Close()
	return p.exits(ruleKilled, "after both pipes were closed", false)
}

func playTerm(c *check) error {
	p, err := c.start(greeting{})
	if err != nil {
		return err
	}
	defer p.kill()
	if err := programs.Terminate(p.cmd.Process); err != nil {
		return skipped("the signal can't be sent: %v", err)
	}
	return p.exits(ruleTerm, "after SIGTERM", false)
}

// playConfig starts the program with a config that is none of its own.
func playConfig(c *check) error {
	config := []byte(`"not what it expects"`)
	if len(c.Config) > 0 && c.Config[0] == '"' {
		config = []byte(`[7]`)
	}
	p, err := c.greet(greeting{config: config})
	if err != nil {
		return err
	}
	defer p.kill()
	err = p.untilReady()
	if p.ready != nil {
		return nil // it may ignore its config, or refuse it
	}
	if f, ok := err.(*finding); ok {
		return warning(ruleRefuse, "with the config %s, %s", config, f.Text)
	}
	return err
}
