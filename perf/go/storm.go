package main

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// storm has one timeout due in each millisecond, while the producers cancel and schedule as fast as
// they can, beside a goroutine that only sleeps until the same deadlines.
func (r *run) storm() error {
	each := r.of(1_000_000) / r.producers
	var filled, over sync.WaitGroup
	start := make(chan int64)
	rates, errs := make([]float64, r.producers), make([]error, r.producers)
	filled.Add(r.producers)
	for producer := range r.producers {
		over.Go(func() {
			handles := make([]*time.Timer, each)
			for i := range handles {
				handles[i] = time.AfterFunc(time.Minute, stray.task(i))
			}
			filled.Done()
			rates[producer], errs[producer] = turn(handles, <-start)
		})
	}
	filled.Wait()
	settle()
	random := random(0)
	due := int(r.long(3*time.Second) / time.Millisecond)
	recorder := newRecorder(due, true)
	handles := make([]*time.Timer, due)
	first := nanos() + 50_000_000
	for i := range handles {
		// Where in its step is random.
		recorder.deadlines[i] = first + int64(i)*1_000_000 + random.Int64N(1_000_000)
		handles[i] = time.AfterFunc(time.Duration(recorder.deadlines[i]-nanos()), recorder.task(i))
	}
	asleep := make([]int64, due)
	over.Go(func() {
		for i, deadline := range recorder.deadlines {
			time.Sleep(time.Duration(deadline - nanos()))
			asleep[i] = nanos() - deadline
		}
	})
	for range r.producers {
		start <- recorder.deadlines[due-1]
	}
	over.Wait()
	recorder.await(30 * time.Second)
	time.Sleep(20 * time.Millisecond)
	r.describe(recorder)
	slices.Sort(asleep)
	r.metrics["asleep_p50_ms"] = share(asleep, 0.5)
	r.metrics["asleep_p99_ms"] = share(asleep, 0.99)
	r.metrics["asleep_p999_ms"] = share(asleep, 0.999)
	r.metrics["asleep_max_ms"] = share(asleep, 1)
	r.metrics["more_p999_ms"] = r.metrics["p999_ms"] - share(asleep, 0.999)
	for producer, rate := range rates {
		if errs[producer] != nil {
			return errs[producer]
		}
		r.metrics["mops"] += rate
	}
	runtime.KeepAlive(handles)
	return stray.none()
}

// turn cancels each and schedules another, round after round. It returns millions a second.
func turn(handles []*time.Timer, until int64) (float64, error) {
	since, turns, refused := nanos(), 0, 0
	for nanos() < until {
		for i := range handles {
			if !handles[i].Stop() {
				refused++
			}
			handles[i] = time.AfterFunc(time.Minute, stray.task(i))
		}
		turns += len(handles)
	}
	return float64(turns) * 1e3 / float64(nanos()-since), none("cancelled", refused)
}
