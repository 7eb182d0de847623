package main

import (
	"math/rand/v2"
	"runtime"
	"time"
)

func far(random *rand.Rand) time.Duration {
	return between(random, 60*time.Second, 120*time.Second)
}

// pending measures a single producer while so many others are pending.
func (r *run) pending(timeouts int) error {
	batch := max(1, min(timeouts/10, 10_000))
	rounds := (r.of(200_000) + batch - 1) / batch
	random := random(0)
	handles := make([]*time.Timer, timeouts)
	for i := range handles {
		handles[i] = time.AfterFunc(far(random), nothing)
	}
	settle()
	var cancelling, scheduling, resetting int64
	refused, stretch := 0, timeouts/batch
	places, others, delays := make([]int, batch), make([]int, batch), make([]time.Duration, batch)
	for range rounds {
		for i := range places {
			places[i], others[i], delays[i] = i*stretch+random.IntN(stretch), random.IntN(timeouts), far(random)
		}
		random.Shuffle(batch, func(i, j int) { places[i], places[j] = places[j], places[i] })
		since := nanos()
		for _, place := range places {
			if !handles[place].Stop() {
				refused++
			}
		}
		cancelled := nanos()
		for i, place := range places {
			handles[place] = time.AfterFunc(delays[i], nothing)
		}
		scheduled := nanos()
		for _, place := range others {
			if !handles[place].Reset(120 * time.Second) {
				refused++
			}
		}
		resetting += nanos() - scheduled
		cancelling += cancelled - since
		scheduling += scheduled - cancelled
	}
	all := float64(rounds * batch)
	r.metrics["schedule_ns"] = float64(scheduling) / all
	r.metrics["cancel_ns"] = float64(cancelling) / all
	r.metrics["reset_ns"] = float64(resetting) / all
	r.metrics["pending"] = float64(timeouts)
	runtime.KeepAlive(handles)
	return none("cancelled or reset", refused)
}

// byProducers measures each operation on as many producers as there are to be.
func (r *run) byProducers() error {
	const resets = 4
	each := (r.of(800_000) + r.producers - 1) / r.producers
	filled := func(producer int) ([]*time.Timer, []int) {
		random := random(producer)
		handles := make([]*time.Timer, each)
		for i := range handles {
			handles[i] = time.AfterFunc(between(random, 30*time.Second, 60*time.Second), nothing)
		}
		return handles, random.Perm(each)
	}
	scheduled, err := race(r.producers, each, func(producer int) func() error {
		random := random(producer)
		delays, handles := make([]time.Duration, each), make([]*time.Timer, each)
		for i := range delays {
			delays[i] = between(random, 30*time.Second, 60*time.Second)
		}
		return func() error {
			for i, delay := range delays {
				handles[i] = time.AfterFunc(delay, nothing)
			}
			return nil
		}
	})
	if err != nil {
		return err
	}
	reset, err := race(r.producers, each*resets, func(producer int) func() error {
		handles, order := filled(producer)
		return func() error {
			refused := 0
			for range resets {
				for _, place := range order {
					if !handles[place].Reset(time.Minute) {
						refused++
					}
				}
			}
			return none("reset", refused)
		}
	})
	if err != nil {
		return err
	}
	cancelled, err := race(r.producers, each, func(producer int) func() error {
		handles, order := filled(producer)
		return func() error {
			refused := 0
			for _, place := range order {
				if !handles[place].Stop() {
					refused++
				}
			}
			return none("cancelled", refused)
		}
	})
	r.metrics["schedule_mops"], r.metrics["schedule_ns"] = scheduled.mops, scheduled.ns
	r.metrics["reset_mops"], r.metrics["reset_ns"] = reset.mops, reset.ns
	r.metrics["cancel_mops"], r.metrics["cancel_ns"] = cancelled.mops, cancelled.ns
	return err
}
