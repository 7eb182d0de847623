package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpu returns the CPU time of all threads that live, by the scheduler's account.
func cpu() time.Duration {
	return time.Duration(overThreads(onCPU))
}

// cpuOfOthers returns that of all threads but the calling one, which the caller has to keep.
func cpuOfOthers() time.Duration {
	return time.Duration(overThreads(except(own(), onCPU)))
}

// wakeups returns how often all threads but the calling one, which the caller has to keep, have gone
// to sleep.
func wakeups() int64 {
	return overThreads(except(own(), func(thread string) int64 {
		return field(filepath.Join(thread, "status"), "voluntary_ctxt_switches:")
	}))
}

// resident returns resident memory in bytes.
func resident() int64 {
	return field("/proc/self/status", "VmRSS:") * 1024
}

// own returns the number of the calling thread.
func own() string {
	return strconv.Itoa(syscall.Gettid())
}

func except(own string, reading func(thread string) int64) func(string) int64 {
	return func(thread string) int64 {
		if filepath.Base(thread) == own {
			return 0
		}
		return reading(thread)
	}
}

func onCPU(thread string) int64 {
	text, err := os.ReadFile(filepath.Join(thread, "schedstat"))
	if err != nil {
		// It has ended between the listing and the reading: left out.
		return 0
	}
	nanos, _, _ := bytes.Cut(text, []byte{' '})
	value, err := strconv.ParseInt(string(nanos), 10, 64)
	if err != nil {
		fail(fmt.Errorf("schedstat: %w", err))
	}
	return value
}

func overThreads(reading func(thread string) int64) int64 {
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(threads) == 0 {
		fail(fmt.Errorf("threads are told apart by way of /proc, on Linux"))
	}
	sum := int64(0)
	for _, thread := range threads {
		sum += reading(thread)
	}
	return sum
}

// field returns the first number behind a name.
func field(path, name string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), name); found {
			value, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				fail(fmt.Errorf("%s of %s: %w", name, path, err))
			}
			return value
		}
	}
	return 0
}
