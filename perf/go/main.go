// One case of the comparison, with the timers of Go's runtime: the same workloads as in
// perf/src/compare/workloads, and the same line of JSON on standard output.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// ballast is what a heap has to hold so that a loop touches no page for the first time.
const ballast = 2 << 30

// run is a case with its options and its results.
type run struct {
	name        string
	producers   int
	scale, pace float64
	metrics     map[string]float64
	percentiles [][2]float64
	notes       []string
}

// line is what is printed.
type line struct {
	System      string             `json:"system"`
	Case        string             `json:"case"`
	Producers   int                `json:"producers"`
	Metrics     map[string]float64 `json:"metrics"`
	Percentiles [][2]float64       `json:"percentiles"`
	Notes       []string           `json:"notes"`
}

func main() {
	r := &run{metrics: map[string]float64{}, percentiles: [][2]float64{}, notes: []string{runtime.Version()}}
	system := flag.String("system", "go", "what it is called")
	flag.StringVar(&r.name, "case", "", "the case")
	flag.IntVar(&r.producers, "producers", 1, "how many goroutines schedule")
	flag.Float64Var(&r.scale, "scale", 1, "share of the full numbers")
	flag.Float64Var(&r.pace, "pace", 1, "share of the full times")
	flag.Parse()
	if err := r.measure(); err != nil {
		fail(err)
	}
	text, err := json.Marshal(line{*system, r.name, r.producers, r.metrics, r.percentiles, r.notes})
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

// of returns how many there are of so many at full size.
func (r *run) of(full int) int {
	return max(int(float64(full)*r.scale), min(full, 100))
}

// long returns how long it takes of the full time.
func (r *run) long(full time.Duration) time.Duration {
	return time.Duration(float64(full) * r.pace)
}

func (r *run) measure() error {
	switch r.name {
	case "w4-storm", "w4-keepalives":
		// They run for a time and not for a number: what they leave has to be collected.
	default:
		debug.SetGCPercent(-1)
	}
	switch r.name {
	case "w1", "w2", "w3", "w8-10k", "w8-100k", "w8-1m", "w8-10m", "w8-producers":
		touch()
	}
	switch r.name {
	case "w1", "w1-cold":
		return r.schedule(r.of(1_000_000))
	case "w2":
		return r.ring(r.of(1_000_000))
	case "w3":
		return r.reset(r.of(4_000_000))
	case "w4", "w4-fine":
		return r.lateness(1_000_000, 0)
	case "w4-sparse":
		return r.lateness(500, 0)
	case "w4-crowded":
		return r.lateness(1_000_000, r.of(10_000_000))
	case "w4-storm":
		return r.storm()
	case "w4-keepalives":
		return r.keepAlives()
	case "w5":
		return r.memory(r.of(1_000_000))
	case "w5-10m":
		return r.memory(r.of(10_000_000))
	case "w6-empty":
		return r.idle(0)
	case "w6":
		return r.idle(r.of(1_000_000))
	case "w7":
		return r.burst(r.of(100_000), false)
	case "w7-clock":
		return r.burst(r.of(100_000), true)
	case "w8-10k":
		return r.pending(r.of(10_000))
	case "w8-100k":
		return r.pending(r.of(100_000))
	case "w8-1m":
		return r.pending(r.of(1_000_000))
	case "w8-10m":
		return r.pending(r.of(10_000_000))
	case "w8-producers":
		return r.byProducers()
	}
	return fmt.Errorf("there is no case %q", r.name)
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

// nothing is what all that is never due would do.
func nothing() {}

func random(seed int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

// between returns a delay in microseconds, as timers are asked for.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(random.Int64N(int64(most-least)))).Truncate(time.Microsecond)
}
