package poll

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine/polling"

	"github.com/flowd-io/flowd/engine"
)

// table runs a strategy without pollers. Sources pause when they are empty.
type table struct {
	t        *testing.T
	strategy polling.Strategy
	sources  []*polling.Source
	pause    time.Duration
	due      map[string]time.Time
	now      time.Time
}

func play(t *testing.T, name string, pause time.Duration, sources ...*polling.Source) *table {
	t.Helper()
	s, err := polling.Name(name).New(engine.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return &table{t, s, sources, pause, map[string]time.Time{}, time.Now()}
}

// next selects a source, or returns "none".
func (p *table) next() string {
	var open []*polling.Source
	for _, s := range p.sources {
		if !p.now.Before(p.due[s.Name]) {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		return "none"
	}
	return p.strategy.Next(p.now, open).Name
}

func (p *table) source(name string) *polling.Source {
	return p.sources[slices.IndexFunc(p.sources, func(s *polling.Source) bool { return s.Name == name })]
}

func (p *table) found(name string) { p.strategy.Found(p.source(name), 1) }

func (p *table) empty(name string) {
	p.due[name] = p.now.Add(p.pause)
	p.strategy.Empty(p.source(name))
}

// want checks the selected sources, one for each word.
func (p *table) want(order string, after func(name string)) {
	p.t.Helper()
	var got []string
	for range strings.Fields(order) {
		name := p.next()
		got = append(got, name)
		if name != "none" && after != nil {
			after(name)
		}
	}
	if g := strings.Join(got, " "); g != order {
		p.t.Errorf("order %q, want %q", g, order)
	}
}

func of(name string, weight int) *polling.Source { return &polling.Source{Name: name, Weight: weight} }

const strict = "strict_priority"

func TestWeightedRoundRobinIsSmooth(t *testing.T) {
	p := play(t, weighted, 0, of("a", 2), of("b", 1))
	p.want("a b a a b a", p.found) // in every cycle as often as its weight, with messages or without
	p = play(t, weighted, 0, of("a", 5), of("b", 1), of("c", 1))
	p.want("a a b a c a a a a b a c a a", p.found)
}

func TestWeightedRoundRobinLeavesOutWhatPauses(t *testing.T) {
	p := play(t, weighted, 10*time.Second, of("a", 2), of("b", 1))
	p.want("a", p.empty)
	p.want("b b b", p.found)
}

func TestWeightedRoundRobinTakesBackWhatHasPaused(t *testing.T) {
	p := play(t, weighted, 10*time.Second, of("a", 2), of("b", 1))
	begin := p.now
	p.want("a", p.empty)
	p.now = begin.Add(5 * time.Second)
	p.want("b none", p.empty)
	p.now = begin.Add(11 * time.Second)
	p.want("a", p.found)
	p.now = begin.Add(17 * time.Second)
	p.want("a b", p.found)
}

func TestASourceThatIsEmptyForAMomentKeepsItsWeight(t *testing.T) {
	p := play(t, weighted, 0, of("a", 3), of("b", 1))
	p.want("a", p.empty)
	p.want("a b a a a b a", p.found)
}

func TestASourceThatComesBackGetsNoBurst(t *testing.T) {
	p := play(t, weighted, time.Minute, of("a", 1), of("b", 1))
	p.want("a", p.empty)
	p.want("b b b b b b b b", p.found)
	p.now = p.now.Add(time.Hour)
	p.want("b a b a b a", p.found) // it is still b's turn
}

func TestAnEmptySourceSavesUpNoTurns(t *testing.T) {
	p := play(t, weighted, 0, of("a", 1), of("b", 1))
	for range 50 {
		p.strategy.Next(p.now, p.sources[1:]) // a waits for a first message
		p.strategy.Empty(p.sources[0])
	}
	p.want("a b a b a b", p.found)
}

func TestNoSourcesNoChoice(t *testing.T) {
	for _, name := range []string{weighted, strict} {
		if s := play(t, name, 0).strategy.Next(time.Now(), nil); s != nil {
			t.Errorf("%s: got %v", name, s)
		}
	}
}

func TestStrictPriority(t *testing.T) {
	tests := []struct {
		name    string
		sources []*polling.Source
		after   string // the result of each read: found or empty
		want    string
	}{
		{"never a hit: from the top down and round", []*polling.Source{of("a", 3), of("b", 2), of("c", 1)}, "empty",
			"a b c a b c"},
		{"the order written is no matter", []*polling.Source{of("c", 1), of("a", 3), of("b", 2)}, "empty", "a b c a"},
		{"hits each time: always the highest", []*polling.Source{of("a", 3), of("b", 2), of("c", 1)}, "found",
			"a a a a"},
		{"equal weights: the order written", []*polling.Source{of("z", 1), of("m", 1), of("a", 1)}, "empty", "z m a z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := play(t, strict, 0, tt.sources...)
			p.want(tt.want, map[string]func(string){"found": p.found, "empty": p.empty}[tt.after])
		})
	}
}

func TestStrictPriorityGoesBackToTheTopAfterAHit(t *testing.T) {
	p := play(t, strict, 0, of("a", 3), of("b", 2), of("c", 1))
	p.want("a", p.empty)
	p.want("b", p.found)
	p.want("a", p.empty)
}

func TestStrictPrioritySkipsWhatPausesAndRestartsWhenItIsBack(t *testing.T) {
	p := play(t, strict, 10*time.Second, of("a", 3), of("b", 2), of("c", 1))
	p.want("a b", p.empty)
	p.want("c c", p.found) // b is skipped
	p.now = p.now.Add(11 * time.Second)
	p.want("a", p.empty)
	p.want("b", p.found)
}

func TestStrictPriorityRestartsFromTheTopWithAnyExpiry(t *testing.T) {
	p := play(t, strict, 10*time.Second, of("a", 3), of("b", 2), of("c", 1), of("d", 1))
	p.want("a", p.empty)
	p.now = p.now.Add(5 * time.Second)
	p.want("b c", p.empty)
	p.now = p.now.Add(6 * time.Second) // a is due, the scan is at d
	p.want("a", p.found)
}

func TestUnequalWeightsOfManySourcesAreExact(t *testing.T) {
	p := play(t, weighted, 0, of("a", 7), of("b", 2), of("c", 11))
	count := map[string]int{}
	for range 20 * 50 {
		count[p.next()]++
	}
	if count["a"] != 350 || count["b"] != 100 || count["c"] != 550 {
		t.Errorf("got %v", count)
	}
}
