package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	ringLength = 1_000
	keptAlive  = 100_000
	orderLong  = 1 << 18
)

// lap is what a race took.
type lap struct {
	ns, cpuNs, mops float64
}

func (r *run) report(lap lap) {
	r.metrics["ns"], r.metrics["cpu_ns"], r.metrics["mops"] = lap.ns, lap.cpuNs, lap.mops
}

// race runs what each producer has prepared on all of them at once. CPU is counted until one more
// timeout has run. What the producers hold is held until then.
func race(producers, operationsEach int, prepare func(producer int) func() error) (lap, error) {
	var ready, done, ended sync.WaitGroup
	start, read := make(chan struct{}), make(chan struct{})
	since, until := make([]int64, producers), make([]int64, producers)
	errs := make([]error, producers)
	ready.Add(producers)
	done.Add(producers)
	for producer := range producers {
		ended.Go(func() {
			work := prepare(producer)
			ready.Done()
			<-start
			since[producer] = nanos()
			errs[producer] = work()
			until[producer] = nanos()
			done.Done()
			<-read
			runtime.KeepAlive(work)
		})
	}
	ready.Wait()
	before := cpu()
	close(start)
	done.Wait()
	settle()
	used := cpu() - before
	close(read)
	ended.Wait()
	sum, first, last := int64(0), since[0], until[0]
	for producer := range producers {
		if errs[producer] != nil {
			return lap{}, errs[producer]
		}
		sum += until[producer] - since[producer]
		first, last = min(first, since[producer]), max(last, until[producer])
	}
	operations := float64(producers * operationsEach)
	return lap{float64(sum) / operations, float64(used) / operations, operations * 1e3 / float64(last-first)}, nil
}

// settle waits until a timeout that is scheduled now has run.
func settle() {
	ran := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(ran) })
	<-ran
}

func (r *run) schedule(each int) error {
	lap, err := race(r.producers, each, func(producer int) func() error {
		random := random(producer)
		delays, handles := make([]time.Duration, each), make([]*time.Timer, each)
		for i := range delays {
			delays[i] = between(random, 30*time.Second, 60*time.Second)
		}
		time.AfterFunc(time.Minute, nothing).Stop()
		return func() error {
			for i, delay := range delays {
				handles[i] = time.AfterFunc(delay, nothing)
			}
			return nil
		}
	})
	r.report(lap)
	return err
}

func (r *run) ring(steps int) error {
	lap, err := race(r.producers, steps, func(int) func() error {
		ring := make([]*time.Timer, ringLength)
		for i := range ring {
			ring[i] = time.AfterFunc(time.Minute, nothing)
		}
		turn := func(steps int) error {
			cancelled := 0
			for step, place := 0, 0; step < steps; step++ {
				if ring[place].Stop() {
					cancelled++
				}
				ring[place] = time.AfterFunc(time.Minute, nothing)
				if place++; place == ringLength {
					place = 0
				}
			}
			return none("cancelled", steps-cancelled)
		}
		if err := turn(ringLength); err != nil {
			fail(err)
		}
		return func() error { return turn(steps) }
	})
	r.report(lap)
	return err
}

func (r *run) reset(resets int) error {
	keepAlives := r.of(keptAlive)
	lap, err := race(r.producers, resets, func(producer int) func() error {
		random := random(producer)
		handles, order := make([]*time.Timer, keepAlives), make([]int, orderLong)
		for i := range handles {
			handles[i] = time.AfterFunc(time.Minute, nothing)
		}
		for i := range order {
			order[i] = random.IntN(keepAlives)
		}
		return func() error {
			refused := 0
			for i := range resets {
				if !handles[order[i&(orderLong-1)]].Reset(time.Minute) {
					refused++
				}
			}
			return none("reset", refused)
		}
	})
	r.report(lap)
	return err
}

// none says what was refused, if anything was.
func none(what string, refused int) error {
	if refused == 0 {
		return nil
	}
	return fmt.Errorf("%d were not %s, and none was due", refused, what)
}
