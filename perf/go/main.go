// One case of the comparison, with the timers of Go's runtime. The command line says what to do,
// and how much of it: perf/src/compare/cases.rs has the numbers. The result is a line of JSON on
// standard output.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// ballast is what a heap has to hold so that a loop touches no page for the first time.
	ballast = 2 << 30
	// orderLong is the length of a random order that is gone through again and again.
	orderLong = 1 << 18
	// group is how many timeouts count down together: one counter for all would be fought over.
	group = 64
)

// run is a case with its options and its results; without the options it is what is printed.
type run struct {
	System    string             `json:"system"`
	Case      string             `json:"case"`
	Producers int                `json:"producers"`
	Metrics   map[string]float64 `json:"metrics"`
	Notes     []string           `json:"notes"`

	timeouts, operations, beside int
	least, most                  time.Duration
	pace                         float64
}

func main() {
	r := &run{Metrics: map[string]float64{}, Notes: []string{runtime.Version()}}
	flag.StringVar(&r.System, "system", "go", "what it is called")
	flag.StringVar(&r.Case, "case", "", "the case, for the result")
	work := flag.String("work", "", "what is done")
	flag.IntVar(&r.Producers, "producers", 1, "how many goroutines schedule")
	flag.IntVar(&r.timeouts, "timeouts", 0, "how many timeouts")
	flag.IntVar(&r.operations, "operations", 0, "how many operations of each producer")
	flag.IntVar(&r.beside, "beside", 0, "how many more are pending")
	least := flag.Int64("least-us", 0, "the least delay")
	most := flag.Int64("most-us", 0, "the most")
	flag.Float64Var(&r.pace, "pace", 1, "share of the full times")
	flag.Parse()
	r.least, r.most = time.Duration(*least)*time.Microsecond, time.Duration(*most)*time.Microsecond
	r.measure(*work)
	text, err := json.Marshal(r)
	if err != nil {
		fail("%v", err)
	}
	fmt.Println(string(text))
}

// fail says why, and ends the program.
func fail(why string, values ...any) {
	fmt.Fprintf(os.Stderr, "error: "+why+"\n", values...)
	os.Exit(1)
}

func (r *run) measure(work string) {
	debug.SetGCPercent(-1)
	switch work {
	case "schedule", "schedule-cold", "ring", "reset", "producers":
		touch()
	}
	switch work {
	case "schedule", "schedule-cold":
		r.report("", r.operations, func(producer int) func() { return r.schedule(producer, r.operations) })
	case "ring":
		r.report("", r.operations, func(int) func() { return r.ring() })
	case "reset":
		r.report("", r.operations, func(producer int) func() {
			handles, order := r.fill(r.timeouts, producer, nil), make([]int, orderLong)
			random := random(producer)
			for i := range order {
				order[i] = random.IntN(r.timeouts)
			}
			return func() { r.reset(handles, order, r.operations) }
		})
	case "producers":
		r.byProducers()
	case "lateness":
		r.lateness()
	case "memory":
		r.memory()
	case "idle":
		r.idle()
	case "burst", "burst-clock":
		r.burst(work == "burst-clock")
	default:
		fail("Go's timers do no %q", work)
	}
}

// touch makes the runtime keep memory that has been written to.
func touch() {
	const chunk = 1 << 20
	held := make([][]byte, 0, ballast/chunk)
	for range ballast / chunk {
		one := make([]byte, chunk)
		for at := 0; at < chunk; at += 4096 {
			one[at] = 1
		}
		held = append(held, one)
	}
	runtime.KeepAlive(held)
	held = nil
	runtime.GC()
}

// nothing is the task of a timer that is never due.
func nothing() {}

func random(seed int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

// delay returns one in whole microseconds, as timers are asked for.
func (r *run) delay(random *rand.Rand) time.Duration {
	return (r.least + time.Duration(random.Int64N(int64(r.most-r.least)+1))).Truncate(time.Microsecond)
}

// fill schedules so many, with closures of their own if they are counted by strays.
func (r *run) fill(count, seed int, strays *strays) []*time.Timer {
	random, handles := random(seed), make([]*time.Timer, count)
	for i := range handles {
		task := nothing
		if strays != nil {
			task = strays.task(i)
		}
		handles[i] = time.AfterFunc(r.delay(random), task)
	}
	return handles
}

// none fails if anything was refused.
func none(what string, refused int) {
	if refused > 0 {
		fail("%d were not %s, and none was due", refused, what)
	}
}

// report races so many operations of each producer, and keeps the figures.
func (r *run) report(prefix string, each int, prepare func(producer int) func()) {
	var ready, done, ended sync.WaitGroup
	start, read := make(chan struct{}), make(chan struct{})
	since, until := make([]int64, r.Producers), make([]int64, r.Producers)
	ready.Add(r.Producers)
	done.Add(r.Producers)
	for producer := range r.Producers {
		ended.Go(func() {
			work := prepare(producer)
			ready.Done()
			<-start
			since[producer] = nanos()
			work()
			until[producer] = nanos()
			done.Done()
			<-read
			// The producer keeps its timers until the CPU has been read.
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
	sum := int64(0)
	for producer := range r.Producers {
		sum += until[producer] - since[producer]
	}
	operations := float64(r.Producers * each)
	r.Metrics[prefix+"ns"] = float64(sum) / operations
	r.Metrics[prefix+"mops"] = operations * 1e3 / float64(slices.Max(until)-slices.Min(since))
	if prefix == "" {
		r.Metrics["cpu_ns"] = float64(used) / operations
	}
}

// settle waits until a timeout that is scheduled now has run.
func settle() {
	ran := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(ran) })
	<-ran
}

func (r *run) schedule(producer, each int) func() {
	random := random(producer)
	delays, handles := make([]time.Duration, each), make([]*time.Timer, each)
	for i := range delays {
		delays[i] = r.delay(random)
	}
	time.AfterFunc(time.Minute, nothing).Stop()
	return func() {
		for i, delay := range delays {
			handles[i] = time.AfterFunc(delay, nothing)
		}
	}
}

func (r *run) ring() func() {
	ring := r.fill(r.timeouts, 0, nil)
	turn := func(steps int) {
		refused := 0
		for step, place := 0, 0; step < steps; step++ {
			if !ring[place].Stop() {
				refused++
			}
			ring[place] = time.AfterFunc(r.most, nothing)
			if place++; place == r.timeouts {
				place = 0
			}
		}
		none("cancelled", refused)
	}
	turn(r.timeouts)
	return func() { turn(r.operations) }
}

func (r *run) reset(handles []*time.Timer, order []int, resets int) {
	refused := 0
	for i, at := 0, 0; i < resets; i++ {
		if !handles[order[at]].Reset(r.most) {
			refused++
		}
		if at++; at == len(order) {
			at = 0
		}
	}
	none("reset", refused)
}

// byProducers measures each operation on as many producers as there are to be.
func (r *run) byProducers() {
	const resets = 4
	each := (r.timeouts + r.Producers - 1) / r.Producers
	r.report("schedule_", each, func(producer int) func() { return r.schedule(producer, each) })
	r.report("reset_", each*resets, func(producer int) func() {
		handles, order := r.fill(each, producer, nil), random(producer).Perm(each)
		return func() { r.reset(handles, order, each*resets) }
	})
	r.report("cancel_", each, func(producer int) func() {
		handles, order := r.fill(each, producer, nil), random(producer).Perm(each)
		return func() {
			refused := 0
			for _, place := range order {
				if !handles[place].Stop() {
					refused++
				}
			}
			none("cancelled", refused)
		}
	})
}

func (r *run) lateness() {
	random, others := random(0), make([]*time.Timer, r.beside)
	for i := range others {
		others[i] = time.AfterFunc(30*time.Second+time.Duration(random.Int64N(int64(30*time.Second))), stray.task(i))
	}
	settle()
	recorder := newRecorder(r.timeouts, true)
	handles := make([]*time.Timer, r.timeouts)
	before := cpu()
	for i := range handles {
		delay := r.delay(random)
		recorder.deadlines[i] = nanos() + int64(delay)
		handles[i] = time.AfterFunc(delay, recorder.task(i))
	}
	recorder.await(30 * time.Second)
	used := cpu() - before
	time.Sleep(20 * time.Millisecond)
	r.describe(recorder)
	r.Metrics["cpu_s"] = float64(used) / 1e9
	if why := stray.ran(); why != "" {
		r.Notes = append(r.Notes, why)
	}
	runtime.KeepAlive(handles)
	runtime.KeepAlive(others)
}

func (r *run) memory() {
	settle()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	handles := r.fill(r.timeouts, 0, &stray)
	settle()
	runtime.GC()
	runtime.ReadMemStats(&after)
	r.Metrics["bytes"] = (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(r.timeouts)
	r.Notes = append(r.Notes, "bytes of the heap, after a collection")
	runtime.KeepAlive(handles)
	if why := stray.ran(); why != "" {
		fail("%s", why)
	}
}

func (r *run) idle() {
	// So that all other threads are the runtime's.
	runtime.LockOSThread()
	handles := r.fill(r.timeouts, 0, &stray)
	settle()
	sleep := func(full time.Duration) { time.Sleep(time.Duration(float64(full) * r.pace)) }
	sleep(500 * time.Millisecond)
	used, before := cpu(), wakeups()
	sleep(5 * time.Second)
	r.Metrics["wakeups"] = float64(wakeups() - before)
	r.Metrics["cpu_ms"] = float64(cpu()-used) / 1e6
	runtime.KeepAlive(handles)
}

// burst has all on one deadline. With a clock, each reads it and keeps how late it is.
func (r *run) burst(clock bool) {
	recorder := newRecorder(r.timeouts, clock)
	deadline := nanos() + 500_000_000 + 3_000*int64(r.timeouts)
	for i := range recorder.deadlines {
		recorder.deadlines[i] = deadline
	}
	handles := make([]*time.Timer, r.timeouts)
	for i := range handles {
		handles[i] = time.AfterFunc(time.Duration(deadline-nanos()), recorder.task(i))
	}
	if nanos() >= deadline {
		fail("this machine is too slow: the deadline had passed")
	}
	before := cpu()
	inTime := recorder.await(60 * time.Second)
	used := cpu() - before
	time.Sleep(20 * time.Millisecond)
	if !inTime || recorder.count(2) > 0 {
		fail("not all ran once")
	}
	if clock {
		r.describe(recorder)
	}
	r.Metrics["ms"] = float64(max(recorder.lastRan-deadline, 0)) / 1e6
	r.Metrics["cpu_ns"] = float64(used) / float64(r.timeouts)
	runtime.KeepAlive(handles)
}

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
	share := func(part float64) float64 {
		if len(late) == 0 {
			return 0
		}
		at := int(math.Ceil(part*float64(len(late)))) - 1
		return float64(late[min(max(at, 0), len(late)-1)]) / 1e6
	}
	for key, part := range map[string]float64{"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1} {
		r.Metrics[key] = share(part)
	}
	r.Metrics["early"] = float64(early)
	r.Metrics["missing"] = float64(len(recorder.runs) - len(late))
	r.Metrics["twice"] = float64(recorder.count(2))
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

// ran says how many there were, or nothing.
func (s *strays) ran() string {
	if count := s.count.Load(); count > 0 {
		return fmt.Sprintf("%d ran, number %d last, and none was due", count, s.last.Load())
	}
	return ""
}

// cpu returns the CPU nanoseconds of all threads that live, by the scheduler's account.
func cpu() int64 {
	return overThreads(func(thread string) int64 {
		text, _, _ := bytes.Cut(read(thread, "schedstat"), []byte{' '})
		value, _ := strconv.ParseInt(string(text), 10, 64)
		return value
	})
}

// wakeups returns how often all threads but the calling one, which the caller has to keep, have gone
// to sleep.
func wakeups() int64 {
	own := strconv.Itoa(syscall.Gettid())
	return overThreads(func(thread string) int64 {
		_, rest, found := strings.Cut(string(read(thread, "status")), "\nvoluntary_ctxt_switches:")
		if !found || filepath.Base(thread) == own {
			return 0
		}
		value, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		return value
	})
}

// read returns nothing of a thread that has ended between the listing and the reading.
func read(thread, name string) []byte {
	text, _ := os.ReadFile(filepath.Join(thread, name))
	return text
}

func overThreads(reading func(thread string) int64) int64 {
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(threads) == 0 {
		fail("threads are told apart by way of /proc, on Linux")
	}
	sum := int64(0)
	for _, thread := range threads {
		sum += reading(thread)
	}
	return sum
}
