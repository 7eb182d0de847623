package main

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// group is how many timeouts count down together: one counter for all would be fought over.
	group = 64
	// pointsAHalf is how many percentiles are kept for each half of what is left.
	pointsAHalf = 5
	halves      = 20
)

// epoch is what nanoseconds are counted from.
var epoch = time.Now()

func nanos() int64 {
	return int64(time.Since(epoch))
}

// padded is a counter on a cache line of its own.
type padded struct {
	left atomic.Int32
	_    [60]byte
}

// recorder keeps what the timeouts of a run did.
type recorder struct {
	deadlines []int64
	late      []int64
	runs      []atomic.Int32
	groups    []padded
	left      atomic.Int32
	lastRan   int64
	done      chan struct{}
}

// newRecorder keeps how late each was, too, if it is timed.
func newRecorder(total int, timed bool) *recorder {
	r := &recorder{
		runs:   make([]atomic.Int32, total),
		groups: make([]padded, (total+group-1)/group),
		done:   make(chan struct{}),
	}
	if timed {
		r.deadlines, r.late = make([]int64, total), make([]int64, total)
	}
	for at := range r.groups {
		r.groups[at].left.Store(int32(min(group, total-at*group)))
	}
	r.left.Store(int32(len(r.groups)))
	return r
}

// task is a closure of its own for each timeout: a pointer and a number.
func (r *recorder) task(number int) func() {
	return func() { r.ran(number) }
}

func (r *recorder) ran(number int) {
	now := int64(0)
	if r.deadlines != nil {
		now = nanos()
	}
	if r.runs[number].Add(1) > 1 {
		return
	}
	if r.deadlines != nil {
		r.late[number] = now - r.deadlines[number]
	}
	if r.groups[number/group].left.Add(-1) == 0 && r.left.Add(-1) == 0 {
		r.lastRan = nanos()
		close(r.done)
	}
}

// await tells whether all have run in time.
func (r *recorder) await(limit time.Duration) bool {
	select {
	case <-r.done:
		return true
	case <-time.After(limit):
		return false
	}
}

func (r *recorder) count(least int32) int {
	count := 0
	for at := range r.runs {
		if r.runs[at].Load() >= least {
			count++
		}
	}
	return count
}

// describe reports the lateness of all that have run.
func (r *run) describe(recorder *recorder) {
	late := make([]int64, 0, len(recorder.runs))
	early := 0
	for at := range recorder.runs {
		if recorder.runs[at].Load() > 0 {
			if recorder.late[at] < 0 {
				early++
			}
			late = append(late, max(recorder.late[at], 0))
		}
	}
	slices.Sort(late)
	r.metrics["p50_ms"] = share(late, 0.5)
	r.metrics["p99_ms"] = share(late, 0.99)
	r.metrics["p999_ms"] = share(late, 0.999)
	r.metrics["max_ms"] = share(late, 1)
	r.metrics["early"] = float64(early)
	r.metrics["missing"] = float64(len(recorder.runs) - len(late))
	r.metrics["twice"] = float64(recorder.count(2))
	r.percentiles = r.percentiles[:0]
	for step := range halves*pointsAHalf + 2 {
		part := 1 - math.Pow(0.5, float64(step)/pointsAHalf)
		if step > halves*pointsAHalf {
			part = 1
		}
		r.percentiles = append(r.percentiles, [2]float64{part, share(late, part)})
	}
}

// share returns the milliseconds within which that share of all lies.
func share(sorted []int64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(part*float64(len(sorted)))) - 1
	return float64(sorted[min(max(at, 0), len(sorted)-1)]) / 1e6
}

// strays are timeouts that ran, and were not due.
type strays struct {
	count, last atomic.Int64
}

// stray counts them all.
var stray strays

// task is a closure of its own, with a pointer and a number, for a timeout that is not to run.
func (s *strays) task(number int) func() {
	return func() {
		s.count.Add(1)
		s.last.Store(int64(number))
	}
}

func (s *strays) none() error {
	if count := s.count.Load(); count > 0 {
		return fmt.Errorf("%d ran, number %d last, and none was due", count, s.last.Load())
	}
	return nil
}
