package retry

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// server simulates an output in virtual time. It handles a limited number of writes at once; the others queue.
type server struct {
	*testing.T
	a   *Adaptive
	now time.Time

	latency time.Duration
	spread  func(*rand.Rand) float64 // factor of a latency, around 1
	failing bool
	offered int // number of concurrent writes that the pipeline has; 0: as many as the limit allows

	places []time.Time // when each slot of the server is free again, sorted
	flying []flight    // writes in flight, sorted by their end
	random *rand.Rand
	ran    time.Duration // duration of the last call of run
	done   int           // number of writes in it
	sum    int           // sum of the limits at the end of each write
	lowest int           // the lowest limit, except during probes
	most   int
}

type flight struct{ began, ends time.Time }

func steady(*rand.Rand) float64        { return 1 }
func even(r *rand.Rand) float64        { return 0.5 + r.Float64() }
func exponential(r *rand.Rand) float64 { return r.ExpFloat64() }

func newServer(t *testing.T, capacity, most int) *server {
	return &server{
		T: t, a: NewAdaptive(most), now: time.Unix(0, 0), places: make([]time.Time, capacity),
		latency: 50 * time.Millisecond, spread: steady, random: rand.New(rand.NewPCG(1, 2)),
	}
}

// run writes to the server for a while.
func (s *server) run(d time.Duration) {
	s.ran, s.done, s.sum, s.lowest, s.most = d, 0, 0, s.a.Limit(), s.a.Limit()
	for until := s.now.Add(d); s.now.Before(until); {
		for len(s.flying) < s.wanted() {
			s.begin()
		}
		f := s.flying[0]
		s.now = f.ends
		s.a.Ended(f.ends, f.ends.Sub(f.began), len(s.flying), s.failing)
		s.flying = s.flying[1:]
		s.done++
		limit := s.a.Limit()
		s.sum += limit
		if limit < 1 || float64(limit) > s.a.most {
			s.Fatalf("limit %d, want 1 to %v", limit, s.a.most)
		}
		if !s.a.probing {
			s.lowest = min(s.lowest, limit)
		}
		s.most = max(s.most, limit)
	}
}

func (s *server) wanted() int {
	if s.offered > 0 {
		return min(s.offered, s.a.Limit())
	}
	return s.a.Limit()
}

func (s *server) begin() {
	begins := s.now
	if s.places[0].After(begins) {
		begins = s.places[0]
	}
	ends := begins.Add(time.Duration(float64(s.latency) * s.spread(s.random)))
	place, _ := slices.BinarySearchFunc(s.places, ends, time.Time.Compare)
	place = max(1, place)
	copy(s.places, s.places[1:place])
	s.places[place-1] = ends
	i, _ := slices.BinarySearchFunc(s.flying, ends, func(f flight, t time.Time) int { return f.ends.Compare(t.Add(1)) })
	s.flying = slices.Insert(s.flying, i, flight{s.now, ends})
}

func (s *server) wantLimits(low, high int) {
	s.Helper()
	if s.lowest < low || s.most > high {
		s.Errorf("limit from %d to %d, want from %d to %d", s.lowest, s.most, low, high)
	}
}

// wantDone checks that the last call of run has used a share of the server's capacity.
func (s *server) wantDone(share float64) {
	s.Helper()
	if got := float64(s.done) * float64(s.latency) / float64(len(s.places)) / float64(s.ran); got < share {
		s.Errorf("%.0f %% of what the server can do, want %.0f %%", 100*got, 100*share)
	}
}

func TestAutoFindsWhatAServerCanDo(t *testing.T) {
	for _, k := range []int{1, 2, 3, 5, 10, 30, 100} {
		t.Run(fmt.Sprintf("%d at once", k), func(t *testing.T) {
			s := newServer(t, k, 1000)
			s.run(time.Minute)
			s.run(4 * time.Minute)
			s.wantLimits((k+1)/2, 3*k)
			s.wantDone(0.97)
		})
	}
}

func TestAutoBearsLatenciesThatVary(t *testing.T) {
	for name, spread := range map[string]func(*rand.Rand) float64{"evenly": even, "exponentially": exponential} {
		for _, k := range []int{1, 5, 20} {
			t.Run(fmt.Sprintf("%s, %d at once", name, k), func(t *testing.T) {
				s := newServer(t, k, 1000)
				s.spread = spread
				s.run(time.Minute)
				s.run(4 * time.Minute)
				s.wantDone(0.85)
				if average := float64(s.sum) / float64(s.done); average > float64(3*k+1) {
					t.Errorf("limit %.1f on average, want at most %d", average, 3*k+1)
				}
			})
		}
	}
}

func TestAutoStaysWithinItsBounds(t *testing.T) {
	s := newServer(t, 100, 7)
	s.run(time.Minute)
	s.run(time.Minute)
	s.wantLimits(7, 7)

	s = newServer(t, 100, 1)
	s.run(time.Minute)
	s.wantLimits(1, 1)
}

func TestAutoFallsToOneWhenAllFails(t *testing.T) {
	s := newServer(t, 50, 100)
	s.run(time.Minute)
	s.run(time.Minute)
	s.wantLimits(25, 100)
	s.failing = true
	s.run(10 * time.Second)
	s.run(time.Minute)
	s.wantLimits(1, 1)
	s.failing = false
	s.run(time.Minute)
	s.run(time.Minute)
	s.wantLimits(25, 100)
}

func TestAutoFallsToOneWhenAllIsRefusedAtOnce(t *testing.T) {
	s := newServer(t, 50, 100)
	s.run(time.Minute)
	s.failing, s.latency = true, time.Millisecond
	s.run(time.Minute)
	s.failing, s.latency = false, 50*time.Millisecond
	base := s.a.base
	if base < 0.999*s.latency.Seconds() {
		t.Errorf("base %v s, though no write that worked took less than %v", base, s.latency)
	}
}

func TestAutoSurvivesAFewFailures(t *testing.T) {
	a, now := NewAdaptive(100), time.Unix(0, 0)
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		a.Ended(now, time.Millisecond, a.Limit(), i%100 == 0)
	}
	if a.Limit() < 50 {
		t.Errorf("limit %d with one failure in a hundred, want it to grow", a.Limit())
	}
}

func TestAutoDoesNotGrowWhileItIsNotUsed(t *testing.T) {
	s := newServer(t, 100, 1000)
	s.offered = 1
	s.run(4 * time.Minute)
	s.wantLimits(1, 2)

	s.offered = 10
	s.run(4 * time.Minute)
	s.wantLimits(1, 20)
}

func TestAutoRecoversAfterASlowPhase(t *testing.T) {
	s := newServer(t, 20, 1000)
	s.run(time.Minute)

	places := s.places
	s.places = places[:2]
	s.run(3 * time.Minute) // the queue is still long at the first probes
	s.run(4 * time.Minute)
	s.wantLimits(1, 6)

	s.places = places
	s.run(time.Minute)
	s.run(4 * time.Minute)
	s.wantLimits(10, 60)
}

func TestAutoLearnsThatAServerHasBecomeSlower(t *testing.T) {
	s := newServer(t, 20, 1000)
	s.run(time.Minute)
	s.latency *= 10
	s.run(4 * time.Minute)
	s.run(4 * time.Minute)
	s.wantLimits(10, 60)
	s.latency /= 10
	s.run(time.Minute)
	s.run(4 * time.Minute)
	s.wantLimits(10, 60)
}

func TestAutoBearsWritesThatTakeNoTime(t *testing.T) {
	a, now := NewAdaptive(50), time.Unix(0, 0)
	for range 10_000 {
		a.Ended(now, 0, a.Limit(), false)
	}
	if a.Limit() != 50 {
		t.Errorf("limit %d, want 50", a.Limit())
	}
}

func BenchmarkAutoEnded(b *testing.B) {
	a, now := NewAdaptive(100), time.Unix(0, 0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		a.Ended(now, time.Millisecond, 10, false)
	}
}
