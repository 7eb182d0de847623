package main

import (
	"fmt"
	"runtime"
	"time"
)

func (r *run) lateness(due, beside int) error {
	random := random(0)
	others := make([]*time.Timer, beside)
	for i := range others {
		others[i] = time.AfterFunc(between(random, 30*time.Second, 60*time.Second), stray.task(i))
	}
	settle()
	timeouts := r.of(due)
	recorder := newRecorder(timeouts, true)
	handles := make([]*time.Timer, timeouts)
	before := cpu()
	for i := range handles {
		delay := r.long(between(random, time.Second, 3*time.Second))
		recorder.deadlines[i] = nanos() + int64(delay)
		handles[i] = time.AfterFunc(delay, recorder.task(i))
	}
	recorder.await(30 * time.Second)
	used := cpu() - before
	time.Sleep(20 * time.Millisecond)
	r.describe(recorder)
	r.metrics["cpu_s"] = used.Seconds()
	if err := stray.none(); err != nil {
		r.notes = append(r.notes, err.Error())
	}
	runtime.KeepAlive(handles)
	runtime.KeepAlive(others)
	return nil
}

func (r *run) memory(timeouts int) error {
	settle()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	grown := -resident()
	random := random(0)
	handles := make([]*time.Timer, timeouts)
	for i := range handles {
		handles[i] = time.AfterFunc(between(random, 600*time.Second, 630*time.Second), stray.task(i))
	}
	settle()
	grown += resident()
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := func(bytes int64) float64 { return float64(bytes) / float64(timeouts) }
	r.metrics["bytes"] = each(int64(after.HeapAlloc) - int64(before.HeapAlloc))
	r.notes = append(r.notes, fmt.Sprintf("bytes of the heap; resident: %.0f", each(grown)))
	runtime.KeepAlive(handles)
	return stray.none()
}

func (r *run) idle(timeouts int) error {
	// So that all other threads are the runtime's.
	runtime.LockOSThread()
	random := random(0)
	handles := make([]*time.Timer, timeouts)
	for i := range handles {
		handles[i] = time.AfterFunc(between(random, 3_600*time.Second, 3_660*time.Second), stray.task(i))
	}
	settle()
	time.Sleep(r.long(500 * time.Millisecond))
	used, before := cpu(), wakeups()
	time.Sleep(r.long(5 * time.Second))
	r.metrics["wakeups"] = float64(wakeups() - before)
	r.metrics["cpu_ms"] = float64(cpu()-used) / 1e6
	runtime.KeepAlive(handles)
	return nil
}

// burst has all on one deadline. With a clock, each reads it and keeps how late it is.
func (r *run) burst(tasks int, clock bool) error {
	recorder := newRecorder(tasks, clock)
	deadline := nanos() + 500_000_000 + 3_000*int64(tasks)
	for i := range recorder.deadlines {
		recorder.deadlines[i] = deadline
	}
	handles := make([]*time.Timer, tasks)
	for i := range handles {
		task := recorder.task(i)
		handles[i] = time.AfterFunc(time.Duration(deadline-nanos()), task)
	}
	if nanos() >= deadline {
		return fmt.Errorf("this machine is too slow: the deadline had passed")
	}
	before := cpu()
	inTime := recorder.await(60 * time.Second)
	used := cpu() - before
	time.Sleep(20 * time.Millisecond)
	if !inTime || recorder.count(2) > 0 {
		return fmt.Errorf("not all ran once")
	}
	if clock {
		r.describe(recorder)
	}
	r.metrics["ms"] = float64(max(recorder.lastRan-deadline, 0)) / 1e6
	r.metrics["cpu_ns"] = float64(used) / float64(tasks)
	runtime.KeepAlive(handles)
	return nil
}

// keepAlives pushes a million out to 15 s, each of them once a second, for ten seconds.
func (r *run) keepAlives() error {
	const steps = 1_000
	// So that all other threads are the runtime's.
	runtime.LockOSThread()
	timeouts := r.of(1_000_000)
	random := random(0)
	handles := make([]*time.Timer, timeouts)
	for i := range handles {
		// As if they had been reset last over the ten seconds before.
		handles[i] = time.AfterFunc(between(random, 5*time.Second, 15*time.Second), stray.task(i))
	}
	settle()
	order := random.Perm(timeouts)
	batch, at := (timeouts+steps-1)/steps, 0
	push := func(length time.Duration) (time.Duration, error) {
		since, refused := time.Now(), 0
		for until := time.Millisecond; until <= length; until += time.Millisecond {
			for range batch {
				if !handles[order[at]].Reset(15 * time.Second) {
					refused++
				}
				if at++; at == timeouts {
					at = 0
				}
			}
			time.Sleep(time.Until(since.Add(until)))
		}
		return time.Since(since), none("reset", refused)
	}
	if _, err := push(time.Second); err != nil {
		return err
	}
	all, others, sleeps := cpu(), cpuOfOthers(), wakeups()
	length := r.long(10 * time.Second)
	took, err := push(length)
	r.metrics["cpu_s"] = (cpu() - all).Seconds()
	r.metrics["worker_cpu_s"] = (cpuOfOthers() - others).Seconds()
	r.metrics["wakeups"] = float64(wakeups() - sleeps)
	r.metrics["pool_cpu_s"], r.metrics["pool_wakeups"], r.metrics["pool_threads"] = 0, 0, 0
	if took > length+length/100 {
		r.notes = append(r.notes, fmt.Sprintf("the resets of %v took %v", length, took))
	}
	runtime.KeepAlive(handles)
	if err == nil {
		err = stray.none()
	}
	return err
}
