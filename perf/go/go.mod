module tourbillon/perf/go

go 1.25
